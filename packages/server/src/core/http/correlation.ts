/**
 * The request's id, which the caller may choose, and the trace of W3C Trace Context. Both go into the answer, the log
 * line and, if the caller sent them, the audit entries. Malformed values are ignored, as the specification requires.
 */
import { randomBytes, randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Correlation } from '../runner/operation.js'
import { atCallEnd } from './outcome.js'

/** Excludes API keys that were sent in the wrong header, which must not be logged. Commas join repeated headers. */
const REQUEST_ID = /^(?!eaas_)[A-Za-z0-9._~+/=:@-]{1,64}$/
/** Version 00; neither id may be all zeros. */
const TRACEPARENT = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/

export interface Tracing {
  /** Starts the span of a request, in the trace that the caller sent; undefined if no OpenTelemetry SDK is registered. */
  begin(request: FastifyRequest, sent: Trace | undefined): Trace | undefined
  within(request: FastifyRequest, work: () => void): void
  end(request: FastifyRequest, reply: FastifyReply): void
}

/** A trace, and a span in it: the call's own, or the caller's in a trace that it sent. `flags` are two hexadecimal digits. */
export type Trace = Record<'trace_id' | 'span_id' | 'flags', string>

declare module 'fastify' {
  interface FastifyRequest {
    trace: Trace | null
  }
}

/** The id of a request: the caller's if valid, otherwise a new one. */
export function requestId({ headers }: { headers: IncomingHttpHeaders }): string {
  return readRequestId(headers) ?? randomUUID()
}

/** Gives each request its trace, and sends the caller both ids. */
export function correlate(app: FastifyInstance, tracing: Tracing | undefined): void {
  app.decorateRequest('trace', null)
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    const sent = readTrace(request.headers)
    const trace = tracing?.begin(request, sent) ?? (sent && { ...sent, span_id: randomBytes(8).toString('hex') })
    if (trace) {
      request.trace = trace
      reply.header('traceresponse', `00-${trace.trace_id}-${trace.span_id}-${trace.flags}`)
    }
    done()
  })
  if (!tracing) return
  app.addHook('preHandler', (request, _, done) => tracing.within(request, done))
  atCallEnd(app, tracing.end)
}

/** The valid ids that the caller sent, for the audit entries; undefined if there are none. */
export function sentIds(headers: IncomingHttpHeaders): Correlation | undefined {
  if (headers['x-request-id'] === undefined && headers.traceparent === undefined) return undefined
  const request_id = readRequestId(headers)
  const [, trace_id] = TRACEPARENT.exec(String(headers.traceparent)) ?? []
  if (request_id === undefined && trace_id === undefined) return undefined
  return { ...(request_id !== undefined && { request_id }), ...(trace_id !== undefined && { trace_id }) }
}

function readRequestId(headers: IncomingHttpHeaders): string | undefined {
  const sent = headers['x-request-id']
  return typeof sent === 'string' && REQUEST_ID.test(sent) ? sent : undefined
}

function readTrace({ traceparent }: IncomingHttpHeaders): Trace | undefined {
  if (typeof traceparent !== 'string') return undefined
  const [, trace_id, span_id = '', flags = ''] = TRACEPARENT.exec(traceparent) ?? []
  return trace_id === undefined ? undefined : { trace_id, span_id, flags }
}
