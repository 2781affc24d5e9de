// What the operator learns of refusals, in the log and in /metrics, and what the caller never does.
import { connect } from 'node:net'
import { PERMISSIONS } from '@eaas/protocol'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { buildApp } from '../../packages/server/src/app.js'
import { loggerOptions } from '../../packages/server/src/observe/logger.js'
import { createMetrics } from '../../packages/server/src/observe/metrics.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

const ABSENT = '00000000-0000-4000-8000-000000000000'

let now = Date.parse('2026-05-31T12:00:00.000Z')
let service: Service
let owner: Caller
let key_id: string
let app: ReturnType<typeof buildApp>
let written: string[] = []

beforeAll(async () => {
  service = await startService({ now: () => now })
  owner = await service.createTenant({ envelope_only: false })
  key_id = (await owner.call('POST', '/v1/keys', { name: 'a' })).body.key_id
  app = openApp()
})
afterAll(async () => {
  await app?.close()
  await service?.close()
})
afterEach(() => {
  written = []
})

/** An application with a log and metrics of its own, behind a proxy. */
function openApp() {
  const logger = loggerOptions('info', { write: (line) => written.push(line) })
  return buildApp({
    services: service.services,
    findDurability: async () => 'synchronous',
    logger,
    metrics: createMetrics(),
    trustProxy: ['127.0.0.1'],
  })
}

const lines = () => written.map((text) => JSON.parse(text) as Record<string, unknown>)

async function call(url: string, secret: string, payload?: object, headers: Record<string, string> = {}) {
  const method = payload ? 'POST' : 'GET'
  const authorization = { authorization: `Bearer ${secret}` }
  const answer = await app.inject({
    method,
    url,
    headers: { ...authorization, ...headers },
    ...(payload && { payload }),
  })
  return { status: answer.statusCode, body: answer.json() }
}

async function refusals(code: string, reason = '', of = app): Promise<number> {
  const { body } = await of.inject('/metrics')
  written = written.filter((line) => !line.includes('/metrics'))
  const line = new RegExp(`^eaas_refusals_total{code="${code}",reason="${reason}"} (\\d+)$`, 'm').exec(body)
  return Number(line?.[1])
}

async function apiKey(permissions: readonly string[], more: object = {}) {
  const { body } = await owner.call('POST', '/v1/api-keys', { name: 'x', permissions, ...more })
  return body as { id: string; secret: string }
}

