// Values that are bound to a context (envelope-v2.md), through what applications call, with every engine.
import { readFileSync } from 'node:fs'
import { type Context, decodeBase64, decodeHex, type EnvelopeV2, encodeBase64, encodeHex } from '@eaas/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { rounds } from '../../../../test/support/run/rounds.js'
import type { Client, EngineName, Envelope } from '../index.js'
import { createDek, open, openExport, openText, seal } from '../offline.js'
import { decryptStream, encryptStream, openRange } from '../streams.js'
import { decryptSync, encryptSync } from '../sync.js'
import { failure, keyId, useClients } from '../test-support/clients.js'
import { createTestService } from '../testing.js'

interface Vector {
  name: string
  dek: string
  context: Context | null
  envelope: EnvelopeV2
}
interface Vectors {
  open: (Vector & { plaintext: string })[]
  refuse: (Vector & { error: 'format' | 'decryption' })[]
  refuse_context: { name: string; context: Context }[]
}
// Parsed here: an import would make `__proto__`, which one context has, the prototype of its object.
const vectors = JSON.parse(
  readFileSync(new URL('../../../protocol/src/envelope-v2.vectors.json', import.meta.url), 'utf8'),
) as Vectors

const { service, connect } = useClients()
const context = { table: 'users', column: 'phone', row: '7' }
const REFUSED = {
  name: 'DecryptionError',
  code: 'E_DECRYPTION',
  message: 'could not decrypt: altered, moved, or encrypted under another key',
  hint: 'Pass the context that it was encrypted with, decrypt it by its model, or restore the envelope from a backup.',
  retryable: false,
}

/** A client of a service that unwraps everything to this DEK. */
function connectTo(
  dek: Uint8Array,
  { key_id, key_version }: Pick<Envelope, 'key_id' | 'key_version'>,
  engine: EngineName,
) {
  const fetch = async () => Response.json({ dek: encodeBase64(dek), key_id, key_version })
  return connect({ baseUrl: 'https://eaas.test', engine, fetch })
}

