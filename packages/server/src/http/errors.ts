/** Every error as a problem document: refusals, the framework's own errors, and the unexpected, which tells the caller nothing. */
import type { Duplex } from 'node:stream'
import { PROBLEM_CONTENT_TYPE, PROBLEMS, type ProblemCode, problemDocument } from '@eaas/protocol'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { AuditWriteError, ChainAlarmError, OverloadError } from '../audit/append-errors.js'
import { Refusal } from '../runner/refusal.js'
import { isUnreachable } from '../store/unreachable.js'
import { noteFailure, UNEXPECTED } from './request-log.js'

/** The framework's errors that a caller can cause. Any other is ours, and a 500. */
const FRAMEWORK_ERRORS: Readonly<Record<string, [ProblemCode, string]>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['E_MEDIA_TYPE', 'the body must be application/json in UTF-8'],
  FST_ERR_CTP_BODY_TOO_LARGE: ['E_BODY_TOO_LARGE', 'the body is larger than this call takes'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['E_MALFORMED_REQUEST', 'the body is not as long as Content-Length says'],
  FST_ERR_BAD_URL: ['E_MALFORMED_REQUEST', 'the path is not valid percent-encoding'],
  FST_ERR_HANDLER_TIMEOUT: ['E_UNAVAILABLE', 'the call took too long; try again later'],
  FST_ERR_MAX_PARAM_LENGTH: ['E_URI_TOO_LONG', 'the path is too long'],
  FST_ERR_ROUTE_METHOD_NOT_SUPPORTED: ['E_METHOD_NOT_ALLOWED', 'this method is not supported'],
}

/** Errors of the HTTP parser, before there is a request. */
const PARSER_ERRORS: Readonly<Record<string, [ProblemCode, string]>> = {
  HPE_HEADER_OVERFLOW: ['E_HEADERS_TOO_LARGE', 'the headers are too large'],
  ERR_HTTP_REQUEST_TIMEOUT: ['E_REQUEST_TIMEOUT', 'the request did not arrive in time'],
}

/** When a call that found the server or its database busy may be sent again. */
const RETRY_AFTER_SECONDS = '1'

/** What the caller is told of an error that nobody foresaw. */
export const UNEXPECTED_DETAIL =
  'unexpected error; the server log has it under this request id, or under that of an equal failure just before'

/** What a caller of an alarmed tenant is told, of reads too: what they would answer may be undone. */
const ALARM_DETAIL =
  "this tenant's audit log is not the one that was written, so no call of the tenant is carried out, reads included, until the " +
  'operator settles the alarm'

/** Answers with the problem document of an error; logs what is not the caller's doing. */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  if (error instanceof Refusal) return sendProblem(reply, error.code, error.message)
  // Nobody reads it; but the client's broken connection must not be taken for the database's.
  if (error === request.raw.errored) return sendProblem(reply, 'E_MALFORMED_REQUEST', 'the body did not arrive')
  if (error instanceof OverloadError) {
    reply.header('retry-after', String(error.retryAfterSeconds))
    return sendProblem(reply, 'E_UNAVAILABLE', 'too many calls are waiting; try again later')
  }
  if (error instanceof AuditWriteError && !error.mayBeWritten && isUnreachable(error.cause)) {
    noteFailure(request, error, 'the database does not answer')
    return sendProblem(
      reply,
      'E_UNAVAILABLE',
      'the database does not answer, so the call was not carried out; try again later',
    )
  }
  if (error instanceof ChainAlarmError) {
    noteFailure(request, error, 'the tenant is alarmed about')
    return sendProblem(reply, 'E_AUDIT_NOT_WRITTEN', ALARM_DETAIL)
  }
  if (error instanceof AuditWriteError) {
    noteFailure(request, error, 'audit entry not written')
    return sendProblem(
      reply,
      'E_AUDIT_NOT_WRITTEN',
      error.mayBeWritten
        ? 'it is not known whether the audit entry was written and the call carried out; look before you repeat it'
        : 'the audit entry could not be written, so the call was not carried out',
    )
  }
  if (isUnreachable(error)) {
    noteFailure(request, error, 'the database does not answer')
    return sendProblem(reply, 'E_UNAVAILABLE', 'the database does not answer; try again later')
  }
  const known = FRAMEWORK_ERRORS[(error as { code?: string }).code ?? '']
  if (known) return sendProblem(reply, ...known)
  noteFailure(request, error, UNEXPECTED)
  return sendProblem(reply, 'E_INTERNAL', UNEXPECTED_DETAIL)
}

/** Answers with a problem document. */
export function sendProblem(reply: FastifyReply, code: ProblemCode, detail: string): FastifyReply {
  if (code === 'E_UNAUTHORIZED') reply.header('www-authenticate', 'Bearer')
  if (PROBLEMS[code].status === 503 && !reply.hasHeader('retry-after')) reply.header('retry-after', RETRY_AFTER_SECONDS)
  return reply
    .code(PROBLEMS[code].status)
    .header('x-request-id', reply.request.id)
    .header('content-type', PROBLEM_CONTENT_TYPE)
    .send(Buffer.from(JSON.stringify(problemDocument(code, detail)))) // as bytes: to text, the framework adds a charset
}

/** Answers on the bare socket where the HTTP parser gave up, and closes it. */
export function sendParserError(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const [code, detail] = PARSER_ERRORS[error.code ?? ''] ?? ['E_MALFORMED_REQUEST', 'not a valid HTTP request']
  const { status, title } = PROBLEMS[code]
  const body = JSON.stringify(problemDocument(code, detail))
  socket.end(
    `HTTP/1.1 ${status} ${title}\r\ncontent-type: ${PROBLEM_CONTENT_TYPE}\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  )
}
