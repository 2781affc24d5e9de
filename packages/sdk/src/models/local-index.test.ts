// Index columns made in the process (local-index.md): by the published vectors in each engine, and what
// leaves the process.
import { createHash } from 'node:crypto'
import { decodeHex, encodeBase64, encodeHex } from '@eaas/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Client, createClient, date, type Fetch, type Field, InvalidInputError, number, text } from '../index.js'
import { failure, keyId, useClients } from '../test-support/clients.js'
import { itemsOf } from '../test-support/items-of.js'
import { createTestService } from '../testing.js'
import { readIndexKey, writeIndexKey } from './index-key.js'
import vectors from './local-index.vectors.json' with { type: 'json' }

const engines = ['node', 'web', 'noble'] as const
const { service, connect } = useClients()

/** The client of a service that unwraps everything to this key, whatever it is. */
function clientOf(engine: (typeof engines)[number], key: string): Client {
  const answer = ({ op, key_id }: { op: string; key_id: string }) =>
    op === 'unwrap'
      ? { dek: encodeBase64(decodeHex(key)), key_id, key_version: 1 }
      : { wrapped_key: 'AAAA', key_id, key_version: 1 }
  const fetch = async (url: string, { body }: { body?: unknown }) => {
    const [, key_id = '', op = ''] = /keys\/([^/]+)\/(\w+)$/.exec(url) ?? []
    if (op !== '') return Response.json(answer({ op, key_id }))
    const { operations } = JSON.parse(String(body)) as { operations: { op: string; key_id: string }[] }
    return Response.json({ results: operations.map((one) => ({ status: 200, body: answer(one) })) })
  }
  return createClient({ baseUrl: 'https://eaas.test', apiKey: 'x', engine, fetch: fetch as Fetch })
}

type ColumnVector = (typeof vectors.column)[number]

/** What the SDK stores in the column of a vector. */
async function storedValue(eaas: Client, vector: ColumnVector) {
  if (vector.kind === 'range') return storedBucket(eaas, vector)
  const { column, kind, bits, model } = vector
  const length = Number(vector.length)
  const indexKey = vectors.text[0]?.text ?? ''
  const { key_id: keyId } = readIndexKey(indexKey).wrapped
  const [a = '', b] = vector.texts
  const indexes =
    b !== undefined
      ? { [column]: { fields: ['a', 'b'] } }
      : {
          [column]:
            kind === 'prefix'
              ? { prefix: 'a', length, bits }
              : { ngram: 'a', length, bits: bits ?? 256, acceptLeakage: true },
        }
  const isOne = kind === 'exact' && b === undefined
  const users = eaas.model({
    name: model,
    keyId,
    bind: false,
    indexKey,
    fields: { a: isOne ? text({ index: column, bits }) : text(), b: text() },
    indexes: (isOne ? {} : indexes) as Record<string, { prefix: 'a'; length: number }>,
  })
  const row = await users.encrypt({ a, b: b ?? 'x' })
  return (row as Record<string, unknown>)[column]
}

async function storedBucket(eaas: Client, { column, length, bits, model, texts: [given = ''] }: ColumnVector) {
  const indexKey = vectors.text[0]?.text ?? ''
  const unit = (['day', 'month', 'year'] as const).find((one) => one === length)
  const index = { index: column, bits: bits === 256 ? undefined : bits }
  const field = unit ? date({ ...index, range: unit }) : number({ ...index, range: { step: Number(length) } })
  const { key_id: keyId } = readIndexKey(indexKey).wrapped
  const users = eaas.model({ name: model, keyId, bind: false, indexKey, fields: { a: field as Field<unknown> } })
  const row = await users.encrypt({ a: unit ? new Date(Number(given)) : Number(given) })
  return (row as Record<string, unknown>)[column]
}

describe('the text of an index key', () => {
  it.each(vectors.text)(
    'is the published one, and is read again: $name',
    ({ text, wrapped_key, model, ...wrapped }) => {
      const read = readIndexKey(text)
      const { key_id, key_version } = wrapped
      expect(read).toMatchObject({ model, wrapped: { wrapped_key, key_id, key_version } })
      expect(writeIndexKey(read)).toBe(text)
    },
  )

  it.each(vectors.refuse)('is refused: $name', ({ text }) => {
    expect(() => readIndexKey(text)).toThrow(InvalidInputError)
  })

  it('has more vectors to refuse than to accept', () => {
    const refused = [...vectors.refuse, ...vectors.refuse_key, ...vectors.refuse_column]
    expect(refused.length).toBeGreaterThan(2 * (vectors.text.length + vectors.column.length))
  })
})

