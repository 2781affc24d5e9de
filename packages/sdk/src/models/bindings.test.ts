// What a model binds its values to (bindings.md), by the published vectors and through what applications
// call, with every engine.
import { contextAad, decodeHex, encodeBase64, encodeHex } from '@eaas/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { rounds } from '../../../../test/support/run/rounds.js'
import { contextRow } from '../broker.js'
import { type Client, createClient, type EngineName, fromText, text } from '../index.js'
import { clientsOf, failure, useService } from '../test-support/clients.js'
import { itemsOf } from '../test-support/items-of.js'
import { bindField, bindRow } from './bindings.js'
import vectors from './bindings.vectors.json' with { type: 'json' }
import { readDefinition } from './definition.js'

const service = useService()
const connect = clientsOf(service)
const ENGINES = ['node', 'web', 'noble'] as const

const definitionOf = (bind: readonly string[], name = 'users', field = 'email') =>
  readDefinition({ name, keyId: vectors.key_id, bind: bind.length > 0 && bind, fields: { [field]: text() } })

function aadOf({ model, field, bind, row }: (typeof vectors.context)[number]) {
  const definition = definitionOf(bind, model, field)
  return bindField(definition, vectors.key_id, field, bindRow(definition, row, 0) ?? new Uint8Array(0))
}

describe('the context of a field', () => {
  it.each(vectors.context)('is the published one: $name', (vector) => {
    expect(encodeHex(aadOf(vector))).toBe(vector.aad)
    expect(encodeHex(contextAad(vectors.key_id, vector.context))).toBe(vector.aad)
  })

  it('holds negative zero as 0, and a bigint as its digits', () => {
    const definition = definitionOf(['id'])
    const bound = (id: unknown) => encodeHex(bindRow(definition, { id }, 0) ?? new Uint8Array(0))
    expect(bound(-0)).toBe(bound('0'))
    expect(bound(7n)).toBe(bound(7))
    expect(bound(2n ** 63n)).toBe(bound('9223372036854775808'))
    expect(bound(-(2n ** 63n))).toBe(bound('-9223372036854775808'))
  })

  it.each([...vectors.refuse, { name: 'a Date', bind: ['id'], row: { id: new Date() } }])(
    'cannot be made of: $name',
    (vector) => {
      const { bind, row } = vector
      expect(() => bindRow(definitionOf(bind), row as Record<string, unknown>, 3)).toThrow(
        expect.objectContaining({ code: 'E_INVALID_INPUT', place: { index: 3, field: expect.any(String) } }),
      )
    },
  )

  it('has more vectors to refuse than to accept, each with a name of its own', () => {
    const refused = [...vectors.refuse, ...vectors.refuse_open, ...vectors.refuse_sealed]
    const accepted = [...vectors.context, ...vectors.open, ...vectors.open_sealed]
    expect(refused.length).toBeGreaterThan(accepted.length)
    expect(new Set(refused.map(({ name }) => name)).size).toBe(refused.length)
  })
})

/** Reads rows of the vectors, whose service unwraps everything to their DEK. */
function readerOf(bind: readonly string[], engine: EngineName) {
  const answer = { dek: encodeBase64(decodeHex(vectors.dek)), key_id: vectors.key_id, key_version: 1 }
  const fetch = async () => Response.json(answer)
  const eaas = createClient({ baseUrl: 'https://eaas.test', apiKey: 'key', engine, fetch })
  const fields = { email: text(), 'address.street': text() }
  return eaas.model({ name: 'users', keyId: vectors.key_id, bind: bind.length > 0 && bind, fields })
}

describe.each(ENGINES)('rows that another program sealed, with engine %s', (engine) => {
  it.each(vectors.open)('open: $name', async ({ bind, row, plain }) => {
    expect(await readerOf(bind, engine).decrypt(row as never)).toEqual(plain)
  })

  it.each(vectors.refuse_open)('do not open: $name', async ({ bind, row }) => {
    const error = await failure(readerOf(bind, engine).decrypt(row as never))
    expect(error).toMatchObject({ code: 'E_DECRYPTION', place: { index: 0 } })
  })
})

const REFUSED = /^users, id "[abc]", field "\w+": could not decrypt: altered, moved, or encrypted under another key$/

/** A reader of rows with a seal. */
function sealedReader(engine: EngineName) {
  const answer = { dek: encodeBase64(decodeHex(vectors.dek)), key_id: vectors.key_id, key_version: 1 }
  const fetch = async () => Response.json(answer)
  const eaas = createClient({ baseUrl: 'https://eaas.test', apiKey: 'key', engine, fetch })
  return eaas.model({
    ...{ name: 'users', keyId: vectors.key_id, bind: ['id'], sealed: 'row' },
    fields: { email: text({ index: 'email_index' }), 'address.street': text().nullable() },
    indexes: { email_parts: { ngram: 'email', length: 3, bits: 8, acceptLeakage: true } },
  })
}