describe('the log line of a refusal', () => {
  it('names the code, the tenant, the API key, the key, the address and the end user', async () => {
    const { id, secret } = await apiKey(['encrypt', 'audit:on_behalf_of'])
    const { tenant_id } = owner.tenant
    const who = { tenant_id, api_key_id: id, ip_address: '127.0.0.1' }
    const user = { 'eaas-on-behalf-of': 'ann' }
    await call(`/v1/keys/${key_id}/unwrap`, secret, { wrapped_key: 'AAAA' }, user)
    await call('/v1/hash', secret, { key_id: ABSENT, value: 'x' })
    await call('/v1/hash', secret, { key_id: 'a secret by mistake', value: 'x' })
    await call('/v1/keys', secret, undefined, { 'eaas-on-behalf-of': 'a secret' })
    await call(`/v1/keys/${key_id}/wrap`, secret, { dek: 'AAAA' })
    const of = (line: object) => expect.objectContaining({ ...who, ...line })
    expect(lines()).toEqual([
      of({ status: 403, code: 'E_MISSING_PERMISSION', key_id, on_behalf_of: 'ann' }),
      of({ status: 404, code: 'E_NOT_FOUND', key_id: ABSENT }),
      of({ status: 404, code: 'E_NOT_FOUND' }),
      of({ status: 403, code: 'E_MISSING_PERMISSION' }),
      of({ status: 400, code: 'E_VALIDATION', key_id }),
    ])
    expect(lines().map(({ on_behalf_of }) => on_behalf_of)).toEqual(['ann', ...Array.from({ length: 4 })])
    expect(written.join('')).not.toContain('a secret')
    expect(written.join('')).not.toContain('AAAA')
  })

  it('has no code and no address where a call was carried out', async () => {
    expect((await call('/v1/keys', owner.secret)).status).toBe(200)
    const fields = 'api_key_id level method ms msg reqId route status tenant_id time'
    expect(Object.keys(lines()[0] ?? {}).sort()).toEqual(fields.split(' '))
  })

  it('is one for a batch, with the count of refused operations by code', async () => {
    const { id, secret } = await apiKey(['encrypt'])
    const before = await refusals('E_MISSING_PERMISSION')
    const guesses = Array.from({ length: 990 }, () => ({ op: 'unwrap', key_id, wrapped_key: 'AAAA' }))
    const missing = Array.from({ length: 9 }, () => ({ op: 'hash', key_id: ABSENT, value: 'x' }))
    const operations = [...guesses, ...missing, { op: 'hash', key_id, value: 'x' }]
    expect((await call('/v1/batch', secret, { operations })).status).toBe(200)
    const refused = { E_MISSING_PERMISSION: 990, E_NOT_FOUND: 9 }
    const { tenant_id } = owner.tenant
    expect(lines()).toEqual([
      expect.objectContaining({ status: 200, refused, tenant_id, api_key_id: id, ip_address: '127.0.0.1' }),
    ])
    expect((await refusals('E_MISSING_PERMISSION')) - before).toBe(990)
  })

  it('is one for keys that are created together', async () => {
    const keys = [{ name: 'twice' }, { name: 'twice' }, { name: 'a' }]
    const { body } = await call('/v1/batch/keys', owner.secret, { keys })
    expect(body.results.map(({ status }: { status: number }) => status)).toEqual([201, 409, 409])
    expect(lines()).toEqual([expect.objectContaining({ status: 200, refused: { E_NAME_TAKEN: 2 } })])
  })
})

describe('an API key that does not open', () => {
  it('is answered alike, and told apart by the operator', async () => {
    const guessed = owner.secret.slice(0, -1) + (owner.secret.endsWith('A') ? 'B' : 'A')
    const foreign = `eaas_sk_${'0'.repeat(32)}_${'0'.repeat(43)}`
    const revoked = await apiKey(PERMISSIONS)
    await owner.call('DELETE', `/v1/api-keys/${revoked.id}`)
    const expired = await apiKey(PERMISSIONS, { expires_at: new Date(now + 1_000).toISOString() })
    now += 2_000
    const cases: [string, string, string | undefined][] = [
      ['unknown', guessed, undefined],
      ['unknown', foreign, undefined],
      ['malformed', 'guess', undefined],
      ['revoked', revoked.secret, revoked.id],
      ['expired', expired.secret, expired.id],
    ]
    const answers = new Set<string>()
    for (const [reason, secret, api_key_id] of cases) {
      const before = await refusals('E_UNAUTHORIZED', reason)
      answers.add(JSON.stringify(await call('/v1/keys', secret)))
      const [line] = lines()
      expect(line).toMatchObject({ status: 401, code: 'E_UNAUTHORIZED', reason, ip_address: '127.0.0.1' })
      expect([reason, line?.api_key_id]).toEqual([reason, api_key_id])
      expect((await refusals('E_UNAUTHORIZED', reason)) - before).toBe(1)
      written = []
    }
    const { statusCode, body } = await app.inject('/v1/keys')
    answers.add(JSON.stringify({ status: statusCode, body: JSON.parse(body) }))
    expect(lines()[0]).toMatchObject({ status: 401, reason: 'missing' })
    expect(answers.size).toBe(1)
    expect(JSON.stringify([...answers])).not.toMatch(/revoked|expired|unknown|malformed|missing/)
  })
})