describe.each(engines)('with engine %s', (engine) => {
  it.each(vectors.column)('a column holds what is published: $name', async (vector) => {
    expect(await storedValue(clientOf(engine, vectors.key), vector)).toEqual(vector.value)
  })

  it.each(vectors.refuse_column)('a column holds nothing else: $name', async (vector) => {
    expect(await storedValue(clientOf(engine, vectors.key), vector as ColumnVector)).not.toEqual(vector.value)
  })

  it.each(vectors.refuse_key)(
    'a key that is not the one of the text is refused, again and again: $name',
    async (vector) => {
      const { model, wrapped } = readIndexKey(vector.text)
      const eaas = clientOf(engine, vector.key)
      const fields = { a: text({ index: 'a_index' }) }
      const users = eaas.model({
        name: model || 'users',
        keyId: wrapped.key_id,
        bind: false,
        indexKey: vector.text,
        fields,
      })
      for (const _ of [1, 2]) {
        const error = await failure(users.index({ a: 'x' }))
        expect(error).toMatchObject({ code: 'E_DECRYPTION', message: expect.stringContaining('index key') })
      }
    },
  )

  it('one unwrap opens an index key for the life of a client, for all who wait for it', async () => {
    const indexKey = await connect().createIndexKey(keyId)
    const eaas = connect({ engine })
    const models = ['users', 'orders'].map((name) =>
      eaas.model({
        name,
        keyId,
        bind: false,
        indexKey,
        fields: { a: text({ index: 'a_index' }), n: number({ index: 'n_index' }) },
      }),
    )
    const found = await Promise.all(models.flatMap((model) => [model.index({ a: 'x' }), model.index({ n: 7 })]))
    expect(service.count('unwrap')).toBe(1)
    expect(new Set(found.map((columns) => Object.values(columns)[0])).size).toBe(4)
    service.intercept = () => {
      throw new Error('away')
    }
    expect(await models[0]?.index({ a: 'x' })).toEqual(found[0])
    expect(service.count('hash')).toBe(0)
  })

  it('equal values of two columns and two models differ, and those of one are equal, whatever they are', async () => {
    const eaas = clientOf(engine, vectors.key)
    const indexKey = vectors.text[0]?.text ?? ''
    const of = (name: string, index: string) =>
      eaas.model({
        name,
        keyId: readIndexKey(indexKey).wrapped.key_id,
        bind: false,
        indexKey,
        fields: { a: text({ index }) },
      })
    const models = [of('users', 'a_index'), of('users', 'b_index'), of('orders', 'a_index'), of('usersa', '_index')]
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'grapheme' }), async (a) => {
        const first = await Promise.all(models.map((model) => model.index({ a })))
        const rows = await Promise.all(models.map((model) => model.encrypt({ a })))
        expect(rows).toMatchObject(first)
        expect(new Set(first.map((columns) => Object.values(columns)[0])).size).toBe(models.length)
      }),
      { numRuns: 20 },
    )
  })
})

const people = [
  { id: 'r1', name: 'Ada Lovelace', phone: '+33 6 39 98 80 05' },
  { id: 'r2', name: 'Åsa Öberg', phone: '+33 6 39 98 80 06' },
]
const definition = () => ({
  name: 'people',
  bind: false as const,
  keyId,
  fields: {
    name: text({ index: 'name_index', normalize: ['trim', 'lowercase'] as const }),
    phone: text({ index: 'phone_index', bits: 12 }),
  },
})
const partIndexes = {
  name_2: { prefix: 'name', length: 2 },
  name_4: { prefix: 'name', length: 4, bits: 16 },
  name_parts: { ngram: 'name', length: 3, bits: 32, acceptLeakage: true },
} as const

/** Every byte that left the process. */
function sentBytes(): string {
  return service.requests.map(({ method, url, headers, body }) => JSON.stringify({ method, url, headers, body })).join()
}

/** Texts that would show a value: itself, normalised, its digests, and each in the usual encodings. */
function tracesOf(value: string): string[] {
  const forms = [value, value.toLowerCase(), value.slice(0, 4), value.slice(-6)]
  return forms.flatMap((form) => {
    const bytes = Buffer.from(form)
    const digests = ['md5', 'sha1', 'sha256', 'sha512'].map((name) => createHash(name).update(bytes).digest())
    return [form, ...[bytes, ...digests].flatMap((one) => [one.toString('hex'), one.toString('base64').slice(0, -3)])]
  })
}

