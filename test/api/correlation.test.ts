// What finds a call again: the caller's request id and trace, in the answer, the line of the log, the audit entries and spans.
import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import * as openTelemetry from '@opentelemetry/api'
import { context, propagation, ROOT_CONTEXT, trace } from '@opentelemetry/api'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { buildApp } from '../../packages/server/src/app.js'
import type { Tracing } from '../../packages/server/src/core/http/correlation.js'
import { loggerOptions } from '../../packages/server/src/observe/logger.js'
import { createTracing } from '../../packages/server/src/observe/tracing.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736'
const TRACEPARENT = `00-${TRACE_ID}-00f067aa0ba902b7-01`
const UUID = /^[0-9a-f-]{36}$/

let service: Service
let owner: Caller
let id: string
beforeAll(async () => {
  service = await startService()
  owner = await service.createTenant()
  id = (await owner.call('POST', '/v1/keys', { name: 'k' })).body.id
})
afterAll(() => service?.close())

const dek = () => randomBytes(32).toString('base64')
const wrap = (headers: Record<string, string>) => owner.call('POST', `/v1/keys/${id}/wrap`, { dek: dek() }, headers)
const newest = async () => (await owner.call('GET', '/v1/audit?limit=1')).body.logs[0].metadata

describe('the id that a caller gives its request', () => {
  it('comes back, and is in the entry', async () => {
    const { headers } = await wrap({ 'x-request-id': 'order-4711/attempt:2' })
    expect(headers.get('x-request-id')).toBe('order-4711/attempt:2')
    expect(await newest()).toEqual({ key_version: 1, request_id: 'order-4711/attempt:2' })
    expect((await owner.call('GET', '/v1/audit/verify')).body.valid).toBe(true)
  })

  it('is in the entry of each call of a batch, beside the end user', async () => {
    const operations = [1, 2].map(() => ({ op: 'wrap', key_id: id, dek: dek() }))
    const headers = { 'x-request-id': 'b-1', 'eaas-on-behalf-of': 'ada', traceparent: TRACEPARENT }
    expect((await owner.call('POST', '/v1/batch', { operations }, headers)).status).toBe(200)
    const { logs } = (await owner.call('GET', '/v1/audit?limit=2')).body
    const metadata = { key_version: 1, on_behalf_of: 'ada', request_id: 'b-1', trace_id: TRACE_ID }
    expect(logs.map((log: { metadata: object }) => log.metadata)).toEqual([metadata, metadata])
  })

  it.each([
    ['is too long', 'a'.repeat(65)],
    ['has a blank', 'a b'],
    ['has a comma, as a repeated header has', 'a, b'],
    ['has a quote', 'a"b'],
    ['is an API key', `eaas_sk_${'0'.repeat(12)}`],
    ['has a character beyond ASCII', 'é'],
    ['is empty', ''],
  ])('is another one where it %s', async (_, sent) => {
    const { status, headers } = await wrap({ 'x-request-id': sent })
    expect([status, headers.get('x-request-id')]).toEqual([200, expect.stringMatching(UUID)])
    expect(await newest()).toEqual({ key_version: 1 })
  })

  it('is in a refusal too', async () => {
    const { status, headers } = await owner.call('GET', '/v1/keys/none', undefined, { 'x-request-id': 'r-1' })
    expect([status, headers.get('x-request-id')]).toEqual([404, 'r-1'])
  })
})

