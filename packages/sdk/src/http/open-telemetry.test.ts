import { AsyncLocalStorage } from 'node:async_hooks'
import * as openTelemetry from '@opentelemetry/api'
import { type Context, type ContextManager, context, propagation, ROOT_CONTEXT, trace } from '@opentelemetry/api'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { calls, connect, keyId, service, useEveryCall } from '../test-support/every-call.js'
import { problem, send } from '../test-support/service.js'

useEveryCall()

/** The part of OpenTelemetry's SDK for Node that keeps the active span over `await`. */
const storage = new AsyncLocalStorage<Context>()
const manager: ContextManager = {
  active: () => storage.getStore() ?? ROOT_CONTEXT,
  with: (within, work, self, ...args) => storage.run(within, () => work.call(self as never, ...args)),
  bind: (_, target) => target,
  enable: () => manager,
  disable: () => manager,
}
const exporter = new InMemorySpanExporter()

beforeAll(() => {
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }))
  propagation.setGlobalPropagator(new W3CTraceContextPropagator())
  context.setGlobalContextManager(manager)
})
afterAll(() => {
  for (const part of [trace, propagation, context]) part.disable()
})
beforeEach(() => exporter.reset())

const sentTraces = () => service.requests.map(({ headers }) => headers.traceparent)

describe('a client with OpenTelemetry', () => {
  it.each(calls)('makes a span for %s, which holds no value, key or secret', async (_, __, run) => {
    await run(connect({ openTelemetry })).catch(() => undefined)
    const spans = exporter.getFinishedSpans()
    expect(spans.length).toBeGreaterThan(0)
    for (const { name, kind, attributes, status, events } of spans) {
      expect(name).toMatch(/^eaas [a-zA-Z]+$/)
      expect(kind).toBe(openTelemetry.SpanKind.CLIENT)
      expect(Object.keys(attributes).filter((attribute) => attribute !== 'error.type')).toEqual([])
      expect(String(attributes['error.type'] ?? 'E_')).toMatch(/^E_[A-Z_]*$/)
      expect([status.message, events]).toEqual([undefined, []])
    }
  })

  it('sends the trace in which the application is, with the span of the call', async () => {
    const eaas = connect({ openTelemetry })
    const outer = trace.getTracer('application').startSpan('outer')
    await context.with(trace.setSpan(context.active(), outer), () => eaas.keys.get(keyId))
    outer.end()
    const [span] = exporter.getFinishedSpans()
    const { traceId, spanId } = outer.spanContext()
    expect(span?.parentSpanContext?.spanId).toBe(spanId)
    expect(sentTraces()).toEqual([`00-${traceId}-${span?.spanContext().spanId}-01`])
  })

  it('says of a refusal its code, and nothing of what was said', async () => {
    service.intercept = (_, response) => {
      send(response, problem(403, 'Refused', 'E_MISSING_PERMISSION', 'SECRET'))
      return true
    }
    await expect(connect({ openTelemetry }).keys.get(keyId)).rejects.toMatchObject({ code: 'E_API' })
    const [span] = exporter.getFinishedSpans()
    expect(span?.attributes['error.type']).toBe('E_MISSING_PERMISSION')
    expect(span?.status).toEqual({ code: openTelemetry.SpanStatusCode.ERROR })
  })

  it('sends only a traceparent, whatever else a propagator puts there', async () => {
    const given = (traceparent: unknown) => ({
      ...openTelemetry,
      propagation: {
        inject(_: unknown, carrier: Record<string, unknown>) {
          Object.assign(carrier, { traceparent, baggage: 'user=ada', authorization: 'x' })
        },
      },
    })
    await connect({ openTelemetry: given('00-ab-cd-01') }).keys.get(keyId)
    expect(service.requests[0]?.headers).toMatchObject({
      traceparent: '00-ab-cd-01',
      authorization: expect.stringMatching(/^Bearer /),
    })
    expect(service.requests[0]?.headers).not.toHaveProperty('baggage')
    for (const wrong of ['a\r\nb: c', { a: 1 }, ['x']]) await connect({ openTelemetry: given(wrong) }).keys.get(keyId)
    expect(sentTraces().slice(1)).toEqual([undefined, undefined, undefined])
  })
})

describe('a client without it', () => {
  it('sends no trace, although one is active', async () => {
    const outer = trace.getTracer('application').startSpan('outer')
    await context.with(trace.setSpan(context.active(), outer), () => connect().keys.get(keyId))
    expect(sentTraces()).toEqual([undefined])
    expect(exporter.getFinishedSpans()).toEqual([])
  })

  it('refuses its first call where what is given is something else', async () => {
    for (const wrong of [{}, { trace: {} }, 'x', () => undefined]) {
      const call = connect({ openTelemetry: wrong as never }).keys.get(keyId)
      await expect(call).rejects.toMatchObject({
        code: 'E_INVALID_INPUT',
        message: expect.stringContaining('openTelemetry'),
      })
    }
  })
})