describe('a model with an index key', () => {
  it('sends neither a value, nor a part or a hash of one, nor an index', async () => {
    const eaas = connect()
    const model = eaas.model({ ...definition(), indexKey: await eaas.createIndexKey(keyId), indexes: partIndexes })
    const rows = await model.encryptMany(people)
    await model.index({ name: 'ada lovelace' })
    await model.index({ name: { startsWith: 'Ada' }, phone: '+33 6 39 98 80 05' })
    await model.index({ name: { contains: 'love' } })
    await model.decryptMany(rows)
    expect(await itemsOf(model.reseal(rows))).toMatchObject([{ status: 'changed' }, { status: 'changed' }])
    const sent = sentBytes()
    expect(service.requests.length).toBeGreaterThan(2)
    const columns = rows.flatMap((row) => [row.name_index, row.phone_index, row.name_2, ...row.name_parts])
    for (const trace of [...people.flatMap(({ name, phone }) => [...tracesOf(name), ...tracesOf(phone)])]) {
      expect(sent).not.toContain(trace)
    }
    for (const column of columns.filter(({ length }) => length === 64)) expect(sent).not.toContain(column)
    expect(service.count('hash')).toBe(0)
    // The same test sees what the service's own index sends.
    await connect().model(definition()).encryptMany(people)
    expect(tracesOf('ada lovelace').some((trace) => sentBytes().includes(trace))).toBe(true)
  })

  it('finds rows by a whole value, the beginning and a part, with the longest prefix that the search has', async () => {
    const eaas = connect()
    const model = eaas.model({ ...definition(), indexKey: await eaas.createIndexKey(keyId), indexes: partIndexes })
    const [ada, asa] = await model.encryptMany(people)
    expect(await model.index({ name: ' ADA lovelace' })).toEqual({ name_index: ada?.name_index })
    expect(await model.index({ name: { startsWith: 'AD' } })).toEqual({ name_2: ada?.name_2 })
    expect(await model.index({ name: { startsWith: 'ada' } })).toEqual({ name_2: ada?.name_2 })
    expect(await model.index({ name: { startsWith: 'ada lo' } })).toEqual({ name_4: ada?.name_4 })
    expect(ada?.name_4).toHaveLength(4)
    const { name_parts } = await model.index({ name: { contains: 'ÖBERG' } })
    expect(name_parts).toHaveLength(3)
    expect(asa?.name_parts).toEqual(expect.arrayContaining(name_parts))
    expect(name_parts.every((part) => ada?.name_parts.includes(part))).toBe(false)
    expect(await model.decrypt(ada ?? expect.unreachable())).toEqual(people[0])
    const [first] = people
    if (!first) return
    expect(model.matches(first, { name: { startsWith: 'ada L' } })).toBe(true)
    expect(model.matches(first, { name: { startsWith: 'lovelace' } })).toBe(false)
    expect(model.matches(first, { name: { contains: 'A LOV' } })).toBe(true)
    expect(model.matches(first, { name: { contains: 'berg' } })).toBe(false)
  })

  it('matches only parts that its indexes find', async () => {
    const eaas = connect()
    const model = eaas.model({ ...definition(), indexKey: await eaas.createIndexKey(keyId), indexes: partIndexes })
    const row = { id: 'x', name: 'Ada', phone: '1' }
    const exact = eaas.model({ name: 'logins', keyId, bind: false, fields: { email: text({ index: 'email_index' }) } })
    const query = JSON.parse('{"email":{"startsWith":""}}') as { email: string } // a request body of an attacker
    await expect(exact.index(query)).rejects.toThrow(/no index of kind prefix/)
    expect(() => exact.matches({ email: 'root@x.org' }, query)).toThrow(/no index of kind prefix/)
    for (const name of [{ startsWith: '' }, { startsWith: 'a' }, { contains: '' }, { contains: 'da' }]) {
      await expect(model.index({ name })).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
      expect(() => model.matches(row, { name })).toThrow(expect.objectContaining({ code: 'E_INVALID_INPUT' }))
    }
  })

  it('finds every row that has the part, whatever the texts are', async () => {
    const eaas = connect()
    const model = eaas.model({ ...definition(), indexKey: await eaas.createIndexKey(keyId), indexes: partIndexes })
    const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'é', '🔐', '-'), minLength: 4, maxLength: 12 })
    await fc.assert(
      fc.asyncProperty(letters, fc.nat(12), fc.integer({ min: 3, max: 6 }), async (word, from, length) => {
        const name = `x${word}y`
        const part = [...name].slice(from, from + length).join('')
        fc.pre([...part.trim()].length >= 3)
        const row = await model.encrypt({ id: 'x', name, phone: '1' })
        const { name_parts } = await model.index({ name: { contains: part } })
        expect(row.name_parts).toEqual(expect.arrayContaining(name_parts))
        const { name_2, name_4 } = await model.index({ name: { startsWith: [...name].slice(0, length).join('') } })
        if (name_4) expect(name_4).toBe(row.name_4)
        else expect(name_2).toBe(row.name_2)
      }),
      { numRuns: 50 },
    )
  })

  it('keeps its columns through a rotation of the key and a rewrap of the index key', async () => {
    const eaas = connect()
    const indexKey = await eaas.createIndexKey(keyId, { model: 'people' })
    const before = await eaas.model({ ...definition(), indexKey }).index({ name: 'ada' })
    await eaas.keys.rotate(keyId)
    const rewrapped = await eaas.rewrapIndexKey(indexKey)
    expect(rewrapped).not.toBe(indexKey)
    expect(readIndexKey(rewrapped).wrapped.key_version).toBe(2)
    for (const one of [indexKey, rewrapped]) {
      expect(
        await connect()
          .model({ ...definition(), indexKey: one })
          .index({ name: 'ada' }),
      ).toEqual(before)
    }
  })

  it('is indexed again under a new key by reseal, if its index key is lost', async () => {
    const eaas = connect()
    const old = eaas.model({ ...definition(), indexKey: await eaas.createIndexKey(keyId), indexes: partIndexes })
    const rows = await old.encryptMany(people)
    const renewed = eaas.model({ ...definition(), indexKey: await eaas.createIndexKey(keyId), indexes: partIndexes })
    const again: (typeof rows)[number][] = []
    for await (const { items } of renewed.reseal(rows)) {
      for (const item of items) if (item.status === 'changed') again.push(item.row)
    }
    expect(again[0]).toMatchObject(await renewed.index({ name: 'ada lovelace' }))
    expect(again[0]?.name_index).not.toBe(rows[0]?.name_index)
    expect((await renewed.decryptMany(again)).ok).toEqual(people)
  })

  it('stores null where a value is missing', async () => {
    const eaas = connect()
    const model = eaas.model({
      name: 'people',
      keyId,
      bind: false,
      indexKey: await eaas.createIndexKey(keyId),
      fields: { name: text({ index: 'name_index' }).nullable() },
      indexes: {
        name_2: { prefix: 'name', length: 2 },
        name_parts: { ngram: 'name', length: 3, bits: 8, acceptLeakage: true },
      },
    })
    service.reset()
    const row = await model.encrypt({ name: null })
    expect(row).toEqual({ name: null, name_index: null, name_2: null, name_parts: null })
    expect((await model.encrypt({ name: 'Ada' })).name_parts).toEqual([expect.stringMatching(/^[0-9a-f]{2}$/)])
    service.reset()
    await model.encrypt({ name: null })
    expect(service.requests).toEqual([]) // nothing to index: the key is not opened
    expect(await model.decrypt(row)).toEqual({ name: null })
  })

  it('ends with its client: what waits is aborted, and no index is made afterwards', async () => {
    const eaas = connect()
    const indexKey = await connect().createIndexKey(keyId)
    const model = eaas.model({ ...definition(), indexKey })
    await model.index({ name: 'ada' })
    eaas.close()
    expect(await failure(model.index({ name: 'ada' }))).toMatchObject({ code: 'E_ABORTED' })
  })

  it('asks again after a failure, and lets a caller who aborts go alone', async () => {
    const indexKey = await connect().createIndexKey(keyId)
    const eaas = connect({ retries: 0 })
    const model = eaas.model({ ...definition(), indexKey })
    service.intercept = (_, response) => {
      response.writeHead(503, { 'content-type': 'text/plain' }).end('away')
      return true
    }
    await failure(model.index({ name: 'ada' }))
    service.intercept = undefined
    const controller = new AbortController()
    const leaving = failure(model.index({ name: 'ada' }, { signal: controller.signal }))
    const staying = model.index({ name: 'ada' })
    setTimeout(() => controller.abort())
    expect(encodeHex(new Uint8Array(1))).toBe('00')
    const left = await Promise.race([leaving, staying.then(() => undefined)])
    expect(left === undefined || left.code === 'E_ABORTED').toBe(true)
    expect((await staying).name_index).toHaveLength(64)
  })
})

