// What the SDK has DEKs wrapped for (bindings.md 5), as the log of a service tells it, and that each opens for that alone.
import { isBoundWrappedKey } from '@eaas/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { rounds } from '../../../../test/support/run/rounds.js'
import { contextRow } from '../broker.js'
import { type Client, createClient, type DekScope, text } from '../index.js'
import { openExport } from '../offline.js'
import { decryptStream, encryptStream, rewrapStream } from '../streams.js'
import { failure } from '../test-support/clients.js'
import { createTestService } from '../testing.js'
import { usesOfModel } from '../uses.js'
import vectors from './bindings.vectors.json' with { type: 'json' }

type Stored = { id: number; tenant: string; note: string }

/** Clients of one service, each with caches of its own, and what the newest entries say. */
async function start() {
  const service = createTestService()
  const connect = () => createClient({ ...service, deks: { verify: true } })
  const eaas = connect()
  const { id: keyId } = await eaas.keys.create({ name: 'customers' })
  const logged = (action: 'key.wrap' | 'key.unwrap') => {
    const entries = service.entries().filter((entry) => entry.action === action)
    return entries.map(({ metadata: { key_version: _, ...use } }) => use).reverse()
  }
  const model = (of: Client, dek: DekScope = 'shared', name = 'customers') =>
    of.model({ name, keyId, bind: ['id', 'tenant'], dek, format: 'text', fields: { note: text() } })
  return { connect, eaas, keyId, logged, model, service }
}

const row = { id: 7, tenant: 'acme', note: 'called' }
const context = { model: 'customers', field: 'note', 'row.id': '7', 'row.tenant': 'acme' }
const FOR_MODEL = { purpose: 'data', 'context.model': 'customers' }
const FOR_ROW = { ...FOR_MODEL, 'context.row': '7/acme' }

