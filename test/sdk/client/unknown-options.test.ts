// An option that nobody knows does nothing: `binding`, `timeout`, a misspelt `keyID`. Each call refuses it before anything is sent.
import { describe, expect, expectTypeOf, it, vi } from 'vitest'
import { backfill, inspectTable, postgresTable } from '../../../packages/cli/src/backfill.js'
import { createBroker } from '../../../packages/sdk/src/broker.js'
import {
  boolean,
  bytes,
  type Client,
  createClient,
  date,
  type Field,
  json,
  number,
  type StoredRow,
  text,
} from '../../../packages/sdk/src/index.js'
import { createDek, openExport, seal } from '../../../packages/sdk/src/offline.js'
import {
  decryptStream,
  encryptStream,
  openRange,
  rewrapFirstLine,
  rewrapStream,
} from '../../../packages/sdk/src/streams.js'
import { API_CALLS } from '../../../packages/sdk/src/test-support/api-calls.js'
import { createTestService } from '../../../packages/sdk/src/testing.js'

const service = createTestService({ envelopeOnly: false })
const owner = createClient(service)
const { id: keyId } = await owner.keys.create({ name: 'users' })
const stored = await owner.encrypt('x', { keyId })
const exported = await owner.keys.export(keyId)
const model = (eaas: Client, more: object = {}) =>
  eaas.model({ name: 'users', keyId, bind: false, fields: { a: text({ index: 'a_index' }) }, ...more })
const row = await model(owner).encrypt({ a: 'x' })
const drain = async (batches: AsyncIterable<unknown>) => {
  for await (const _ of batches);
}
const wrapped = { wrapped_key: stored.wrapped_key, key_id: keyId, key_version: 1 }
const noTable = { page: async () => [], again: async () => [], swap: async () => [] }
const authenticate = () => ({ id: 'ada' })

const on = { keyId, name: 'users', text: 'x', stored, apiKeyId: keyId }

/** Each call with an option that is not its own. */
const CALLS: Record<string, (eaas: Client, o: never) => unknown> = {
  ...Object.fromEntries(
    Object.entries(API_CALLS).map(([name, [, run]]) => [`the call ${name}`, (eaas, o: object) => run(eaas, on, o)]),
  ),
  createClient: (_, o: object) => createClient({ baseUrl: 'https://eaas.test', apiKey: 'k', ...o }),
  deks: (_, o) => createClient({ baseUrl: 'https://eaas.test', apiKey: 'k', deks: o }),
  encrypt: (eaas, o: object) => eaas.encrypt('x', { keyId, ...o }),
  encryptJson: (eaas, o: object) => eaas.encryptJson(1, { keyId, ...o }),
  decrypt: (eaas, o) => eaas.decrypt(stored, o),
  decryptText: (eaas, o) => eaas.decryptText(stored, o),
  decryptJson: (eaas, o) => eaas.decryptJson(stored, o),
  encryptMany: (eaas, o: object) => eaas.encryptMany([{ a: 'x' }], { keyId, fields: ['a'], ...o }),
  decryptMany: (eaas, o: object) => eaas.decryptMany([{ a: stored }], { fields: ['a'], ...o }),
  hash: (eaas, o: object) => eaas.hash('x', { keyId, ...o }),
  encryptStream: (eaas, o: object) => encryptStream(eaas, { keyId, ...o }),
  decryptStream: (eaas, o) => decryptStream(eaas, o),
  openRange: (eaas, o) => openRange(eaas, new Blob(), o),
  rewrapStream: (eaas, o) => rewrapStream(eaas, o),
  rewrapFirstLine: (eaas, o) => rewrapFirstLine(eaas, new Blob(), o),
  model,
  indexes: (eaas, o: object) => model(eaas, { indexes: { both: { fields: ['a', 'a'], ...o } } }),
  'model.encrypt': (eaas, o) => model(eaas).encrypt({ a: 'x' }, o),
  'model.encryptMany': (eaas, o) => model(eaas).encryptMany([{ a: 'x' }], o),
  'model.decrypt': (eaas, o) => model(eaas).decrypt(row, o),
  'model.decryptMany': (eaas, o) => model(eaas).decryptMany([row], o),
  'model.index': (eaas, o) => model(eaas).index({ a: 'x' }, o),
  'model.rewrap': (eaas, o) => drain(model(eaas).rewrap([row], o)),
  'model.reseal': (eaas, o) => drain(model(eaas).reseal([row], o)),
  backfill: (eaas, o) => backfill(model(eaas), noTable, o),
  inspectTable: (eaas, o) => inspectTable(model(eaas), noTable, o),
  postgresTable: (_, o) => postgresTable(async () => [], 'users', o),
  text: (_, o) => text(o),
  number: (_, o) => number(o),
  date: (_, o) => date(o),
  json: (_, o) => json(o),
  bytes: (_, o) => bytes(o),
  boolean: (_, o) => boolean(o),
  'a new key': (eaas, o: object) => eaas.keys.create({ name: 'y', ...o }),
  'keys.ensure': (eaas, o) => eaas.keys.ensure({ name: 'y' }, o),
  'a key to ensure': (eaas, o: object) => eaas.keys.ensure({ name: 'y', ...o }),
  'a new API key': (eaas, o: object) => eaas.apiKeys.create({ name: 'y', permissions: [], ...o }),
  'changes of an API key': (eaas, o) => eaas.apiKeys.update(keyId, o),
  'audit.entries': (eaas, o) => drain(eaas.audit.entries(o)),
  'server.decryptText': (eaas, o) => eaas.server.decryptText(stored, o),
  createBroker: (_, o: object) => createBroker({ ...service, authenticate, allow: {}, ...o }),
  'limits of a broker': (_, o) => createBroker({ ...service, authenticate, allow: {}, limits: o }),
  seal: (_, o: object) => seal('x', { dek: createDek(), wrapped, ...o }),
  openExport: (_, o) => openExport(exported, o),
  createTestService: (_, o) => createTestService(o),
  failNext: (_, o: object) => createTestService().failNext({ network: true, ...o }),
}