describe.each(['node', 'web', 'noble'] as const)('a value with a context, by engine %s', (engine) => {
  it('opens with the same context: text, bytes, JSON, nothing at all', async () => {
    const [eaas, reader] = [connect({ engine }), connect({ engine })]
    const options = { keyId, context }
    for (const client of [eaas, reader]) {
      expect(await client.decryptText(await eaas.encrypt('Ž🔐', options), { context })).toBe('Ž🔐')
      expect(await client.decrypt(await eaas.encrypt(new Uint8Array(0), options), { context })).toEqual(
        new Uint8Array(0),
      )
      expect(await client.decryptJson(await eaas.encryptJson({ a: [1] }, options), { context })).toEqual({ a: [1] })
    }
    for (const dek of ['call', 'record'] as const) {
      expect(await reader.decryptText(await eaas.encrypt('own', { ...options, dek }), { context })).toBe('own')
    }
  })

  it('has the fields of format v2, and one commitment for each DEK', async () => {
    const eaas = connect({ engine })
    const [one, two] = [await eaas.encrypt('a', { keyId, context }), await eaas.encrypt('b', { keyId, context: {} })]
    expect(Object.keys(one).sort()).toEqual(
      ['ciphertext', 'commitment', 'envelope_version', 'iv', 'key_id', 'key_version', 'wrapped_key'].sort(),
    )
    expect(one).toMatchObject({ envelope_version: 2, key_id: keyId, key_version: 1 })
    expect(decodeBase64(one.commitment).length).toBe(32)
    expect(two.commitment).toBe(one.commitment)
    expect((await eaas.encrypt('c', { keyId, context, dek: 'call' })).commitment).not.toBe(one.commitment)
    const bare = await eaas.encrypt('d', { keyId })
    expect(bare).toMatchObject({ envelope_version: 2, commitment: one.commitment })
    expect((await eaas.encrypt('e', { keyId, envelope: 1 })).envelope_version).toBe(1) // under the same DEK
  })

  it.each(vectors.open)('opens the published vector: $name', async ({ dek, context, envelope, plaintext }) => {
    const eaas = connectTo(decodeHex(dek), envelope, engine)
    expect(encodeHex(await eaas.decrypt(envelope, context ? { context } : {}))).toBe(plaintext)
  })

  it('refuses each published vector that must not open, with one error for all that have the form', async () => {
    const outcomes = await Promise.all(
      vectors.refuse.map(async ({ name, dek, context, envelope }) => {
        const eaas = connectTo(decodeHex(dek), envelope, engine)
        const { code, message, hint } = await failure(eaas.decrypt(envelope, context ? { context } : {}))
        return [name, code === 'E_DECRYPTION' ? `${message} ${hint}` : code]
      }),
    )
    // Renamed to v1 and given no context, it would be one of v1: with the context, it is refused.
    expect(outcomes).toEqual(
      vectors.refuse.map(({ name, error }) => [
        name,
        error === 'format' ? 'E_INVALID_INPUT' : `${REFUSED.message} ${REFUSED.hint}`,
      ]),
    )
  })

  it('is refused with one error, wherever it was put and whatever opens it', async () => {
    const eaas = connect({ engine })
    const bound = await eaas.encrypt('secret', { keyId, context })
    const unbound = await eaas.encrypt('secret', { keyId, envelope: 1 })
    const empty = await eaas.encrypt('secret', { keyId })
    const otherDek = await eaas.encrypt('secret', { keyId, context, dek: 'call' })
    const other = await eaas.encrypt('secret', { keyId: service.createKey(), context })
    const attempts: [Envelope, Context | undefined][] = [
      [bound, undefined],
      [bound, {}],
      [bound, { ...context, row: '8' }],
      [bound, { ...context, column: 'email' }],
      [bound, { table: 'users', column: 'phone' }],
      [bound, { ...context, more: '' }],
      [unbound, context],
      [unbound, {}],
      [empty, context],
      [{ ...empty, envelope_version: 1 } as unknown as Envelope, undefined],
      [{ ...unbound, envelope_version: 2, commitment: bound.commitment }, context],
      [{ ...bound, envelope_version: 1 } as unknown as Envelope, undefined],
      [{ ...bound, envelope_version: 1 } as unknown as Envelope, context],
      [{ ...bound, commitment: otherDek.commitment }, context],
      [{ ...bound, wrapped_key: otherDek.wrapped_key }, context],
      [{ ...bound, wrapped_key: otherDek.wrapped_key, commitment: otherDek.commitment }, context],
      [{ ...bound, key_id: other.key_id, wrapped_key: other.wrapped_key, commitment: other.commitment }, context],
      [{ ...bound, ciphertext: otherDek.ciphertext }, context],
      [{ ...bound, iv: otherDek.iv }, context],
    ]
    for (const client of [eaas, connect({ engine })]) {
      for (const [envelope, given] of attempts) {
        expect(await failure(client.decrypt(envelope, given ? { context: given } : {}))).toMatchObject(REFUSED)
      }
      for (const given of [{}, { context: {} }]) expect(await client.decryptText(empty, given)).toBe('secret')
      expect(await client.decryptText(bound, { context })).toBe('secret')
    }
  })

  it('is refused before the service is called where its format is v1 and a context is demanded', async () => {
    const unbound = await connect({ engine }).encrypt('secret', { keyId, envelope: 1 })
    service.requests.length = 0
    for (const demanded of [context, {}])
      expect(await failure(connect({ engine }).decrypt(unbound, { context: demanded }))).toMatchObject(REFUSED)
    expect(service.requests).toEqual([])
  })

  it('is refused when the service unwraps to another DEK, which is not kept', async () => {
    const bound = await connect({ engine }).encrypt('right', { keyId, context })
    const eaas = connect({ engine })
    service.planted.set(bound.wrapped_key, new Uint8Array(32).fill(7))
    expect(await failure(eaas.decrypt(bound, { context }))).toMatchObject(REFUSED)
    service.planted.clear()
    expect(await eaas.decryptText(bound, { context })).toBe('right')
  })

  it('is sealed as it was at the call, with the context of then, and opened so', async () => {
    const eaas = connect({ engine })
    for (const dek of ['shared', 'shared', 'call'] as const) {
      const bytes = new TextEncoder().encode('as it was')
      const given = { ...context }
      const sealing = eaas.encrypt(bytes, { keyId, context: given, dek })
      bytes.fill(0)
      given.row = '8'
      const envelope = await sealing
      const reading = { ...context }
      const opening = connect({ engine }).decryptText(envelope, { context: reading })
      reading.row = '8'
      expect(await opening).toBe('as it was')
    }
  })

  it('opens by many calls at once with one unwrap', async () => {
    const eaas = connect({ engine })
    const rows = Array.from({ length: 50 }, (_, row) => ({ row: `${row}` }))
    const sealed = await Promise.all(rows.map((context) => eaas.encrypt(context.row, { keyId, context })))
    const reader = connect({ engine })
    const texts = await Promise.all(sealed.map((one, at) => reader.decryptText(one, { context: { row: `${at}` } })))
    expect(texts).toEqual(rows.map(({ row }) => row))
    expect(service.count('wrap')).toBe(1)
    expect(service.count('unwrap')).toBe(1)
  })

  it('binds, whatever the context is', async () => {
    const eaas = connect({ engine })
    const texts = fc.oneof(fc.string({ maxLength: 12, unit: 'grapheme' }), fc.constantFrom('', '\0', 'é', 'e\u0301'))
    const contexts = fc.dictionary(
      texts.filter((text) => text !== ''),
      texts,
      { maxKeys: 5 },
    )
    await fc.assert(
      fc.asyncProperty(contexts, contexts, fc.string(), async (one, other, value) => {
        const sealed = await eaas.encrypt(value, { keyId, context: one })
        expect(await eaas.decryptText(sealed, { context: one })).toBe(value)
        const isSame = JSON.stringify(Object.entries(one).sort()) === JSON.stringify(Object.entries(other).sort())
        if (!isSame) expect(await failure(eaas.decrypt(sealed, { context: other }))).toMatchObject(REFUSED)
      }),
      { numRuns: rounds(30, 500) },
    )
  })
})

