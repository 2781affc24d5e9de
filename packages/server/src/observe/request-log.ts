// One log line for each request. A failure's line has at most 512 bytes, and equal failures get one line a second.
// Equal refusals get the first few lines of each minute, so that a flood of them does not fill the disk.
import type { Socket } from 'node:net'
import { finished, Readable } from 'node:stream'
import { PROBLEMS } from '@eaas/protocol'
import type { FastifyBaseLogger, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { findParserProblem } from '../core/http/early-answers.js'
import { atCallEnd, type Failure, failureOf, noteFailure, UNEXPECTED } from '../core/http/outcome.js'
import { clientAddress } from '../core/http/request-head.js'
import type { Services } from '../core/runner/operation.js'
import { createSampler, type Sampler, type Write } from './log-sampler.js'
import type { Metrics } from './metrics.js'
import { countRefusals, type RefusalLine } from './refusals.js'

const LINE_BYTES = 512 // most bytes of a failure's line with its line feed, as `loggerOptions` writes it
const BETWEEN_LINES_MS = 1_000 // between two lines of equal failures
const FIRST_REFUSALS = 5 // lines a minute for refusals with the same code, reason and API key or, without one, address
const REFUSALS_MS = 60_000
/** The most kinds at a time, as an attacker can have any number of addresses. Further ones are distinguished by code alone. */
const MOST_KINDS = 256
const OTHERS = 'others' // the kind of failures beyond this number
const ERROR = 50 // Pino's number of `error`
const REQUEST = 'request'

/** Logs requests by their routes, since URLs may contain a secret by mistake; counts the refused ones. */
export function createRequestLog(services: Services, metrics: Metrics) {
  const failureLines = createSampler({ first: 1, windowMs: BETWEEN_LINES_MS, mostKinds: MOST_KINDS })
  const refusalLines = createSampler({ first: FIRST_REFUSALS, windowMs: REFUSALS_MS, mostKinds: MOST_KINDS })

  function logRequest(request: FastifyRequest, reply: FastifyReply, isAnswered: boolean): void {
    const failure = failureOf(request)
    const refusal = countRefusals(request, services, metrics)
    const line = describeRequest(request, reply, isAnswered)
    if (failure) logFailure(request, { line, failure, sampler: failureLines })
    else if (reply.statusCode >= 500 && isAnswered) {
      const kind = JSON.stringify([reply.statusCode, line.route, line.api_key_id])
      failureLines.take(kind, OTHERS, writer(request.log, line))
    } else if (refusal?.code === undefined) request.log.info({ ...line, ...refusal }, REQUEST)
    else logRefusal(request.log, { ...line, ...refusal })
  }

  function logRefusal(log: FastifyBaseLogger, line: RefusalLine): void {
    const { code = OTHERS, reason, api_key_id, ip_address } = line
    refusalLines.take(JSON.stringify([code, reason, api_key_id ?? ip_address]), code, writer(log, line))
  }

  return {
    /** Logs each request of the application when it is answered, and each that is unreadable. */
    attach(app: FastifyInstance): void {
      atCallEnd(app, logRequest)
      app.addHook('onSend', (request, reply, payload, done) => {
        const noteCut = (error: Error) => reply.raw.headersSent && noteFailure(request, error, 'answer cut off')
        if (payload instanceof Readable) payload.once('error', noteCut)
        done(null, payload)
      })
      app.addHook('onClose', (_, done) => {
        failureLines.close()
        refusalLines.close()
        done()
      })
      // Before the answer, which may close the socket: its address is then unknown.
      app.server.prependListener('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
        const [code] = findParserProblem(error) ?? []
        // A client that disconnects in the middle of a request is not refused.
        if (code === undefined || error.code === 'HPE_INVALID_EOF_STATE' || !socket.writable) return
        metrics.observeRefusal({ code }, 1)
        const line = { method: null, route: null, status: PROBLEMS[code].status, code }
        logRefusal(app.log, { ...line, ip_address: clientAddress(socket.remoteAddress) })
      })
    },
    /** Logs a request for which the framework runs no hooks. Call it before the request is answered. */
    logWithoutHooks(request: FastifyRequest, reply: FastifyReply): void {
      finished(reply.raw, (error) => logRequest(request, reply, !error))
    },
  }
}

/** Keeps only the line, so that a waiting line does not keep the request's body in memory. */
function writer(log: FastifyBaseLogger, line: object): Write {
  return (leftOut) => log.info({ ...line, ...leftOutOf(leftOut) }, REQUEST)
}

function logFailure(
  request: FastifyRequest,
  { line, failure: { error, msg }, sampler }: { line: RequestLine; failure: Failure; sampler: Sampler },
): void {
  const { id, log } = request
  // A defect is found by its stack, of which one line is enough. Errors of the driver have no frame of their caller, so
  // the route also distinguishes them.
  const isDefect = msg === UNEXPECTED
  const stack = isDefect && error instanceof Error ? error.stack?.match(/^\s+at .*$/gm) : undefined
  const place = isDefect ? [request.routeOptions.url, stack] : []
  sampler.take(JSON.stringify([msg, kindsOf(error), place]), OTHERS, (leftOut, isFirst) => {
    if (isFirst && isDefect) log.error({ err: error }, msg)
    const fields = { ...line, ...leftOutOf(leftOut), error: '' }
    const others = { level: ERROR, time: Date.now(), reqId: id, ...fields, msg }
    const room = LINE_BYTES - Buffer.byteLength(JSON.stringify(others)) - 1
    log.error({ ...fields, error: shorten(describeError(error), room) }, msg)
  })
}

interface RequestLine {
  trace_id?: string
  span_id?: string
  tenant_id?: string // of a call that was admitted, as in its audit entries
  api_key_id?: string
  method: string
  route: string | null
  status: number
  ms: number
  answered?: false // if the answer was not sent completely
}

function describeRequest(request: FastifyRequest, reply: FastifyReply, isAnswered: boolean): RequestLine {
  const { trace, credentials, admitted } = request
  return {
    ...(trace && { trace_id: trace.trace_id, span_id: trace.span_id }),
    ...(credentials && admitted && { tenant_id: credentials.tenant_id, api_key_id: admitted.api_key_id }),
    method: request.method,
    route: request.routeOptions.url ?? null,
    status: reply.statusCode,
    ms: Math.round(reply.elapsedTime * 10) / 10,
    ...(!isAnswered && { answered: false }),
  }
}

function leftOutOf(count: number): { left_out?: number } {
  return count > 0 ? { left_out: count } : {}
}

/** The names and codes, from the error to its first cause, then the message of that cause, the most specific one. */
function describeError(error: unknown): string {
  let first = error
  while (first instanceof Error && first.cause !== undefined) first = first.cause
  return `${kindsOf(error)}: ${first instanceof Error ? first.message : String(first)}`
}

function kindsOf(error: unknown): string {
  if (!(error instanceof Error)) return typeof error
  const { code } = error as { code?: unknown }
  const own = typeof code === 'string' ? `${error.name} ${code}` : error.name
  return error.cause === undefined ? own : `${own} < ${kindsOf(error.cause)}`
}

// Counts the bytes in JSON, where escapes are longer than the characters that they encode.
function shorten(text: string, bytes: number): string {
  let kept = ''
  let left = bytes
  for (const character of text) {
    left -= Buffer.byteLength(JSON.stringify(character)) - 2
    if (left < 0) break
    kept += character
  }
  return kept
}