describe('what the DEK of a value is wrapped for', () => {
  it.each(vectors.context)('is what another program says: $name', ({ context, uses }) => {
    const { use, orUse } = usesOfModel(context.model, () => context)
    const made = [use, orUse?.()].flatMap((one) => (one ? [{ purpose: one.purpose, context: one.context }] : []))
    expect(made).toEqual(uses)
    expect(usesOfModel(context.model, () => context, true).use.context).toEqual(uses.at(-1)?.context)
  })

  it.each([
    ['shared', FOR_MODEL],
    ['call', FOR_MODEL],
    ['record', FOR_ROW],
  ] as const)('is stated by a model whose rows have a DEK of the scope %s', async (dek, expected) => {
    const { connect, logged, model } = await start()
    const stored = await model(connect(), dek).encrypt(row)
    expect(logged('key.wrap')).toEqual([expected])
    expect(logged('key.unwrap')).toEqual([expected]) // by `verify`
    expect(await model(connect(), dek).decrypt(stored)).toEqual(row)
    expect(logged('key.unwrap')).toEqual([expected, expected])
  })

  it('is written to the log as digests if the client asks for it', async () => {
    const { eaas, keyId, logged, service } = await start()
    const discreet = () => createClient({ ...service, auditContext: 'digests' })
    const modelOf = (of: Client) =>
      of.model({ name: 'customers', keyId, bind: ['id', 'tenant'], dek: 'record', fields: { note: text() } })
    const stored = await modelOf(discreet()).encrypt(row)
    expect(await modelOf(discreet()).decrypt(stored)).toEqual(row)
    await eaas.keys.rotate(keyId)
    for await (const { items } of modelOf(discreet()).rewrap([stored])) expect(items).toHaveLength(1)
    await discreet().encrypt('x', { keyId }) // for no use, of which there is nothing to digest
    const digests = {
      purpose: 'data',
      'context_hmac.model': expect.any(String),
      'context_hmac.row': expect.any(String),
    }
    expect(logged('key.unwrap')).toEqual([digests])
    expect(logged('key.wrap')).toEqual([{}, { ...digests, rewrapped_from: 1 }, digests])
    expect(await modelOf(eaas).decrypt(stored)).toEqual(row) // it opens for the same use
    expect(() => createClient({ ...service, auditContext: 'none' as 'values' })).toThrow(/auditContext must be one of/)
  })

  it('is a stream, whatever its DEK', async () => {
    const { connect, keyId, logged } = await start()
    for (const dek of ['shared', 'call'] as const) {
      const encrypted = new Blob(['content']).stream().pipeThrough(encryptStream(connect(), { keyId, dek }))
      const rewrapped = encrypted.pipeThrough(rewrapStream(connect()))
      expect(await new Response(rewrapped.pipeThrough(decryptStream(connect()))).text()).toBe('content')
    }
    expect(logged('key.wrap').map(({ purpose }) => purpose)).toEqual(Array(4).fill('stream'))
    expect(new Set(logged('key.unwrap').map(({ purpose }) => purpose))).toEqual(new Set(['stream']))
  })

  it('is nothing, in format 1, for values outside of models and for rows that other languages read', async () => {
    const { connect, eaas, keyId, logged } = await start()
    const old = connect().model({ keyId, envelope: 1, fields: { note: text() } })
    const sealed = [
      await eaas.encrypt('x', { keyId, context }),
      (await eaas.encryptMany([{ note: 'x' }], { keyId, dek: 'record', fields: ['note'] }))[0]?.note,
      (await old.encrypt({ note: 'x' })).note,
    ]
    expect(sealed.map((one) => isBoundWrappedKey(one?.wrapped_key ?? ''))).toEqual([false, false, false])
    expect(logged('key.wrap')).toEqual([{}, {}, {}])
  })

  it('never lets a DEK of one model, or of a value outside of it, seal for another', async () => {
    const { eaas, keyId, model } = await start()
    const wrapped = async (of: Promise<{ note: string }>) => (await of).note.slice(7, 90)
    const [one, again, other] = await Promise.all([
      wrapped(model(eaas).encrypt(row)),
      wrapped(model(eaas).encrypt(row)),
      wrapped(model(eaas, 'shared', 'orders').encrypt(row)),
    ])
    const { wrapped_key } = await eaas.encrypt('x', { keyId, context })
    expect(one).toBe(again)
    expect(other).not.toBe(one)
    expect(isBoundWrappedKey(wrapped_key)).toBe(false)
  })

  it('is stated again by each client, also where the DEK of the wrapped key is at hand for another use', async () => {
    const { eaas, model } = await start()
    const stored = (await model(eaas).encrypt(row)) as Stored
    expect(await eaas.decryptText(stored.note, { context })).toBe('called')
    const elsewhere = { ...context, model: 'orders' }
    expect(await failure(eaas.decrypt(stored.note, { context: elsewhere }))).toMatchObject({
      code: 'E_DECRYPTION',
      cause: { problem: 'E_WRAPPED_KEY' }, // the service was asked
    })
  })
})

describe('the text of a row', () => {
  const textOf = (columns: Record<string, string | number>) => contextRow(columns)

  it('is that for which a model has the DEK of the row wrapped', async () => {
    const { connect, logged, model } = await start()
    for (const one of [row, { ...row, tenant: 'a/b%2F' }, { ...row, tenant: '\0' }]) {
      await model(connect(), 'record').encrypt(one)
      const [entry] = logged('key.wrap')
      expect(entry).toEqual({ ...FOR_MODEL, 'context.row': textOf({ tenant: one.tenant, id: one.id }) })
    }
  })

  it('is never the same of two rows', () => {
    const value = fc.string({
      unit: fc.constantFrom('/', '%', '2', '5', 'F', '0', '\0', 'a'),
      minLength: 1,
      maxLength: 5,
    })
    const columns = fc.record({ id: value, tenant: value })
    fc.assert(
      fc.property(columns, columns, (one, other) => {
        expect(textOf(one) === textOf(other)).toBe(one.id === other.id && one.tenant === other.tenant)
      }),
      { numRuns: rounds(300, 5_000) },
    )
  })

  it('is left out where it would be too long: the row is sealed for its model alone, and opens', async () => {
    const { connect, logged, model } = await start()
    const longest = { ...row, tenant: 'x'.repeat(126) }
    const longer = { ...row, tenant: 'x'.repeat(127) }
    const stored = await model(connect(), 'record').encryptMany([longest, longer])
    expect(logged('key.wrap')).toEqual([FOR_MODEL, { ...FOR_MODEL, 'context.row': `7/${'x'.repeat(126)}` }])
    expect((await model(connect(), 'record').decryptMany(stored)).ok).toEqual([longest, longer])
    const { id, tenant } = longer
    expect(() => textOf({ id, tenant })).toThrow(expect.objectContaining({ code: 'E_INVALID_INPUT' }))
  })

  it.each([[{}], [{ id: '' }], [{ id: 1.5 }], [{ id: undefined as never }]])('cannot be made of %j', (columns) => {
    expect(() => textOf(columns)).toThrow(expect.objectContaining({ code: 'E_INVALID_INPUT' }))
  })
})

