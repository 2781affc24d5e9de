// No call seals, opens or indexes under zeros, at whichever microtask a DEK leaves its cache: each result is
// right, or the call rejects because the client was closed.

import * as nodeCrypto from 'node:crypto'
import { hkdfSync } from 'node:crypto'
import fc from 'fast-check'
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { rounds } from '../../../../test/support/run/rounds.js'
import { type Client, type ClientOptions, createClient, type Envelope, text } from '../index.js'
import { clientParts } from '../records/client-parts.js'
import { decryptStream, encryptStream } from '../streams.js'
import { chunked, collect } from '../test-support/stream-bytes.js'
import { createTestService } from '../testing.js'

const MOST_MICROTASKS = 60
const ZEROS = Buffer.alloc(32).toString('base64')
const context = { row: '7' }
const contextOf = ({ id }: { id: string }, column: string) => ({ row: id, column })
const rows = ['1', '2', '3'].map((id) => ({ id, name: `ada ${id}`, phone: `phone ${id}` }))
const fields = ['name', 'phone'] as const
const content = new TextEncoder().encode('content of a file')

const service = createTestService()
/** The DEKs that were sent to be wrapped. */
const wrapped: string[] = []
let keyId: string
let otherKeyId: string
/** Opens what the calls return, with DEKs that it has unwrapped itself. */
let reader: Client
/** What the calls open: all under one DEK. */
let stored: {
  unbound: Envelope
  bound: Envelope
  rows: { id: string; name: Envelope; phone: Envelope }[]
  stream: Uint8Array
  indexed: string
}

const modelOf = (eaas: Client) =>
  eaas.model({
    ...{ name: 'people', keyId, bind: ['id'] },
    fields: { name: text({ index: 'name_index' }), phone: text({ index: 'phone_index' }) },
  })

beforeAll(async () => {
  reader = createClient({ ...service, engine: 'node' })
  keyId = (await reader.keys.create({ name: 'users' })).id
  otherKeyId = (await reader.keys.create({ name: 'others' })).id
  stored = {
    unbound: await reader.encrypt('secret', { keyId }),
    bound: await reader.encrypt('secret', { keyId, context }),
    rows: await reader.encryptMany(rows, { keyId, fields, context: contextOf }),
    stream: await collect(chunked(content).pipeThrough(encryptStream(reader, { keyId, context }))),
    indexed: JSON.stringify(await modelOf(reader).index({ phone: 'phone 1' })),
  }
})

beforeEach(() => {
  wrapped.length = 0
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
})

afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
})

/** A call, and what its result must be for the reader. */
interface Call {
  run(eaas: Client): Promise<unknown>
  read(result: unknown): Promise<unknown>
  expected(): unknown
  /** Uses a DEK that the call needs, so that it is at hand. */
  warm(eaas: Client): Promise<unknown>
}

const asItIs = async (result: unknown) => result
const warmSealing = (eaas: Client) => eaas.encrypt('warm', { keyId })
const warmOpening = (eaas: Client) => eaas.decrypt(stored.unbound)

function sealing<T>(run: (eaas: Client) => Promise<T>, read: (sealed: T) => Promise<unknown>, expected: unknown): Call {
  return { run, read: (result) => read(result as T), expected: () => expected, warm: warmSealing }
}

function opening(run: (eaas: Client) => Promise<unknown>, expected: () => unknown): Call {
  return { run, read: asItIs, expected, warm: warmOpening }
}

