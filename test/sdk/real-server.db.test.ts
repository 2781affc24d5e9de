// Server mode and the SDK write one format, and values come back through a real server and database as they went in.
import { randomBytes } from 'node:crypto'
import type { Budgets } from '@eaas/protocol'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ApiError, type Client, createClient, type Envelope } from '../../packages/sdk/src/index.js'
import { findWays, lostOn, SERVER_MODE_BYTES } from '../../packages/sdk/src/test-support/envelope-ways.js'
import { isSame } from '../../packages/sdk/src/test-support/stream-bytes.js'
import { rounds } from '../support/run/rounds.js'
import { type Caller, type Service, startService } from '../support/service/service.js'
import { ANY_CHARACTER } from '../support/vectors/any-text.js'

const VALUES = rounds(100, 1_000)
const MAX_BYTES = 2_000

let service: Service
let tenant: Caller
let writer: Client
let reader: Client
let keyId: string

beforeAll(async () => {
  service = await startService()
  tenant = await service.createTenant({ envelope_only: false })
  const options = { baseUrl: service.url, apiKey: tenant.secret }
  writer = createClient(options)
  reader = createClient(options)
  keyId = (await writer.keys.create({ name: 'users' })).id
})
afterAll(async () => {
  writer?.close()
  reader?.close()
  await service?.close()
})

function randomValues(): Buffer[] {
  return Array.from({ length: VALUES }, (_, at) => randomBytes(at === 0 ? 0 : Math.floor(Math.random() * MAX_BYTES)))
}

/** Asks for all of it in one request, and gives the bodies of the answers. */
async function batch<Body>(operations: object[]): Promise<Body[]> {
  const { status, body } = await tenant.call('POST', '/v1/batch', { operations })
  expect(status).toBe(200)
  const results = body.results as { status: number; body: Body }[]
  expect(results.filter(({ status }) => status !== 200)).toEqual([])
  return results.map(({ body }) => body)
}

describe('a key that many ensure at once', () => {
  it('is created once, and each of them gets it', async () => {
    const clients = Array.from({ length: 8 }, () => createClient({ baseUrl: service.url, apiKey: tenant.secret }))
    const ensured = await Promise.all(clients.map(({ keys }) => keys.ensure({ name: 'wanted by many' })))
    for (const client of clients) client.close()
    expect(new Set(ensured.map(({ id }) => id)).size).toBe(1)
    expect((await writer.keys.list({ name: 'wanted by many' })).count).toBe(1)
  })
})

describe('a budget that is used up', () => {
  it('is an error that says when it is renewed, or that the API key has expired', async () => {
    const hashWith = async (budgets: Budgets) => {
      const { secret } = await writer.apiKeys.create({ name: 'spender', permissions: ['hash'], budgets })
      const eaas = createClient({ baseUrl: service.url, apiKey: secret })
      await eaas.hash('x', { keyId })
      const over = (await eaas.hash('x', { keyId }).catch((error: unknown) => error)) as ApiError
      const next = (await eaas.hash('x', { keyId }).catch((error: unknown) => error)) as ApiError
      eaas.close()
      return { over, next }
    }
    const renewed = await hashWith({ hash: { per_day: 1 } })
    const { problem, retryAfterSeconds = 0, hint } = renewed.over
    expect([problem, retryAfterSeconds >= 1 && retryAfterSeconds <= 86_400]).toEqual(['E_BUDGET', true])
    expect(hint).toContain(`${retryAfterSeconds} s,`)
    expect(renewed.next.problem).toBe('E_BUDGET')
    const expired = await hashWith({ hash: { per_day: 1 }, when_over: 'expire' })
    expect([expired.over.problem, expired.over.retryAfterSeconds]).toEqual(['E_BUDGET', undefined])
    expect(expired.over.hint).toContain('expired')
    expect(expired.next.problem).toBe('E_UNAUTHORIZED')
  })
})