describe('a context that is named and undefined', () => {
  it('is refused wherever a value is sealed or opened, before anything is sent', async () => {
    const eaas = connect()
    const dek = new Uint8Array(32).fill(1)
    const wrapped = { wrapped_key: 'AAAA', key_id: keyId, key_version: 1 }
    const envelope = vectors.open[0]?.envelope as EnvelopeV2
    const forgotten = { context: undefined } as object
    const exported = openExport({
      key_id: keyId,
      tenant_id: keyId,
      versions: [{ version: 1, dek_hex: '01'.repeat(32) }],
    })
    const calls: [string, () => unknown][] = [
      ['encrypt', () => eaas.encrypt('x', { keyId, ...forgotten })],
      ['encryptJson', () => eaas.encryptJson('x', { keyId, ...forgotten })],
      ['encryptMany', () => eaas.encryptMany([{ a: 'x' }], { keyId, fields: ['a'], ...forgotten })],
      ['encryptSync', () => encryptSync(eaas, 'x', { keyId, ...forgotten })],
      ['encryptStream', () => encryptStream(eaas, { keyId, ...forgotten })],
      ['seal', () => seal('x', { dek, wrapped, ...forgotten })],
      ['decrypt', () => eaas.decrypt(envelope, forgotten)],
      ['decryptText', () => eaas.decryptText(envelope, forgotten)],
      ['decryptJson', () => eaas.decryptJson(envelope, forgotten)],
      ['decryptMany', () => eaas.decryptMany([{ a: envelope }], { fields: ['a'], ...forgotten })],
      ['decryptSync', () => decryptSync(eaas, envelope, forgotten)],
      ['decryptStream', () => decryptStream(eaas, forgotten)],
      ['openRange', () => openRange(eaas, new Blob([]), forgotten)],
      ['open', () => open(envelope, dek, forgotten)],
      ['decrypt of an export', () => exported.decrypt(envelope, forgotten)],
    ]
    for (const [name, call] of calls) {
      const refused = await failure((async () => call())())
      expect([name, refused]).toMatchObject([name, { code: 'E_INVALID_INPUT', message: 'context is undefined' }])
    }
    expect(service.requests).toEqual([])
  })
})