describe.each(ENGINES)('rows with a seal that another program made, with engine %s', (engine) => {
  it.each(vectors.open_sealed)('open: $name', async ({ row, plain }) => {
    expect(await sealedReader(engine).decrypt(row as never)).toEqual(plain)
  })

  it.each(vectors.refuse_sealed)('do not open: $name', async ({ row }) => {
    const error = await failure(sealedReader(engine).decrypt(row as never))
    expect(error).toMatchObject({ code: 'E_DECRYPTION', place: { index: 0 } })
  })
})

describe.each(ENGINES)('a row of a model, with engine %s', (engine) => {
  const usersOf = (eaas: Client, keyId: string, name = 'users', bind: readonly string[] = ['id']) =>
    eaas.model({
      name,
      keyId,
      bind: bind.length > 0 && bind,
      format: 'text',
      fields: { email: text(), phone: text().nullable() },
    })
  const ada = { id: 'a', email: 'ada@example.org', phone: '1' }
  const bob = { id: 'b', email: 'bob@example.org', phone: '2' }

  it('opens in its place only, and whatever was moved into it is refused with one error', async () => {
    const [keyId, otherId] = [service.createKey(), service.createKey()]
    const eaas = connect({ engine })
    const users = usersOf(eaas, keyId)
    const [row, other] = await users.encryptMany([ada, bob])
    const [customer] = await usersOf(eaas, keyId, 'customers').encryptMany([ada])
    const [foreign] = await usersOf(eaas, otherId).encryptMany([ada])
    const [unbound] = await usersOf(eaas, keyId, 'users', []).encryptMany([ada])
    const [v1] = await eaas
      .model({ keyId, envelope: 1, format: 'text', fields: { email: text(), phone: text() } })
      .encryptMany([ada])
    if (!row || !other || !customer || !foreign || !unbound || !v1) throw new Error('rows are missing')
    const wrong = [
      { ...row, email: other.email },
      { ...row, email: row.phone ?? '' },
      { ...row, id: 'b' },
      { ...other, id: 'a' },
      customer,
      unbound,
      v1,
    ]
    for (const client of [eaas, connect({ engine })]) {
      const model = usersOf(client, keyId)
      const { ok, failed } = await model.decryptMany([row, ...wrong, other])
      expect(ok).toEqual([ada, bob])
      expect(failed.map(({ index }) => index)).toEqual(wrong.map((_, at) => at + 1))
      for (const { error } of failed) {
        expect(error).toMatchObject({ code: 'E_DECRYPTION', message: expect.stringMatching(REFUSED) })
      }
      // The hint tells no more than the format of v1, which anybody can read.
      const hints = failed.map(({ error }) => error.hint)
      expect(new Set(hints.slice(0, -1))).toEqual(
        new Set([expect.stringMatching(/^Pass the row that it was encrypted with, use the old name of a model/)]),
      )
      expect(hints.at(-1)).toMatch(/^It is of format v1 .*acceptUnbound/)
      expect(await failure(model.decrypt(foreign))).toMatchObject({ code: 'E_DECRYPTION' })
      expect(await itemsOf(model.reseal(wrong))).toMatchObject(wrong.map(() => ({ status: 'failed' })))
    }
  })

  it('is refused where the service unwraps to another DEK, which is not kept', async () => {
    const keyId = service.createKey()
    const row = await usersOf(connect({ engine }), keyId).encrypt(ada)
    const reader = usersOf(connect({ engine }), keyId)
    service.planted.set(fromText(row.email).wrapped_key, new Uint8Array(32).fill(7))
    expect(await failure(reader.decrypt(row))).toMatchObject({ code: 'E_DECRYPTION' })
    service.planted.clear()
    expect(await reader.decrypt(row)).toEqual(ada)
  })

  it('binds, whatever the names and values are', async () => {
    const keyId = service.createKey()
    const eaas = connect({ engine })
    const unit = fc.constantFrom('a', 'b', '7', '.', '\0', 'é', 'e\u0301', '🔐', ' ')
    const values = fc.oneof(fc.string({ unit, minLength: 1, maxLength: 4 }), fc.integer())
    const places = fc.record({ name: fc.string({ unit, minLength: 1, maxLength: 3 }), id: values, tenant: values })
    await fc.assert(
      fc.asyncProperty(places, places, async (one, other) => {
        const modelOf = ({ name }: typeof one) =>
          eaas.model({ name, keyId, bind: ['id', 'tenant'], fields: { note: text() } })
        const { name: _, ...columns } = one
        const row = await modelOf(one).encrypt({ ...columns, note: 'x' })
        expect((await modelOf(one).decrypt(row)).note).toBe('x')
        const isSame = one.name === other.name && `${one.id}` === `${other.id}` && `${one.tenant}` === `${other.tenant}`
        const moved = modelOf(other).decrypt({ ...row, id: other.id, tenant: other.tenant })
        if (isSame) expect((await moved).note).toBe('x')
        else expect(await failure(moved)).toMatchObject({ code: 'E_DECRYPTION' })
      }),
      { numRuns: rounds(40, 500) },
    )
  })
})