describe('the trace that a caller names', () => {
  it('is answered with a span of the call, and is in the entry', async () => {
    const { headers } = await wrap({ traceparent: TRACEPARENT })
    const [, span] = new RegExp(`^00-${TRACE_ID}-([0-9a-f]{16})-01$`).exec(headers.get('traceresponse') ?? '') ?? []
    expect(span).not.toBe('00f067aa0ba902b7')
    expect(span).toMatch(/^[0-9a-f]{16}$/)
    expect(await newest()).toEqual({ key_version: 1, trace_id: TRACE_ID })
  })

  it.each([
    ['another version', TRACEPARENT.replace('00-', '01-')],
    ['the version that is not valid', TRACEPARENT.replace('00-', 'ff-')],
    ['capital letters', TRACEPARENT.toUpperCase()],
    ['a trace of zeros', `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`],
    ['a span of zeros', `00-${TRACE_ID}-${'0'.repeat(16)}-01`],
    ['more behind it', `${TRACEPARENT}-00`],
    ['a short trace', TRACEPARENT.replace('4bf9', '')],
    ['two of them', `${TRACEPARENT}, ${TRACEPARENT}`],
  ])('is ignored with %s', async (_, traceparent) => {
    const { status, headers } = await wrap({ traceparent })
    expect([status, headers.get('traceresponse')]).toEqual([200, null])
    expect(await newest()).toEqual({ key_version: 1 })
  })
})