describe('an unknown option', () => {
  it.each(Object.entries(CALLS))('is refused by %s, and nothing is sent', async (_, run) => {
    let sent = 0
    const fetch: typeof globalThis.fetch = (...call) => {
      sent++
      return service.fetch(...call)
    }
    const eaas = createClient({ ...service, fetch })
    const call = async () => run(eaas, { binding: 'SECRET' } as never)
    await expect(call()).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      message: expect.stringContaining('has no option "binding"'),
    })
    await expect(call()).rejects.not.toThrow('SECRET')
    expect(sent).toBe(0)
    eaas.close()
  })

  it.each([
    ['encrypt', { keyID: keyId }, 'keyId'],
    ['createClient', { timeout: 5 }, 'timeoutMs'],
    ['createClient', { retry: 5 }, 'retries'],
    ['createClient', { url: 'https://eaas.test' }, 'baseUrl'],
    ['deks', { maxAge: 5 }, 'maxAgeMs'],
    ['model', { feilds: {} }, 'fields'],
    ['text', { normalise: ['trim'] }, 'normalize'],
    ['createBroker', { timeout: 5 }, 'timeoutMs'],
  ])('is answered with the one that was meant: %s with %j', async (name, option, meant) => {
    const call = async () => CALLS[name]?.(owner, option as never)
    await expect(call()).rejects.toThrow(`did you mean ${JSON.stringify(meant)}?`)
  })

  it.each(['rewrap', 'reseal'] as const)('is refused in the name of the call: %s of a model', async (name) => {
    const rows = owner
      .model({ name: 'users', keyId, bind: false, fields: { a: text() } })
      [name]([], { binding: 'SECRET' } as never)
    await expect(rows.next()).rejects.toThrow(`${name}() has no option "binding"`)
  })

  it('is answered with those that there are, where none is near', async () => {
    await expect(owner.encrypt('x', { keyId, aad: 'y' } as never)).rejects.toMatchObject({
      message: 'encrypt() has no option "aad"',
      hint: 'Its options: keyId, context, envelope, dek, signal.',
    })
  })
})