describe('the columns of `bind`', () => {
  it('must be in each row before anything is sent, and when it is opened', async () => {
    const keyId = service.createKey()
    const users = connect().model({ name: 'users', keyId, bind: ['id'], fields: { email: text() } })
    const place = { index: 1, field: 'id' }
    const wrong = users.encryptMany([{ id: 1, email: 'a' }, { email: 'b' }])
    expect(await failure(wrong)).toMatchObject({ code: 'E_INVALID_INPUT', place })
    expect(service.requests).toEqual([])
    const rows = await users.encryptMany([
      { id: 1, email: 'a' },
      { id: 2, email: 'b' },
    ])
    const { ok, failed } = await users.decryptMany([
      rows[0],
      { ...rows[1], id: null },
      { email: rows[1]?.email },
    ] as never[])
    expect(ok).toEqual([{ id: 1, email: 'a' }])
    expect(failed.map(({ error }) => error.code)).toEqual(['E_INVALID_INPUT', 'E_INVALID_INPUT'])
    expect(failed[0]?.error).toMatchObject({
      place,
      hint: expect.stringContaining('select its column when it is read'),
    })
  })

  it('may be an ObjectId of MongoDB, which is its text', async () => {
    class ObjectId {
      toHexString = () => '65f1c0ffee65f1c0ffee65f1'
    }
    const keyId = service.createKey()
    const users = connect().model({ name: 'users', keyId, bind: ['_id'], fields: { email: text() } })
    const _id = new ObjectId()
    const row = await users.encrypt({ _id, email: 'a' })
    expect(row._id).toBe(_id)
    expect(await users.decrypt(row)).toEqual({ _id, email: 'a' })
    expect(await users.decrypt({ ...row, _id: _id.toHexString() })).toEqual({ _id: _id.toHexString(), email: 'a' })
    const altered = await failure(users.decrypt({ ...row, _id: { toHexString: () => '65f1c0ffee65f1c0ffee65f2' } }))
    expect(altered).toMatchObject({ code: 'E_DECRYPTION' })
    for (const other of [{}, { toHexString: '65f1c0ffee65f1c0ffee65f1' }, { toHexString: () => 7.5 }]) {
      const error = await failure(users.decrypt({ ...row, _id: other as never }))
      expect(error).toMatchObject({
        message: expect.stringMatching(/must hold text or a whole number, got /),
      })
    }
  })

  it.each([
    ['has half of a surrogate pair', 'SECRET\ud800', 'got a lone surrogate'],
    ['is longer than a context takes', `SECRET${'é'.repeat(2_046)}`, 'got text of more than 4,096 bytes'],
  ])('are named where their text %s, and only that row fails', async (_, id, message) => {
    const keyId = service.createKey()
    const users = connect().model({ name: 'users', keyId, bind: ['tenant', 'id'], fields: { email: text() } })
    const given = [
      { tenant: 't', id: '1', email: 'a' },
      { tenant: 't', id: '2', email: 'b' },
    ]
    const expected = {
      code: 'E_INVALID_INPUT',
      place: { index: 1, field: 'id' },
      message: expect.stringContaining(message),
    }
    const altered = <R extends object>(row: R | undefined) => ({ ...row, id })
    const error = await failure(users.encryptMany([given[0], altered(given[1])] as typeof given))
    expect(error).toMatchObject(expected)
    expect(`${error.message} ${error.hint}`).not.toMatch(/SECRET|flat object/)
    expect(service.requests).toEqual([])
    const rows = await users.encryptMany(given)
    const { ok, failed } = await users.decryptMany([rows[0], altered(rows[1])] as never[])
    expect(ok).toEqual([given[0]])
    expect(failed).toMatchObject([{ index: 1, error: expected }])
    expect(() => contextRow({ id })).toThrow(message)
  })

  it('may be numbers that a driver returns as text, and lie in objects', async () => {
    const keyId = service.createKey()
    const users = connect().model({ name: 'users', keyId, bind: ['meta.id'], fields: { email: text() } })
    const row = await users.encrypt({ meta: { id: 7 }, email: 'a' })
    expect(await users.decrypt({ ...row, meta: { id: '7' } })).toEqual({ meta: { id: '7' }, email: 'a' })
    expect(await users.decrypt({ ...row, meta: { id: 7n } })).toMatchObject({ email: 'a' })
  })

  it('are those of the call: changing the row afterwards changes nothing', async () => {
    const keyId = service.createKey()
    const users = connect().model({ name: 'users', keyId, bind: ['id'], fields: { email: text() } })
    const given = { id: '1', email: 'a' }
    const sealing = users.encrypt(given)
    given.id = '2'
    expect(await users.decrypt(await sealing)).toEqual({ id: '1', email: 'a' })
  })
})