describe.each(['shared', 'record'] as const)('a row whose DEK has the scope %s', (dek) => {
  const seal = async () => {
    const scene = await start()
    return { ...scene, stored: (await scene.model(scene.eaas, dek).encrypt(row)) as Stored }
  }

  it('opens by a model of each scope, one at a time and many', async () => {
    const { connect, model, stored } = await seal()
    for (const scope of ['shared', 'call', 'record'] as const) {
      expect(await model(connect(), scope).decrypt(stored)).toEqual(row)
      expect((await model(connect(), scope).decryptMany([stored, stored])).ok).toEqual([row, row])
    }
  })

  it('opens by a client and by an export alone, with the context of the value', async () => {
    const { connect, eaas, keyId, stored } = await seal()
    const exported = openExport(await eaas.keys.export(keyId))
    const read = { note: stored.note }
    expect(await connect().decryptText(stored.note, { context })).toBe('called')
    expect(await connect().decryptMany([read], { fields: ['note'], context })).toEqual([{ note: 'called' }])
    expect(await exported.decryptText(stored.note, { context })).toBe('called')
    for (const wrong of [{ ...context, model: 'orders' }, { ...context, 'row.id': '8' }, {}]) {
      expect((await failure(connect().decrypt(stored.note, { context: wrong }))).code).toBe('E_DECRYPTION')
      expect((await failure(exported.decrypt(stored.note, { context: wrong }))).code).toBe('E_DECRYPTION')
    }
  })

  it('is rewrapped for the same use, by a model of each scope and by a client that knows the context', async () => {
    const { connect, eaas, keyId, logged, model, stored } = await seal()
    await eaas.keys.rotate(keyId)
    const sealed = await eaas.rewrap(stored.note, { context })
    expect(await model(connect(), dek).decrypt({ ...stored, note: sealed })).toEqual(row)
    for (const scope of ['shared', 'record'] as const) {
      for await (const { items } of model(connect(), scope).rewrap([stored])) {
        const [item] = items
        if (item?.status !== 'changed') throw new Error('it was not rewrapped')
        expect(await model(connect(), dek).decrypt(item.row)).toEqual(row)
      }
    }
    for (const entry of logged('key.wrap')) expect(entry).toMatchObject(dek === 'record' ? FOR_ROW : FOR_MODEL)
    expect((await failure(eaas.rewrap(stored.note))).code).toBe('E_DECRYPTION')
    expect((await failure(eaas.rewrap(stored.note, { context: { model: 7 } as never }))).code).toBe('E_INVALID_INPUT')
  })
})

describe('an export', () => {
  it('unwraps what was wrapped for a use, for that use alone', async () => {
    const { eaas, keyId, model } = await start()
    await model(eaas).encrypt(row)
    const exported = openExport(await eaas.keys.export(keyId))
    const full = eaas.model({ name: 'customers', keyId, bind: false, fields: { note: text() } })
    const { wrapped_key } = (await full.encrypt(row)).note
    expect(await exported.unwrap(wrapped_key, { context: { model: 'customers' } })).toHaveLength(32)
    for (const use of [undefined, {}, { purpose: 'index' }, { context: { model: 'orders' } }, { context: 7 }] as const)
      await expect(exported.unwrap(wrapped_key, use as never)).rejects.toThrow()
  })
})