const openRows = (sealed: typeof stored.rows) => reader.decryptMany(sealed, { fields, context: contextOf })
const CALLS: Record<string, Call> = {
  'encrypt, unbound': sealing(
    (eaas) => eaas.encrypt('secret', { keyId }),
    (envelope) => reader.decryptText(envelope),
    'secret',
  ),
  encrypt: sealing(
    (eaas) => eaas.encrypt('secret', { keyId, context }),
    (envelope) => reader.decryptText(envelope, { context }),
    'secret',
  ),
  'encrypt, DEK of the call': sealing(
    (eaas) => eaas.encrypt('secret', { keyId, context, dek: 'call' }),
    (envelope) => reader.decryptText(envelope, { context }),
    'secret',
  ),
  ...Object.fromEntries(
    (['shared', 'call', 'record'] as const).map((dek) => [
      `encryptMany, DEK ${dek}`,
      sealing((eaas) => eaas.encryptMany(rows, { keyId, fields, context: contextOf, dek }), openRows, rows),
    ]),
  ),
  'a stream that encrypts': sealing(
    (eaas) => collect(chunked(content, [5]).pipeThrough(encryptStream(eaas, { keyId, context }))),
    (sealed) => collect(chunked(sealed).pipeThrough(decryptStream(reader, { context }))),
    content,
  ),
  'a model that encrypts': sealing(
    (eaas) => modelOf(eaas).encryptMany(rows),
    async (sealed) => (await modelOf(reader).decryptMany(sealed)).ok,
    rows,
  ),
  'a model that indexes': {
    run: (eaas) => modelOf(eaas).index({ phone: 'phone 1' }),
    read: async (index) => JSON.stringify(index),
    expected: () => stored.indexed,
    warm: (eaas) => modelOf(eaas).index({ name: 'ada 1' }), // the secret is at hand; the key of the other column is still to be derived
  },
  'decrypt, unbound': opening(
    (eaas) => eaas.decryptText(stored.unbound),
    () => 'secret',
  ),
  decrypt: opening(
    (eaas) => eaas.decryptText(stored.bound, { context }),
    () => 'secret',
  ),
  decryptMany: opening(
    (eaas) => eaas.decryptMany(stored.rows, { fields, context: contextOf }),
    () => rows,
  ),
  'a stream that decrypts': opening(
    (eaas) => collect(chunked(stored.stream, [40]).pipeThrough(decryptStream(eaas, { context }))),
    () => content,
  ),
}

/** How a DEK leaves its cache. */
interface Event {
  options?: ClientOptions['deks']
  happen(eaas: Client): unknown
}

const EVENTS: Record<string, Event> = {
  close: { happen: (eaas) => eaas.close() },
  eviction: {
    options: { cacheSize: 1 },
    happen: (eaas) => Promise.allSettled([eaas.encrypt('other', { keyId: otherKeyId }), openOther(eaas)]),
  },
  expiry: {
    options: { maxAgeMs: 1_000, cacheMaxAgeMs: 1_000 },
    happen: () => void vi.advanceTimersByTime(2_000), // the sweeper zeroes at once
  },
  'roll-over': {
    options: { maxMessages: 2 },
    happen: (eaas) => Promise.allSettled([1, 2, 3].map(() => eaas.encrypt('more', { keyId }))),
  },
}

/** Opens with another DEK, so that the cache for reading drops the one before. */
async function openOther(eaas: Client) {
  return eaas.decrypt(await reader.encrypt('other', { keyId: otherKeyId, dek: 'call' }))
}