describe('envelope: 1', () => {
  it('writes format v1 wherever a value is sealed, which no context goes with', async () => {
    const eaas = connect()
    const dek = new Uint8Array(32).fill(1)
    const wrapped = { wrapped_key: 'AAAA', key_id: keyId, key_version: 1 }
    const options = { keyId, envelope: 1 } as const
    const [row] = await eaas.encryptMany([{ a: 'x' }], { ...options, fields: ['a'] })
    const sealed = [await eaas.encrypt('x', options), await eaas.encryptJson('x', options), row?.a]
    sealed.push(encryptSync(eaas, 'x', options), await seal('x', { dek, wrapped, envelope: 1 }))
    expect(sealed.map((one) => one?.envelope_version)).toEqual([1, 1, 1, 1, 1])
    for (const call of [
      () => eaas.encrypt('x', { ...options, context }),
      () => eaas.encryptMany([{ a: 'x' }], { ...options, context, fields: ['a'] }),
      () => seal('x', { dek, wrapped, context, envelope: 1 }),
      () => eaas.encrypt('x', { keyId, envelope: 3 as never }),
    ]) {
      expect((await failure(call())).code).toBe('E_INVALID_INPUT')
    }
  })
})

describe('an envelope that is bound to nothing', () => {
  it('opens where a context is given only if the caller accepts it, and a bound one is still checked then', async () => {
    const eaas = connect()
    const [unbound, bound] = [
      await eaas.encrypt('old', { keyId, envelope: 1 }),
      await eaas.encrypt('new', { keyId, context }),
    ] as const
    expect(await eaas.decryptText(unbound, { context, acceptUnbound: true })).toBe('old')
    expect(await eaas.decryptText(bound, { context, acceptUnbound: true })).toBe('new')
    const elsewhere = { ...context, row: '8' }
    expect(await failure(eaas.decrypt(bound, { context: elsewhere, acceptUnbound: true }))).toMatchObject(REFUSED)
    expect(await failure(eaas.decrypt(bound, { acceptUnbound: true }))).toMatchObject(REFUSED)
    expect(await failure(eaas.decrypt(unbound, { context, acceptUnbound: false }))).toMatchObject(REFUSED)
    const wrong = { context, acceptUnbound: 'yes' as unknown as boolean }
    expect((await failure(eaas.decrypt(unbound, wrong))).code).toBe('E_INVALID_INPUT')
  })
})

describe('what is no context', () => {
  it.each(vectors.refuse_context)('is refused before anything is sent: $name', async ({ context }) => {
    const eaas = connect()
    const envelope = vectors.open[0]?.envelope as EnvelopeV2
    const dek = new Uint8Array(32).fill(1)
    const wrapped = { wrapped_key: 'AAAA', key_id: keyId, key_version: 1 }
    for (const call of [
      () => eaas.encrypt('x', { keyId, context }),
      () => eaas.encryptJson('x', { keyId, context }),
      () => eaas.decrypt(envelope, { context }),
      () => eaas.encryptMany([{ a: 'x' }], { keyId, fields: ['a'], context: () => context }),
      () => eaas.decryptMany([{ a: envelope }], { fields: ['a'], context: () => context }),
      () => seal('x', { dek, wrapped, context }),
      () => open(envelope, dek, { context }),
    ]) {
      expect((await failure(call())).code).toBe('E_INVALID_INPUT')
    }
    expect(service.requests).toEqual([])
  })

  it('is refused without what a getter of it throws', async () => {
    const throwing = {
      get row(): string {
        throw new Error('secret')
      },
    }
    const error = await failure(connect().encrypt('x', { keyId, context: throwing }))
    expect(error).toMatchObject({ code: 'E_INVALID_INPUT', message: expect.not.stringContaining('secret') })
  })
})