describe('an unknown option, in TypeScript,', () => {
  it('does not compile', () => {
    const bound = { name: 'users', keyId, bind: false } as const
    const never = () => [
      // @ts-expect-error
      createClient({ baseUrl: 'https://eaas.test', timeout: 5 }),
      // @ts-expect-error
      createClient({ deks: { maxAge: 5 } }),
      // @ts-expect-error
      createTestService({ envelopeonly: true }),
      // @ts-expect-error
      text({ normalise: ['trim'] }),
      // @ts-expect-error
      text({ index: 'a_index', normalise: ['trim'] }),
      // @ts-expect-error
      text({ index: 'a_index', range: 'day' }),
      // @ts-expect-error
      number({ index: 'a_index', steps: 5 }),
      // @ts-expect-error
      number({ index: 'a_index', range: { step: 5, from: 1 } }),
      // @ts-expect-error
      date({ index: 'a_index', ranges: 'day' }),
      // @ts-expect-error
      date({ pad: 32 }),
      // @ts-expect-error
      json<string[]>({ padding: 32 }),
      // @ts-expect-error
      bytes({ pad: 32 }),
      // @ts-expect-error
      boolean({ index: 'a_index' }),
      // @ts-expect-error
      owner.model({ ...bound, fields: { a: text({ index: 'a_index', normalise: ['trim'] }) } }),
      // @ts-expect-error
      owner.model({ ...bound, fields: { a: text().nullable() }, acceptPlain: true }),
      // @ts-expect-error
      owner.model({ ...bound, fields: { a: text() }, index: { by: 'service', generations: 2 } }),
      owner.model({
        ...bound,
        fields: { a: text(), b: text() },
        // @ts-expect-error
        indexes: { both: { fields: ['a', 'b'], bit: 8 } },
      }),
      owner.model({
        ...bound,
        fields: { a: text() },
        // @ts-expect-error
        indexes: { start: { prefix: 'a', length: 3, shared: true } },
      }),
      owner.model({
        ...bound,
        fields: { a: text() },
        // @ts-expect-error
        indexes: { parts: { ngram: 'a', length: 3, bits: 8, acceptLeakage: true, fields: ['a'] } },
      }),
      // @ts-expect-error
      owner.encrypt('x', { keyId, aad: 'y' }),
      // @ts-expect-error
      owner.encryptMany([{ a: 'x' }], { keyId, fields: ['a'], contexts: {} }),
      // @ts-expect-error
      owner.decryptMany([{ a: stored }], { fields: ['a'], at: 'bytes' }),
      // @ts-expect-error
      createBroker({ ...service, authenticate, allow: {}, timeout: 5 }),
    ]
    expectTypeOf(never).toBeFunction()
    // Control: what there is compiles, and the model knows the columns.
    const known = {
      email: text({ index: 'email_index', normalize: ['trim'], bits: 8, pad: 32 }),
      height: number({ index: 'height_index', range: { step: 5 } }).nullable(),
      born: date({ index: 'born_index', range: 'day' }).optional(),
      note: text(),
    }
    expectTypeOf(known.email).toEqualTypeOf<Field<string, never, 'email_index', true>>()
    expectTypeOf(known.height).toEqualTypeOf<Field<number, null, 'height_index', true>>()
    expectTypeOf(known.born).toEqualTypeOf<Field<Date, undefined, 'born_index', true>>()
    expectTypeOf(known.note).toEqualTypeOf<Field<string, never, never, true>>()
    const users = owner.model({
      ...bound,
      fields: { ...known, name: text({ normalize: ['trim'] }) },
      indexes: { name_index: { prefix: 'name', length: 3 }, both: { fields: ['email', 'name'], bits: 16 } },
    })
    expectTypeOf<keyof StoredRow<typeof users>>().toEqualTypeOf<
      | 'email'
      | 'height'
      | 'born'
      | 'note'
      | 'name'
      | 'email_index'
      | 'height_index'
      | 'born_index'
      | 'name_index'
      | 'both'
    >()
  })
})

describe('what is no signal', () => {
  it.each(Object.entries(CALLS))('is refused by %s, and nothing is sent', async (_, run) => {
    const fetch = vi.fn<typeof globalThis.fetch>(service.fetch)
    for (const signal of [new AbortController(), { aborted: false }, { aborted: false, addEventListener: 1 }, null]) {
      const eaas = createClient({ ...service, fetch })
      await expect((async () => run(eaas, { signal } as never))()).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
      await new Promise((resolve) => setImmediate(resolve)) // an error that escapes a promise would fail the run
      eaas.close()
    }
    expect(fetch).not.toHaveBeenCalled()
  })
})

describe('a service in memory', () => {
  it('can be spread into options, and keeps its controls to itself', () => {
    expect(Object.keys({ ...service }).sort()).toEqual(['apiKey', 'baseUrl', 'fetch'])
    expect(service.entries().length).toBeGreaterThan(0)
  })
})
