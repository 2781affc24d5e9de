// A service that lies. Every answer that a call of the SDK can get is taken, one thing in it is made wrong, and the call has to
// end in a typed error, soon, showing no secret and handing out nothing. What goes wrong below HTTP is in packages/sdk/src/http/send.test.ts.
import { inspect } from 'node:util'
import { afterAll, describe, expect, it } from 'vitest'
import { type Client, createClient, type EaasError, isEaasError, text } from '../../../packages/sdk/src/index.js'
import { API_CALLS } from '../../../packages/sdk/src/test-support/api-calls.js'
import { type Lie, liesOf, PAGES, type Sample } from '../../../packages/sdk/src/test-support/lies.js'
import { API_KEY, Service, TENANT_ID } from '../../../packages/sdk/src/test-support/service.js'
import { createTestService } from '../../../packages/sdk/src/testing.js'

const SECRET = 'the SECRET that is sealed'
const TIMEOUT_MS = 10_000

let now = Date.now()
const service = createTestService({ now: () => now, envelopeOnly: false })
const owner = createClient(service)
/** Answers the calls that the service in memory leaves to a real one. */
const others = new Service()
await others.start()
afterAll(() => others.stop())
const apiKeyId = TENANT_ID // the id of the API keys of that service
const { id: keyId, name } = await owner.keys.create({ name: 'users' })
const stored = await owner.encrypt(SECRET, { keyId, envelope: 1 })
/** What an error must never hold: the plaintext, the API key, every DEK and secret that went over the wire. */
const secrets = new Set([SECRET, Buffer.from(SECRET).toString('base64'), service.apiKey])

/** Before a closed version can be destroyed. */
const WAITING_PERIOD_MS = 7 * 86_400_000

type Call = (eaas: Client) => Promise<unknown>

/** Every call of the API that the SDK makes, and a batch of two. */
const CALLS: Record<string, Call> = {
  batch: (eaas) => Promise.all([eaas.hash(SECRET, { keyId }), eaas.hash(`${SECRET}2`, { keyId })]),
  ...Object.fromEntries(
    Object.entries(API_CALLS).map(([call, [, run]]) => [
      call,
      (eaas: Client) => run(eaas, { keyId, name, text: SECRET, stored, apiKeyId }),
    ]),
  ),
}

/** What the newest client sent in secret. */
let sent: string[] = []

/** A client of a service that answers by this function alone. */
function connect(answer: (request: Request) => Response | Promise<Response>): Client {
  sent = []
  const lying: typeof fetch = async (input, init) => {
    const request = new Request(input, init)
    const body = await request.clone().text()
    for (const [, value = ''] of body.matchAll(/"(?:dek|plaintext|value)":"([^"]{4,})"/g)) sent.push(value)
    return answer(request)
  }
  const { baseUrl, apiKey } = service
  return createClient({ baseUrl, apiKey, fetch: lying, retries: 0, timeoutMs: TIMEOUT_MS })
}

