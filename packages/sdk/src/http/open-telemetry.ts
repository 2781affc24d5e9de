/** OpenTelemetry spans, through the API that the application passes, so that the package does not depend on it. */
import { InvalidInputError, isEaasError } from '../errors.js'
import type { Call } from './calls.js'

// biome-ignore lint/suspicious/noExplicitAny: contexts and spans are OpenTelemetry's own matter
type Any = any

/** The part of `@opentelemetry/api` that is used. */
export interface OpenTelemetry {
  trace: {
    getTracer(name: string): { startSpan(name: string, options: { kind: number }): Span }
    setSpan(context: Any, span: Any): Any
  }
  context: { active(): Any; with<T>(context: Any, work: () => T): T }
  propagation: { inject(context: Any, carrier: Record<string, unknown>): void }
}

interface Span {
  setAttribute(name: string, value: string): Any
  setStatus(status: { code: number }): Any
  end(): void
}

const CLIENT = 2
const ERROR = 2
export type TraceHeaders = { traceparent?: string }

/** Runs a call in its own span, with its trace header. No other header is sent: baggage, for example, may contain anything. */
export async function withSpan<T>(
  { trace, context, propagation }: OpenTelemetry,
  { operationId }: Call,
  run: (headers: TraceHeaders) => Promise<T>,
): Promise<T> {
  // Checked here, like a missing API key, to keep the client small, which pages download first.
  if (!trace?.getTracer) throw new InvalidInputError('openTelemetry must be the module @opentelemetry/api')
  const span = trace.getTracer('@eaas/sdk').startSpan(`eaas ${operationId}`, { kind: CLIENT })
  const within = trace.setSpan(context.active(), span)
  const carrier: Record<string, unknown> = {}
  propagation.inject(within, carrier)
  const traceparent = String(carrier.traceparent)
  try {
    return await context.with(within, () => run(/^[0-9a-f-]+$/.test(traceparent) ? { traceparent } : {}))
  } catch (error) {
    // Without the message: an error of the application's `apiKey` function may contain anything.
    span.setStatus({ code: ERROR })
    if (isEaasError(error)) span.setAttribute('error.type', error.code === 'E_API' ? error.problem : error.code)
    throw error
  } finally {
    span.end()
  }
}