describe('a flood of refusals', () => {
  /** How many requests the lines represent. */
  const counted = (some: Record<string, unknown>[]) =>
    some.reduce((sum, { left_out = 0 }) => sum + 1 + (left_out as number), 0)

  it('from one address is five lines a minute and one that counts the others, and counted whole in the metric', async () => {
    const flooded = openApp()
    const guess = () => flooded.inject({ url: '/v1/keys', headers: { authorization: 'Bearer guess' } })
    for (let round = 0; round < 20; round++) await Promise.all(Array.from({ length: 10 }, guess))
    await flooded.inject({ url: '/v1/keys', headers: { authorization: `Bearer ${owner.secret}` } })
    const other = { authorization: 'Bearer guess', 'x-forwarded-for': '10.0.0.1' }
    await flooded.inject({ url: '/v1/keys', headers: other })
    expect(await refusals('E_UNAUTHORIZED', 'malformed', flooded)).toBe(201)
    expect(lines().map(({ status, ip_address }) => [status, ip_address])).toEqual([
      ...Array.from({ length: 5 }, () => [401, '127.0.0.1']),
      [200, undefined],
      [401, '10.0.0.1'], // another address is another kind
    ])
    await flooded.close() // writes what waits
    expect(lines().at(-1)).toMatchObject({ code: 'E_UNAUTHORIZED', ip_address: '127.0.0.1', left_out: 194 })
    expect(counted(lines().filter(({ status }) => status === 401))).toBe(201)
  })

  it('of one API key hides neither those of another nor another reason', async () => {
    const flooded = openApp()
    const [first, second] = [await apiKey([]), await apiKey([])]
    const calling = (secret: string, url: string) =>
      flooded.inject({ url, headers: { authorization: `Bearer ${secret}` } })
    for (let call = 0; call < 20; call++) await calling(first.secret, '/v1/keys')
    written = []
    await calling(first.secret, '/v1/nothing')
    await calling(second.secret, '/v1/keys')
    expect(lines()).toMatchObject([{ code: 'E_ROUTE_NOT_FOUND' }, { api_key_id: second.id }])
    await flooded.close()
  })

  it('from ever more addresses fills neither the log nor the memory', async () => {
    const flooded = openApp()
    const from = (address: string) =>
      flooded.inject({ url: '/v1/keys', headers: { authorization: 'Bearer guess', 'x-forwarded-for': address } })
    for (let net = 0; net < 10; net++) {
      await Promise.all(Array.from({ length: 100 }, (_, host) => from(`10.0.${net}.${host}`)))
    }
    await flooded.close()
    expect(counted(lines())).toBe(1_000)
    expect(lines().length).toBeLessThanOrEqual(256 + 6)
    expect(lines().at(-1)).toMatchObject({ code: 'E_UNAUTHORIZED', left_out: 1_000 - 256 - 6 })
  })
})

describe('a request that is not one', () => {
  /** Sends bytes as they are, and returns what the server answers until it closes. */
  async function send(url: string, bytes: string): Promise<string> {
    const { hostname, port } = new URL(url)
    const socket = connect(Number(port), hostname)
    socket.write(bytes)
    let answer = ''
    for await (const chunk of socket) answer += chunk
    return answer
  }

  it.each([
    ['E_MALFORMED_REQUEST', 400, 'hello\r\n\r\n'],
    ['E_HEADERS_TOO_LARGE', 431, `GET / HTTP/1.1\r\nhost: x\r\nx: ${'x'.repeat(100_000)}\r\n\r\n`],
    ['E_MALFORMED_REQUEST', 400, 'GET /%E0%A4%A HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n'],
    ['E_REQUEST_TIMEOUT', 408, 'GET / HTTP/1.1\r\nhost: x\r\n'],
  ])('has a line and a count as %s', { timeout: 30_000 }, async (code, status, bytes) => {
    const listening = openApp()
    const url = await listening.listen({ host: '127.0.0.1', port: 0 })
    listening.server.headersTimeout = 100 // Node looks every two seconds
    written = []
    try {
      expect(await send(url, bytes)).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
      expect(lines()).toEqual([
        expect.objectContaining({ msg: 'request', status, code, ip_address: '127.0.0.1', route: null }),
      ])
      expect(await refusals(code, '', listening)).toBe(1)
    } finally {
      await listening.close()
    }
  })
})