describe('the log and the spans', () => {
  let written: string[] = []
  const lines = () => written.map((line) => JSON.parse(line))
  function open(tracing?: Tracing) {
    written = []
    const logger = loggerOptions('info', { write: (line: string) => written.push(line) })
    const { services } = service
    const findDurability = async () => 'synchronous' as const
    return buildApp({ services, findDurability, logger, ...(tracing ? { tracing } : {}) })
  }
  const headers = () => ({ authorization: `Bearer ${owner.secret}`, 'x-request-id': 'l-1', traceparent: TRACEPARENT })

  afterEach(() => {
    trace.disable()
    propagation.disable()
    context.disable()
  })

  function registerSdk(): InMemorySpanExporter {
    const exporter = new InMemorySpanExporter()
    trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }))
    propagation.setGlobalPropagator(new W3CTraceContextPropagator())
    return exporter
  }

  it('have both ids, in one line', async () => {
    const app = open()
    const { headers: answered } = await app.inject({ url: `/v1/keys/${id}`, headers: headers() })
    const span_id = String(answered.traceresponse).split('-')[2]
    expect(lines()).toEqual([expect.objectContaining({ reqId: 'l-1', trace_id: TRACE_ID, span_id, status: 200 })])
    await app.close()
  })

  it('name the tenant and the API key of a call, as its entry does, and of none that was not admitted', async () => {
    const app = open()
    const payload = { dek: dek() }
    await app.inject({ method: 'POST', url: `/v1/keys/${id}/wrap`, headers: headers(), payload })
    await app.inject({ url: `/v1/keys/${id}`, headers: { ...headers(), authorization: 'Bearer none' } })
    const [{ tenant_id, actor }] = (await owner.call('GET', '/v1/audit?limit=1')).body.logs
    expect(lines()[0]).toMatchObject({ tenant_id, api_key_id: actor })
    expect(lines()[1]).not.toHaveProperty('tenant_id')
    await app.close()
  })

  it('leave a failure room to say what failed, within 512 bytes', async () => {
    const app = open()
    const { sql } = service.services
    await sql`alter table audit_log rename to gone`
    try {
      const payload = { dek: dek() }
      const sent = { ...headers(), 'x-request-id': 'x'.repeat(64) }
      const answer = await app.inject({ method: 'POST', url: `/v1/keys/${id}/wrap`, headers: sent, payload })
      expect(answer.statusCode).toBe(500)
    } finally {
      await sql`alter table gone rename to audit_log`
    }
    expect(Buffer.byteLength(written[0] ?? '')).toBeLessThanOrEqual(512)
    expect(lines()[0]).toMatchObject({ msg: 'audit entry not written', error: expect.stringMatching(/./) })
    await app.close()
  })

  it('are those of OpenTelemetry where an SDK is registered: a span for each request, in the trace of the caller', async () => {
    const exporter = registerSdk()
    const app = open(createTracing(openTelemetry))
    const { headers: answered } = await app.inject({ url: `/v1/keys/${id}`, headers: headers() })
    await app.inject({ url: '/nowhere' })
    const [span, other] = exporter.getFinishedSpans()
    expect(span).toMatchObject({
      name: 'GET /v1/keys/:id',
      kind: openTelemetry.SpanKind.SERVER,
      parentSpanContext: expect.objectContaining({ traceId: TRACE_ID, spanId: '00f067aa0ba902b7' }),
      attributes: { 'http.request.method': 'GET', 'http.route': '/v1/keys/:id', 'http.response.status_code': 200 },
    })
    expect(answered.traceresponse).toBe(`00-${TRACE_ID}-${span?.spanContext().spanId}-01`)
    expect(lines()[0]).toMatchObject({ trace_id: TRACE_ID, span_id: span?.spanContext().spanId })
    expect(other).toMatchObject({ name: 'GET', attributes: { 'http.response.status_code': 404 } })
    expect(JSON.stringify(exporter.getFinishedSpans().map(({ attributes, name }) => [name, attributes]))).not.toContain(
      id,
    )
    await app.close()
  })

  it('end with a call whose client left before', async () => {
    const exporter = registerSdk()
    const app = open(createTracing(openTelemetry))
    const { port } = new URL(await app.listen({ port: 0, host: '127.0.0.1' }))
    const socket = connect(Number(port), '127.0.0.1')
    await service.services.sql.begin(async (transaction) => {
      await transaction`select from heads where tenant_id = ${owner.tenant.tenant_id} for update`
      const body = JSON.stringify({ dek: dek() })
      const head = [`POST /v1/keys/${id}/wrap HTTP/1.1`, 'host: x', `authorization: Bearer ${owner.secret}`]
      head.push('content-type: application/json', `content-length: ${body.length}`)
      socket.write(`${head.join('\r\n')}\r\n\r\n${body}`)
      await setTimeout(300) // until it waits for the lock
      socket.destroy()
    })
    await expect.poll(() => exporter.getFinishedSpans()).toHaveLength(1)
    await app.close()
  })

  it.each([
    ['nothing is registered', () => undefined],
    ['only a propagator is registered', () => propagation.setGlobalPropagator(new W3CTraceContextPropagator())],
  ])("have the caller's trace and a span of the call where the API is there, but %s", async (_, register) => {
    register()
    const app = open(createTracing(openTelemetry))
    const { headers: answered } = await app.inject({ url: `/v1/keys/${id}`, headers: headers() })
    const [, span_id] = new RegExp(`^00-${TRACE_ID}-([0-9a-f]{16})-01$`).exec(String(answered.traceresponse)) ?? []
    expect(span_id).not.toBe('00f067aa0ba902b7')
    expect(lines()[0]).toMatchObject({ trace_id: TRACE_ID, span_id })
    await app.close()
  })

  it('are in the trace of the caller where an SDK has no propagator', async () => {
    const exporter = registerSdk()
    propagation.disable()
    const app = open(createTracing(openTelemetry))
    await app.inject({ url: `/v1/keys/${id}`, headers: headers() })
    expect(lines()[0]).toMatchObject({ trace_id: TRACE_ID })
    const parentSpanContext = { traceId: TRACE_ID, spanId: '00f067aa0ba902b7', traceFlags: 1, isRemote: true }
    expect(exporter.getFinishedSpans()).toEqual([expect.objectContaining({ parentSpanContext })])
    await app.close()
  })

  it('have none without an SDK, though the API is there', async () => {
    const app = open(createTracing(openTelemetry))
    const { authorization } = headers()
    const { headers: answered } = await app.inject({ url: `/v1/keys/${id}`, headers: { authorization } })
    expect(answered).not.toHaveProperty('traceresponse')
    expect(trace.getSpan(ROOT_CONTEXT)).toBeUndefined()
    expect(lines()[0]).not.toHaveProperty('trace_id')
    await app.close()
  })
})
