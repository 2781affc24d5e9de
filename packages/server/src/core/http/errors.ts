/**
 * Answers every error with a problem document: refusals, failures, the framework's errors, requests that match no
 * route, and unexpected errors, whose cause it does not show.
 */
import { DETAILS, PROBLEM_CONTENT_TYPE, PROBLEMS, type ProblemCode, problemDocument } from '@eaas/protocol'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { findFailure, Refusal } from '../runner/refusal.js'
import { noteFailure, noteRefusal, UNEXPECTED } from './outcome.js'

/** The framework's errors that a caller can cause. Any other is a defect of the server, and answered with 500. */
const FRAMEWORK_ERRORS: Readonly<Record<string, [ProblemCode, string]>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['E_MEDIA_TYPE', DETAILS.E_MEDIA_TYPE.body],
  FST_ERR_CTP_BODY_TOO_LARGE: ['E_BODY_TOO_LARGE', DETAILS.E_BODY_TOO_LARGE.body],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: [
    'E_MALFORMED_REQUEST',
    'the body does not have the length that Content-Length gives',
  ],
  FST_ERR_BAD_URL: ['E_MALFORMED_REQUEST', 'the path is not valid percent-encoding'],
  FST_ERR_HANDLER_TIMEOUT: ['E_UNAVAILABLE', 'the call took too long; try again later'],
  FST_ERR_MAX_PARAM_LENGTH: ['E_URI_TOO_LONG', DETAILS.E_URI_TOO_LONG.path],
  FST_ERR_ROUTE_METHOD_NOT_SUPPORTED: ['E_METHOD_NOT_ALLOWED', 'this method is not supported'],
}

/** After how long a call that found the server or its database busy may be repeated. */
const RETRY_AFTER_SECONDS = '1'

export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  if (error instanceof Refusal) {
    noteRefusal(request, error)
    return sendProblem(reply, error.code, error.message, error.caller.retryAfterSeconds)
  }
  // The client is gone. Its broken connection must not be mistaken for the database's, or for a refusal.
  if (error === request.raw.errored) return writeProblem(reply, 'E_MALFORMED_REQUEST', 'the body did not arrive')
  const failure = findFailure(error)
  if (failure) {
    const { code, detail, log, retryAfterSeconds } = failure
    if (log !== undefined) noteFailure(request, error, log)
    return sendProblem(reply, code, detail, retryAfterSeconds)
  }
  const known = FRAMEWORK_ERRORS[(error as { code?: string }).code ?? '']
  if (known) return sendProblem(reply, ...known)
  noteFailure(request, error, UNEXPECTED)
  return sendProblem(reply, 'E_INTERNAL', DETAILS.E_INTERNAL.unexpected)
}

function sendProblem(reply: FastifyReply, code: ProblemCode, detail: string, retryAfterSeconds?: number): FastifyReply {
  noteRefusal(reply.request, { code })
  return writeProblem(reply, code, detail, retryAfterSeconds)
}

function writeProblem(reply: FastifyReply, code: ProblemCode, detail: string, seconds?: number): FastifyReply {
  const { status } = PROBLEMS[code]
  if (code === 'E_UNAUTHORIZED') reply.header('www-authenticate', 'Bearer')
  if (seconds !== undefined) reply.header('retry-after', String(seconds))
  else if (status === 503) reply.header('retry-after', RETRY_AFTER_SECONDS)
  reply.code(status).header('x-request-id', reply.request.id).header('content-type', PROBLEM_CONTENT_TYPE)
  return reply.send(Buffer.from(JSON.stringify(problemDocument(code, detail, seconds)))) // as text, it would get a charset
}

/** Answers 404 or 405 where there is no route. Call it before preflights and routes are registered. */
export function answerNotFound(app: FastifyInstance): void {
  const known: { pattern: RegExp; methods: string[] }[] = []
  app.addHook('onRoute', ({ url, method }) => {
    if (url === '*') return // preflights
    const pattern = new RegExp(`^${url.replaceAll('.', '\\.').replaceAll(/:\w+/g, '[^/]+')}$`)
    known.push({ pattern, methods: [method].flat() })
  })
  app.setNotFoundHandler((request, reply) => sendNotFound(request, reply))
  // Before preflights are answered: otherwise every path would have them, and an invalid one would get plain text.
  app.addHook('onRequest', (request, reply, done) => {
    if (request.method === 'OPTIONS' && !isPreflight(request)) sendNotFound(request, reply)
    else done()
  })
  // Before the body is read: otherwise a QUERY without a Content-Type would get the framework's own error.
  app.addHook('preParsing', (request, reply, payload, done) => {
    if (request.is404) sendNotFound(request, reply)
    else done(null, payload)
  })

  function isPreflight(request: FastifyRequest): boolean {
    const { origin, 'access-control-request-method': method } = request.headers
    return origin !== undefined && method !== undefined && methodsOf(request).length > 0
  }

  function methodsOf(request: FastifyRequest): string[] {
    const [path = ''] = request.url.split('?')
    return known.filter(({ pattern }) => pattern.test(path)).flatMap((route) => route.methods)
  }

  function sendNotFound(request: FastifyRequest, reply: FastifyReply): FastifyReply {
    const methods = methodsOf(request)
    if (methods.length === 0) return sendProblem(reply, 'E_ROUTE_NOT_FOUND', DETAILS.E_ROUTE_NOT_FOUND.path)
    reply.header('allow', [...new Set(methods)].join(', '))
    return sendProblem(reply, 'E_METHOD_NOT_ALLOWED', DETAILS.E_METHOD_NOT_ALLOWED.method)
  }
}