describe(`${VALUES} random values`, () => {
  it('that server mode sealed, a DEK each, the SDK opens locally', async () => {
    const values = randomValues()
    const encrypt = { op: 'encrypt', key_id: keyId, encoding: 'base64' }
    const bundles = await batch<Envelope>(values.map((value) => ({ ...encrypt, plaintext: value.toString('base64') })))
    expect(new Set(bundles.map(({ wrapped_key }) => wrapped_key)).size).toBe(VALUES)
    const rows = bundles.map((value) => ({ value }))
    const opened = await reader.decryptMany(rows, { fields: ['value'], as: 'bytes' })
    expect(opened.filter(({ value }, at) => !isSame(value, values[at] ?? Buffer.of(0)))).toEqual([])
    expect(opened).toHaveLength(VALUES)
  })

  it.each(['shared', 'record'] as const)('that the SDK sealed, server mode opens (DEK: %s)', async (dek) => {
    const values = randomValues()
    const rows = await writer.encryptMany(
      values.map((value) => ({ value: new Uint8Array(value) })),
      { keyId, fields: ['value'], dek, envelope: 1 }, // that of server mode
    )
    expect(new Set(rows.map(({ value }) => value.wrapped_key)).size).toBe(dek === 'shared' ? 1 : VALUES)
    const opened = await batch<{ plaintext: string }>(
      rows.map(({ value }) => ({ op: 'decrypt', encoding: 'base64', ...value })),
    )
    expect(opened.map(({ plaintext }) => plaintext)).toEqual(values.map((value) => value.toString('base64')))
  })

  it('of text in any script take both ways, as text', async () => {
    const values = fc
      .sample(fc.string({ unit: ANY_CHARACTER, maxLength: 200 }), VALUES)
      .map((text) => text.replaceAll('\0', ''))
    const bundles = await batch<Envelope>(values.map((plaintext) => ({ op: 'encrypt', key_id: keyId, plaintext })))
    const rows = bundles.map((value) => ({ value }))
    expect((await reader.decryptMany(rows, { fields: ['value'] })).map(({ value }) => value)).toEqual(values)
    const sealed = await writer.encryptMany(
      values.map((value) => ({ value })),
      { keyId, fields: ['value'], envelope: 1 },
    )
    const opened = await batch<{ plaintext: string }>(sealed.map(({ value }) => ({ op: 'decrypt', ...value })))
    expect(opened.map(({ plaintext }) => plaintext)).toEqual(values)
  })
})

describe('through a real server', () => {
  let ways: Awaited<ReturnType<typeof findWays>>
  beforeAll(async () => {
    ways = await findWays({ writer, reader, keyId })
  })

  it('any text, JSON and bytes come back, all ways in and out', async () => {
    const all = { in: { ...ways.bytes.in, ...ways.server.in }, out: { ...ways.bytes.out, ...ways.server.out } }
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: ANY_CHARACTER }),
        fc.jsonValue({ stringUnit: ANY_CHARACTER }),
        fc.uint8Array(),
        async (text, json, bytes) => {
          expect(await lostOn(text, ways.text, (a, b) => a === b)).toEqual([])
          expect(await lostOn<unknown>(json, ways.json, (a, b) => JSON.stringify(a) === JSON.stringify(b))).toEqual([])
          expect(await lostOn(bytes, all, isSame)).toEqual([])
        },
      ),
      { numRuns: 10 },
    )
  })

  it('values of 64 KiB and of 1 MiB come back', async () => {
    const all = { in: { ...ways.bytes.in, ...ways.server.in }, out: { ...ways.bytes.out, ...ways.server.out } }
    expect(await lostOn(new Uint8Array(randomBytes(SERVER_MODE_BYTES)), all, isSame)).toEqual([])
    expect(await lostOn(new Uint8Array(randomBytes(1_048_576)), ways.bytes, isSame)).toEqual([])
  })

  it('leaves a log that is whole', async () => {
    expect((await reader.audit.verify()).valid).toBe(true)
  })
})