describe('many records with a context', () => {
  const users = [
    { id: '1', email: 'ada@example.org', phone: '1' },
    { id: '2', email: 'bob@example.org', phone: null },
  ]
  const fields = ['email', 'phone'] as const
  const contextOf = ({ id }: { id: string }, column: string) => ({ table: 'users', column, row: id })

  it.each(['shared', 'call', 'record'] as const)('open with it, and each alone, with DEK %s', async (dek) => {
    const eaas = connect()
    const rows = await eaas.encryptMany(users, { keyId, fields, context: contextOf, dek })
    expect(await connect().decryptMany(rows, { fields, context: contextOf })).toEqual(users)
    const [row] = rows
    const alone = { context: { table: 'users', column: 'email', row: '1' } }
    expect(await connect().decryptText(row?.email as Envelope, alone)).toBe('ada@example.org')
  })

  it('may share one context', async () => {
    const rows = await connect().encryptMany(users, { keyId, fields, context: { table: 'users' } })
    expect(await connect().decryptMany(rows, { fields, context: { table: 'users' } })).toEqual(users)
    expect((await failure(connect().decryptMany(rows, { fields }))).code).toBe('E_DECRYPTION')
  })

  it('are refused where two rows or two columns were exchanged, and where some are not bound', async () => {
    const eaas = connect()
    const [one, two] = await eaas.encryptMany(users, { keyId, fields, context: contextOf })
    const [unbound] = await eaas.encryptMany(users, { keyId, fields, envelope: 1 })
    if (!one || !two || !unbound) throw new Error('rows are missing')
    for (const row of [{ ...one, email: two.email }, { ...one, email: one.phone as Envelope }, unbound]) {
      const error = await failure(connect().decryptMany([two, row], { fields, context: contextOf }))
      expect(error).toMatchObject({ code: 'E_DECRYPTION', place: { index: 1, field: 'email' } })
      expect(error.message).toContain(REFUSED.message)
    }
    const mixed = await connect().decryptMany([unbound, two], { fields, context: contextOf, acceptUnbound: true })
    expect(mixed).toEqual(users)
  })

  it('are refused before anything is sent where the function throws or returns nothing', async () => {
    const throwing = () => {
      throw new Error('secret')
    }
    for (const wrong of [throwing, () => undefined as unknown as Context]) {
      const error = await failure(connect().encryptMany(users, { keyId, fields, context: wrong }))
      expect(error).toMatchObject({ code: 'E_INVALID_INPUT', place: { index: 0, field: 'email' } })
      expect(error.message).not.toContain('secret')
    }
    const noFunction = { keyId, fields, context: 'users' as unknown as Context }
    expect((await failure(connect().encryptMany(users, noFunction))).code).toBe('E_INVALID_INPUT')
    expect(service.requests).toEqual([])
  })
})

describe('rewrapping', () => {
  it('keeps the commitment and the context: the envelope still opens, under the new version', async () => {
    const eaas = createTestClient()
    const { id } = await eaas.keys.create({ name: 'users' })
    const envelope = await eaas.encrypt('kept', { keyId: id, context })
    await eaas.keys.rotate(id)
    const rewrapped = await eaas.rewrap(envelope)
    expect(rewrapped).toEqual({ ...envelope, wrapped_key: rewrapped.wrapped_key, key_version: 2 })
    expect(rewrapped.wrapped_key).not.toBe(envelope.wrapped_key)
    expect(await eaas.decryptText(rewrapped, { context })).toBe('kept')
  })
})

describe('of another tenant', () => {
  it('an envelope is refused', async () => {
    const [here, there] = [createTestClient(), createTestClient()]
    const { id } = await there.keys.create({ name: 'users' })
    const foreign = await there.encrypt('x', { keyId: id, context })
    expect((await failure(here.decrypt(foreign, { context }))).code).toBe('E_DECRYPTION')
  })
})

describe('without a service', () => {
  it('a value is sealed and opened with a context, by a DEK and by an export', async () => {
    const eaas = createTestClient()
    const { id } = await eaas.keys.create({ name: 'users' })
    const exported = openExport(await eaas.keys.export(id))
    const { wrapped_key, key_version } = await eaas.encrypt('', { keyId: id, dek: 'call' })
    const dek = await exported.unwrap(wrapped_key)
    const sealed = await seal('offline', { dek, wrapped: { wrapped_key, key_id: id, key_version }, context })
    const options = { context }
    expect(sealed.envelope_version).toBe(2)
    expect(await openText(sealed, dek, options)).toBe('offline')
    expect(await exported.decryptText(sealed, options)).toBe('offline')
    expect(await eaas.decryptText(sealed, options)).toBe('offline')
    expect(await exported.decryptJson(await eaas.encryptJson([1], { keyId: id, context }), options)).toEqual([1])
    const unbound = await eaas.encrypt('old', { keyId: id, envelope: 1 })
    expect(await exported.decryptText(unbound, { context, acceptUnbound: true })).toBe('old')
    for (const refused of [
      () => open(sealed, dek),
      () => open(sealed, dek, { context: { ...context, row: '8' } }),
      () => open(sealed, createDek(), options),
      () => exported.decrypt(sealed),
      () => exported.decrypt(unbound, options),
    ]) {
      expect(await failure(refused())).toMatchObject(REFUSED)
    }
  })
})

function createTestClient(): Client {
  return connect(createTestService())
}