describe('an index key is refused', () => {
  const indexKeyOf = (model?: string) => connect().createIndexKey(keyId, { model })

  it.each([
    ['garbled', (one: string) => `${one.slice(0, -1)}!`, 'not an index key'],
    ['cut', (one: string) => one.slice(0, 40), 'not an index key'],
    ['an envelope', () => 'eaas.1.AAAA', 'not an index key'],
    ['no text', () => 7 as unknown as string, 'not an index key'],
  ])('when it is %s, before the network is used', async (_, change, message) => {
    const indexKey = change(await indexKeyOf())
    service.reset()
    expect(() => connect().model({ ...definition(), indexKey })).toThrow(message)
    expect((await failure(connect().rewrapIndexKey(indexKey))).message).toContain(message)
    expect(service.requests).toEqual([])
  })

  it('by another model than the one that it was made for', async () => {
    const indexKey = await indexKeyOf('orders')
    expect(() => connect().model({ ...definition(), indexKey })).toThrow(
      expect.objectContaining({
        message: 'indexKey belongs to the model "orders"',
        hint: expect.stringContaining('createIndexKey()'),
      }),
    )
    expect(() => connect().model({ ...definition(), name: 'orders', indexKey })).not.toThrow()
  })

  it('by a model of another key, unless that key is one of its former ones', async () => {
    const indexKey = await indexKeyOf()
    const other = service.createKey()
    expect(() => connect().model({ ...definition(), keyId: other, indexKey })).toThrow(`under the key ${keyId}`)
    const moved = connect().model({ ...definition(), keyId: other, formerKeyIds: [keyId], indexKey })
    expect(await moved.index({ name: 'ada' })).toMatchObject({ name_index: expect.any(String) })
  })

  it.each([
    ['E_VERSION_TOO_OLD', 'Lower min_unwrap_version of the key, rewrap'],
    ['E_VERSION_DESTROYED', 'createIndexKey()'],
    ['E_KEY_DESTROYED', 'createIndexKey()'],
  ] as const)('where its version no longer opens, and says what repairs that: %s', async (code, remedy) => {
    const service = createTestService()
    const eaas = createClient(service)
    const { id: keyId } = await eaas.keys.create({ name: 'users' })
    const indexKey = await eaas.createIndexKey(keyId)
    service.failNext({ operation: 'unwrap', code })
    const error = await failure(eaas.model({ ...definition(), keyId, indexKey }).index({ name: 'ada' }))
    expect(error).toMatchObject({ code: 'E_API', problem: code, hint: expect.stringContaining(remedy) })
    expect(error.message).toMatch(/^could not open the index key: 409 /)
    expect(error.hint).not.toContain('deleted')
    eaas.close()
  })

  it('with another one in a batch that is refused as a whole, and each error says so once', async () => {
    const service = createTestService()
    const eaas = createClient(service)
    const { id: keyId } = await eaas.keys.create({ name: 'users' })
    const indexKeys = [await eaas.createIndexKey(keyId), await eaas.createIndexKey(keyId)]
    service.failNext({ code: 'E_TENANT_SUSPENDED' })
    const errors = await Promise.all(
      indexKeys.map((indexKey) => failure(eaas.model({ ...definition(), keyId, indexKey }).index({ name: 'ada' }))),
    )
    for (const { message } of errors) expect(message).toMatch(/^could not open the index key: 403 /)
    eaas.close()
  })

  it('by a model of format v1, whose indexes others share', async () => {
    const indexKey = await indexKeyOf()
    const { name: _, ...unnamed } = definition()
    expect(() => connect().model({ ...unnamed, envelope: 1, indexKey })).toThrow('indexKey needs envelope 2')
  })

  it('with another flag of the secret, also where the client has opened it before', async () => {
    const eaas = connect({ secret: new Uint8Array(32).fill(7) })
    const text1s = await eaas.createIndexKey(keyId)
    const indexBy = (indexKey: string) =>
      eaas
        .model({ name: 'users', keyId, bind: false, indexKey, fields: { a: text({ index: 'a_index' }) } })
        .index({ a: 'x' })
    expect(await indexBy(text1s)).toHaveProperty('a_index')
    const unflagged = text1s.replace('eaas.index.1s.', 'eaas.index.1.')
    expect(await failure(indexBy(unflagged))).toMatchObject({ code: 'E_DECRYPTION' })
  })

  it('when the service does not know its wrapped key', async () => {
    const indexKey = await indexKeyOf()
    const read = readIndexKey(indexKey)
    const bytes = Buffer.from(read.wrapped.wrapped_key, 'base64')
    bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 1, bytes.length - 1)
    const wrapped = { ...read.wrapped, wrapped_key: bytes.toString('base64') }
    const model = connect().model({ ...definition(), indexKey: writeIndexKey({ ...read, wrapped }) })
    const error = await failure(model.encrypt({ name: 'Ada', phone: '1' }))
    expect(error).toMatchObject({
      code: 'E_DECRYPTION',
      message: expect.stringContaining('could not open the index key'),
    })
  })

  it('for a name that its text cannot hold', async () => {
    for (const model of ['m'.repeat(257), '\ud800', 7 as unknown as string]) {
      expect(await failure(indexKeyOf(model))).toMatchObject({ code: 'E_INVALID_INPUT' })
    }
  })
})