/** Replaces WebCrypto by one whose promises are settled at once, as those of workerd are. */
function settleAtOnce(): void {
  const { subtle } = globalThis.crypto
  const raw = new WeakMap<object, Buffer>()
  const rawOf = (key: unknown) => raw.get(key as object) as Buffer
  vi.spyOn(subtle, 'importKey').mockImplementation((async (_format: 'raw', bytes: Uint8Array) => {
    const key = {}
    raw.set(key, Buffer.from(bytes))
    return key
  }) as never)
  vi.spyOn(subtle, 'deriveBits').mockImplementation((async (params: HkdfParams, key: unknown, bits: number) =>
    hkdfSync('sha256', rawOf(key), params.salt as Uint8Array, params.info as Uint8Array, bits / 8)) as never)
  const aad = ({ additionalData = new Uint8Array(0) }: AesGcmParams) => additionalData as Uint8Array
  vi.spyOn(subtle, 'encrypt').mockImplementation((async (params: AesGcmParams, key: unknown, data: Uint8Array) => {
    const cipher = nodeCrypto.createCipheriv('aes-256-gcm', rawOf(key), params.iv as Uint8Array).setAAD(aad(params))
    return new Uint8Array(Buffer.concat([cipher.update(data), cipher.final(), cipher.getAuthTag()])).buffer
  }) as never)
  vi.spyOn(subtle, 'decrypt').mockImplementation((async (params: AesGcmParams, key: unknown, data: Uint8Array) => {
    const decipher = nodeCrypto.createDecipheriv('aes-256-gcm', rawOf(key), params.iv as Uint8Array).setAAD(aad(params))
    decipher.setAuthTag(data.subarray(-16))
    return new Uint8Array(Buffer.concat([decipher.update(data.subarray(0, -16)), decipher.final()])).buffer
  }) as never)
  vi.spyOn(subtle, 'sign').mockImplementation((async (_: string, key: unknown, data: Uint8Array) => {
    return new Uint8Array(nodeCrypto.createHmac('sha256', rawOf(key)).update(data).digest()).buffer
  }) as never)
}

interface Moment {
  event: string
  /** Where counting begins: at the call, with what it needs at hand, or at the answer of the service. */
  from: 'call' | 'answer'
  microtasks: number
}

/** Runs a call and has the event happen at that moment; checks what became of the call. */
async function check(engine: 'noble' | 'node' | 'web', call: Call, { event, from, microtasks }: Moment): Promise<void> {
  const { options = {}, happen } = EVENTS[event] as Event
  let answered = (): void => undefined
  const eaas = createClient({
    ...{ ...service, engine, deks: options },
    async fetch(input, init) {
      for (const [, dek] of String(init?.body).matchAll(/"dek":"([^"]+)"/g)) wrapped.push(String(dek))
      const response = await service.fetch(input as string, init as RequestInit)
      answered()
      return response
    },
  })
  await clientParts(eaas)()
  if (from === 'call') await call.warm(eaas)
  let happened: Promise<unknown> | undefined
  const begin = () => {
    happened ??= (async () => {
      for (let at = 0; at < microtasks; at++) await undefined
      await happen(eaas)
    })()
  }
  if (from === 'answer') answered = begin
  const running = call.run(eaas)
  if (from === 'call') begin()
  const outcome = await running.then(
    (result) => ({ result }),
    (error: unknown) => ({ error }),
  )
  await happened
  eaas.close()
  expect(wrapped).not.toContain(ZEROS)
  if ('result' in outcome) expect(await call.read(outcome.result)).toEqual(call.expected())
  else {
    expect(outcome.error).toMatchObject({ code: 'E_ABORTED' })
    expect(event).toBe('close')
  }
}

const moments = fc.record<Moment>({
  event: fc.constantFrom(...Object.keys(EVENTS)),
  from: fc.constantFrom('call', 'answer'),
  microtasks: fc.nat(MOST_MICROTASKS),
})

describe.each([
  ['noble', false],
  ['node', false],
  ['web', false],
  ['web', true],
] as const)('with engine %s, whose promises are settled at once: %s', (engine, settled) => {
  beforeEach(() => {
    if (settled) settleAtOnce()
  })

  it.each(Object.entries(CALLS))('is never used while a DEK leaves its cache: %s', async (_, call) => {
    await fc.assert(
      fc.asyncProperty(moments, (moment) => check(engine, call, moment)),
      { numRuns: rounds(20, 500) },
    )
  })
})

describe('a key of zeros, with a WebCrypto whose promises are settled at once', () => {
  beforeEach(settleAtOnce)

  it.each(['encrypt', 'encryptMany, DEK call', 'decrypt', 'a model that encrypts', 'a stream that encrypts'])(
    'is never used, whichever microtask the client is closed at: %s',
    async (name) => {
      for (let microtasks = 0; microtasks <= MOST_MICROTASKS; microtasks++) {
        await check('web', CALLS[name] as Call, { event: 'close', from: 'call', microtasks })
      }
    },
  )
})
