// Spans of OpenTelemetry, one for each request, if `@opentelemetry/api` is installed and an SDK is registered.
import type { Context, Span } from '@opentelemetry/api'
import type { FastifyRequest } from 'fastify'
import type { Trace, Tracing } from '../core/http/correlation.js'
import { VERSION } from '../version.js'

export async function loadTracing(): Promise<Tracing | undefined> {
  try {
    return createTracing(await import('@opentelemetry/api'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND') return undefined
    throw error
  }
}

type Api = typeof import('@opentelemetry/api')

export function createTracing(api: Api): Tracing {
  const { context, isSpanContextValid, propagation, SpanKind, SpanStatusCode, trace } = api
  const tracer = trace.getTracer('@eaas/server', VERSION)
  const spans = new WeakMap<FastifyRequest, Span>()

  function withSent(extracted: Context, sent: Trace | undefined): Context {
    if (!sent || trace.getSpanContext(extracted)) return extracted
    const { trace_id: traceId, span_id: spanId, flags } = sent
    return trace.setSpanContext(extracted, { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true })
  }

  return {
    begin(request, sent) {
      // If an instrumentation of node:http has already begun a span of the request, the new one is within it.
      const active = context.active()
      const isInner = trace.getSpan(active) !== undefined
      const parent = isInner ? active : withSent(propagation.extract(active, request.headers), sent)
      const { method, routeOptions } = request
      const route = routeOptions.url
      const kind = isInner ? SpanKind.INTERNAL : SpanKind.SERVER
      const attributes = { 'http.request.method': method, ...(route !== undefined && { 'http.route': route }) }
      const span = tracer.startSpan(route === undefined ? method : `${method} ${route}`, { kind, attributes }, parent)
      const { traceId, spanId, traceFlags } = span.spanContext()
      // Without an SDK, the API returns no new span, but the parent or an invalid one.
      if (trace.getSpanContext(parent)?.spanId === spanId) return undefined
      if (!isSpanContextValid({ traceId, spanId, traceFlags })) return undefined
      spans.set(request, span)
      return { trace_id: traceId, span_id: spanId, flags: traceFlags.toString(16).padStart(2, '0') }
    },
    within(request, work) {
      const span = spans.get(request)
      if (span) context.with(trace.setSpan(context.active(), span), work)
      else work()
    },
    end(request, { statusCode }) {
      const span = spans.get(request)
      if (!span) return
      span.setAttribute('http.response.status_code', statusCode)
      if (statusCode >= 500) span.setStatus({ code: SpanStatusCode.ERROR })
      span.end()
    },
  }
}