describe('an index of parts', () => {
  const declare = (indexes: object, more: object = {}) =>
    connect().model({
      ...definition(),
      indexKey: vectors.text[0]?.text,
      ...more,
      indexes: indexes as typeof partIndexes,
    })

  it.each([
    ['without an index key', { p: { prefix: 'name', length: 2 } }, { indexKey: undefined }, 'needs indexKey'],
    ['of no field', { p: { prefix: 'nam', length: 2 } }, {}, 'cannot be indexed so'],
    [
      'of a number',
      { p: { ngram: 'n', length: 2, bits: 8, acceptLeakage: true } },
      { fields: { n: number() } },
      'cannot be indexed so',
    ],
    ['without a length', { p: { ngram: 'name', bits: 8, acceptLeakage: true } }, {}, 'length must be a whole number'],
    [
      'of no character',
      { p: { ngram: 'name', length: 0, bits: 8, acceptLeakage: true } },
      {},
      'length must be a whole number',
    ],
    ['with another option', { p: { prefix: 'name', length: 2, fields: ['name'] } }, {}, 'no option "fields"'],
    ['of two kinds', { p: { prefix: 'name', ngram: 'name', length: 2 } }, {}, 'no option "ngram"'],
    ['without bits', { p: { ngram: 'name', length: 2, acceptLeakage: true } }, {}, 'needs bits and acceptLeakage'],
    ['that nobody accepted', { p: { ngram: 'name', length: 2, bits: 8 } }, {}, 'needs bits and acceptLeakage'],
    ['of a prefix that accepts leakage', { p: { prefix: 'name', length: 2, acceptLeakage: true } }, {}, 'no option'],
    ['with too few bits', { p: { ngram: 'name', length: 2, bits: 3 } }, {}, 'bits must be'],
  ])('is refused %s', (_, indexes, more, message) => {
    const keyed = { keyId: readIndexKey(vectors.text[0]?.text).wrapped.key_id }
    expect(() => declare(indexes, { ...keyed, ...more })).toThrow(message)
  })

  it.each<[string, unknown, string]>([
    ['shorter than every prefix', { startsWith: 'a' }, 'at least 2 characters, got 1'],
    ['shorter than its parts', { contains: '🔐a' }, 'at least 3 characters, got 2'],
    ['that is no text', { startsWith: 7 }, 'expected text'],
    ['that is nothing', {}, 'search for text'],
    ['that is both', { startsWith: 'ada', contains: 'ada' }, 'search for text'],
    ['with something else', { startsWith: 'ada', limit: 7 }, 'search for text'],
  ])('refuses a search for a part %s', async (_, name, message) => {
    const eaas = connect()
    const model = eaas.model({ ...definition(), indexKey: await eaas.createIndexKey(keyId), indexes: partIndexes })
    expect((await failure(model.index({ name: name as string }))).message).toContain(message)
  })

  it('refuses a search for a part of a field that has no such index', async () => {
    const eaas = connect()
    const model = eaas.model({ ...definition(), indexKey: await eaas.createIndexKey(keyId) })
    const query = { name: { contains: 'ada' } as unknown as string }
    expect((await failure(model.index(query))).message).toContain('no index of kind ngram')
  })
})