async function answerHonestly(request: Request): Promise<Response> {
  const { method } = request
  const { pathname, search } = new URL(request.url)
  const body = method === 'GET' ? undefined : await request.clone().text()
  const response = await service.fetch(request)
  if (response.status !== 405) return response
  const headers = { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' }
  return fetch(others.url + pathname + search, { method, headers, ...(body ? { body } : {}) })
}

/** The honest answer of each call, played once and in order. */
const samples: Record<string, Sample> = {}
for (const [call, run] of Object.entries(CALLS)) {
  if (call === 'destroyVersion') now += WAITING_PERIOD_MS
  const eaas = connect(async (request) => {
    const response = await answerHonestly(request)
    const body = response.status === 204 ? undefined : await response.clone().json()
    samples[call] = { status: response.status, body }
    return response
  })
  await run(eaas)
  eaas.close()
}
for (const body of Object.values(samples).map((sample) => sample.body as Record<string, unknown> | undefined)) {
  for (const field of ['dek', 'hash_key_hex', 'secret']) {
    const value = body?.[field]
    if (typeof value === 'string') secrets.add(value)
  }
}

let told = 0

/** Expects that a call of a client that is lied to ends in a typed error without a secret. */
async function expectRefused(
  lie: string,
  call: Promise<unknown>,
  codes = /^E_(PROTOCOL|DECRYPTION)$/,
): Promise<EaasError> {
  told += 1
  const error: unknown = await call.then(
    (value) => new Error(`believed: ${lie}: ${inspect(value)}`),
    (reason: unknown) => reason,
  )
  if (!isEaasError(error))
    throw error instanceof Error && error.message.startsWith('believed')
      ? error
      : new Error(`${lie}: ended in ${inspect(error)}`)
  // Not by `expect`, which takes longer than the call.
  if (!codes.test(error.code)) throw new Error(`${lie}: ended in ${inspect(error)}`)
  const shown = `${inspect(error, { depth: 9, showHidden: true })}${JSON.stringify(error)}`
  for (const secret of [...secrets, ...sent]) if (shown.includes(secret)) throw new Error(`${lie}: it shows ${shown}`)
  return error
}

async function expectAllRefused(call: string, lies: readonly Lie[]): Promise<void> {
  for (const { lie, code = 'E_PROTOCOL', respond } of lies) {
    const eaas = connect(respond)
    await expectRefused(lie, (CALLS[call] as Call)(eaas), new RegExp(`^${code}$`))
    eaas.close()
  }
}

describe.each(Object.keys(CALLS))('what is answered to %s', (call) => {
  const sample = samples[call] as Sample

  it('is believed when it is honest: only the lies make the difference', async () => {
    const { status, body } = sample
    const headers = { 'content-type': 'application/json' }
    const eaas = connect(() => new Response(body === undefined ? null : JSON.stringify(body), { status, headers }))
    await (CALLS[call] as Call)(eaas)
    eaas.close()
  })

  it('is refused when a field is missing, of another kind, or not of its form', async () => {
    const lies = liesOf(sample)
    expect(lies.length).toBeGreaterThan(sample.body === undefined ? 0 : 10)
    await expectAllRefused(call, lies)
  })

  it('is refused when it is no answer at all, or repeats what it was sent', async () => {
    await expectAllRefused(call, PAGES)
  })
})

describe('the key that an answer is about', () => {
  const other = '00000000-0000-4000-8000-000000000000'
  const about = [
    'wrap',
    'unwrap',
    'rewrap',
    'hash',
    'encrypt',
    'getKey',
    'rotateKey',
    'setRotation',
    'updateKey',
    'exportKey',
    'destroyKey',
    'cancelDestruction',
    'enableKey',
    'updateApiKey',
  ]

  it.each(about)('must be the one that was asked for: %s', async (call) => {
    const { status, body } = samples[call] as Sample
    for (const field of ['id', 'key_id'].filter((field) => field in (body as object))) {
      const eaas = connect(() => Response.json({ ...(body as object), [field]: other }, { status }))
      expect((await expectRefused(`another ${field}`, (CALLS[call] as Call)(eaas))).code).toBe('E_PROTOCOL')
      eaas.close()
    }
  })
})

describe('a wrong DEK', () => {
  it.each<[string, Uint8Array]>([
    ['of zeros', new Uint8Array(32)],
    ['of another envelope', Buffer.alloc(32, 7)],
  ])('%s opens nothing', async (lie, dek) => {
    const eaas = connect(() =>
      Response.json({ dek: Buffer.from(dek).toString('base64'), key_id: keyId, key_version: 1 }),
    )
    expect((await expectRefused(lie, eaas.decryptText(stored))).code).toBe('E_DECRYPTION')
    eaas.close()
  })

  it('by one bit, whichever, opens nothing', async () => {
    const { dek } = (samples.unwrap as Sample).body as { dek: string }
    for (let bit = 0; bit < 256; bit++) {
      const bytes = Buffer.from(dek, 'base64')
      bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      const eaas = connect(() => Response.json({ dek: bytes.toString('base64'), key_id: keyId, key_version: 1 }))
      expect((await expectRefused(`bit ${bit}`, eaas.decryptText(stored))).code).toBe('E_DECRYPTION')
      eaas.close()
    }
  })
})

interface Result {
  status: number
  body: Record<string, unknown>
}

describe('a batch', async () => {
  const words = ['zero', 'one', 'two', 'three', 'four']
  const envelopes = await Promise.all(words.map((word) => owner.encrypt(word, { keyId, dek: 'call' })))
  const honest: Result[] = []
  const asking = connect(async (request) => {
    const response = await service.fetch(request)
    const { results } = (await response.clone().json()) as { results: Result[] }
    honest.push(...results)
    return response
  })
  await Promise.all(envelopes.map((envelope) => asking.decryptText(envelope)))
  for (const { body } of honest) secrets.add(body.dek as string)

  /** Reads all values of a service that answers with these results: the word, or the code of the error. */
  async function read(lie: string, results: unknown): Promise<string[]> {
    const eaas = connect(() => Response.json({ results }))
    const outcomes = await Promise.allSettled(envelopes.map((envelope) => eaas.decryptText(envelope)))
    eaas.close()
    const refused = outcomes.filter((outcome) => outcome.status === 'rejected')
    expect([lie, refused.length]).not.toEqual([lie, 0])
    for (const { reason } of refused) await expectRefused(lie, Promise.reject(reason))
    return outcomes.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value : outcome.reason.code))
  }

  const [zero, one, two, three, four] = honest as [Result, Result, Result, Result, Result]
  const none = words.map(() => 'E_PROTOCOL')

  it.each<[string, unknown, string[]]>([
    ['without one', [zero, one, three, four], none],
    ['without any', [], none],
    ['with one more', [...honest, zero], none],
    ['twice', [...honest, ...honest], none],
    ['as an object', { ...honest }, none],
    ['as text', JSON.stringify(honest), none],
    ['as null', null, none],
    ['with null among them', [zero, one, null, three, four], none],
    ['with a list in a list', [zero, one, [two], three, four], none],
    ['with two swapped', [zero, two, one, three, four], ['zero', 'E_DECRYPTION', 'E_DECRYPTION', 'three', 'four']],
    [
      'the other way round',
      [four, three, two, one, zero],
      ['E_DECRYPTION', 'E_DECRYPTION', 'two', 'E_DECRYPTION', 'E_DECRYPTION'],
    ],
    ['moved by one', [one, two, three, four, zero], words.map(() => 'E_DECRYPTION')],
    ['with one in place of another', [zero, zero, two, three, four], ['zero', 'E_DECRYPTION', 'two', 'three', 'four']],
    [
      'with one for all',
      words.map(() => three),
      ['E_DECRYPTION', 'E_DECRYPTION', 'E_DECRYPTION', 'three', 'E_DECRYPTION'],
    ],
  ])('whose results come %s yields no wrong value', async (lie, results, expected) => {
    expect(await read(lie, results)).toEqual(expected)
  })

  it.each<[string, unknown]>([
    ['a status of text', { ...two, status: '200' }],
    ['no status', { body: two.body }],
    ['a status that is no whole number', { ...two, status: 200.5 }],
  ])('in which a result has %s is refused as a whole', async (lie, result) => {
    expect(await read(lie, [zero, one, result, three, four])).toEqual(none)
  })

  it('in which one result is a lie loses that one alone', async () => {
    const spoilt = ['zero', 'one', 'E_PROTOCOL', 'three', 'four']
    const wrong = liesOf({ status: 200, body: two.body }).flatMap(({ lie, body }) =>
      body === undefined ? [] : [{ lie, body }],
    )
    expect(wrong.length).toBeGreaterThan(20)
    for (const { lie, body } of wrong)
      expect([lie, await read(lie, [zero, one, { status: 200, body }, three, four])]).toEqual([lie, spoilt])
    for (const status of [-1, 0, 100, 302, 403, 500, 999]) {
      const lie = `status ${status}`
      expect([lie, await read(lie, [zero, one, { ...two, status }, three, four])]).toEqual([lie, spoilt])
    }
  })

  it('never gives a row of a model the value of another', async () => {
    const users = (eaas: Client) => eaas.model({ name: 'users', keyId, bind: false, fields: { word: text() } })
    const rows = await Promise.all(words.map((word) => users(createClient(service)).encrypt({ word })))
    const results: Result[] = []
    const honestly = connect(async (request) => {
      const response = await service.fetch(request)
      results.push(...((await response.clone().json()) as { results: Result[] }).results)
      return response
    })
    expect((await users(honestly).decryptMany(rows)).ok.map(({ word }) => word)).toEqual(words)
    const lying = connect(() => Response.json({ results: [...results].reverse() }))
    const { ok, failed } = await users(lying).decryptMany(rows)
    expect(ok).toEqual([{ word: 'two' }])
    expect(failed.map(({ index, error }) => [index, error.code])).toEqual(
      [0, 1, 3, 4].map((at) => [at, 'E_DECRYPTION']),
    )
  })
})

describe('an answer that does not end', () => {
  const headers = { 'content-type': 'application/json' }
  const slow = (body: ReadableStream) => {
    const lying: typeof fetch = async () => new Response(body, { headers })
    return createClient({ baseUrl: service.baseUrl, apiKey: service.apiKey, fetch: lying, retries: 0, timeoutMs: 100 })
  }

  it.each(Object.keys(CALLS))('is given up: %s', async (call) => {
    const chunk = new Uint8Array(65_536).fill(0x20)
    const endless = new ReadableStream(
      { pull: (controller) => controller.enqueue(chunk.slice()) },
      { highWaterMark: 0 },
    )
    const silent = new ReadableStream({})
    for (const [body, code] of [
      [endless, 'E_PROTOCOL'],
      [silent, 'E_TIMEOUT'],
    ] as const) {
      const error = await CALLS[call]?.(slow(body)).then(
        () => undefined,
        (reason: unknown) => reason,
      )
      told += 1
      expect(error).toMatchObject({ code })
    }
  })
})

afterAll(() => {
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
  expect(told).toBeGreaterThanOrEqual(200)
  console.info(`${told} answers that lie, none believed`)
})
