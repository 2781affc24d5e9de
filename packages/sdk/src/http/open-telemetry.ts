/** Spans of OpenTelemetry, through the API that the application passes: no dependency of the package. */
import { InvalidInputError, isEaasError } from '../errors.js'
import type { Call } from './calls.js'

/** The part of the module `@opentelemetry/api` that is used. */
export interface OpenTelemetry {
  trace: {
    getTracer(name: string): { startSpan(name: string, options: { kind: number }): Span }
    // biome-ignore lint/suspicious/noExplicitAny: a context is OpenTelemetry's own matter
    setSpan(context: any, span: any): any
  }
  // biome-ignore lint/suspicious/noExplicitAny: likewise
  context: { active(): any; with<T>(context: any, work: () => T): T }
  // biome-ignore lint/suspicious/noExplicitAny: likewise
  propagation: { inject(context: any, carrier: Record<string, unknown>): void }
}

interface Span {
  // biome-ignore lint/suspicious/noExplicitAny: it returns itself
  setAttribute(name: string, value: string): any
  // biome-ignore lint/suspicious/noExplicitAny: it returns itself
  setStatus(status: { code: number }): any
  end(): void
}

/** `SpanKind.CLIENT` and `SpanStatusCode.ERROR` of the API. */
const CLIENT = 2
const ERROR = 2

export type TraceHeaders = { traceparent?: string }

/** Runs a call in its own span, with its trace header. No other header, such as baggage: it may hold anything. */
export async function withSpan<T>(
  { trace, context, propagation }: OpenTelemetry,
  { operationId }: Call,
  run: (headers: TraceHeaders) => Promise<T>,
): Promise<T> {
  // Checked here, as a missing API key is: pages download the client first.
  if (!trace?.getTracer) throw new InvalidInputError('openTelemetry must be the module @opentelemetry/api')
  const span = trace.getTracer('@eaas/sdk').startSpan(`eaas ${operationId}`, { kind: CLIENT })
  const within = trace.setSpan(context.active(), span)
  const carrier: Record<string, unknown> = {}
  propagation.inject(within, carrier)
  const traceparent = String(carrier.traceparent)
  try {
    return await context.with(within, () => run(/^[0-9a-f-]+$/.test(traceparent) ? { traceparent } : {}))
  } catch (error) {
    // Never the message: an error of the application's `apiKey` function may say anything.
    span.setStatus({ code: ERROR })
    if (isEaasError(error)) span.setAttribute('error.type', error.code === 'E_API' ? error.problem : error.code)
    throw error
  } finally {
    span.end()
  }
}
