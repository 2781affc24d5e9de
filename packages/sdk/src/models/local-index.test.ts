// Index columns made in the process (local-index.md): by the published vectors in each engine, and what
// leaves the process.
import { createHash } from 'node:crypto'
import { decodeHex, encodeBase64, encodeHex } from '@eaas/protocol'
import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { type Client, createClient, type Fetch, number, text } from '../index.js'
import { failure, keyId, useClients } from '../test-support/clients.js'
import { storedValue } from '../test-support/index-vectors.js'
import { itemsOf } from '../test-support/items-of.js'
import { send } from '../test-support/service.js'
import vectors from './local-index.vectors.json' with { type: 'json' }

const engines = ['node', 'web', 'noble'] as const
const { service, connect } = useClients()

/** The client of a service that derives this secret, whatever is asked. */
function clientOf(engine: (typeof engines)[number], secret: string): Client {
  const answer = ({ op, key_id }: { op: string; key_id: string }) =>
    op.startsWith('index')
      ? { secret: encodeBase64(decodeHex(secret)), key_id }
      : { wrapped_key: 'AAAA', key_id, key_version: 1 }
  const fetch = async (url: string, { body }: { body?: unknown }) => {
    const [, key_id = '', op = ''] = /keys\/([^/]+)\/([\w-]+)$/.exec(url) ?? []
    if (op !== '') return Response.json(answer({ op, key_id }))
    const { operations } = JSON.parse(String(body)) as { operations: { op: string; key_id: string }[] }
    return Response.json({ results: operations.map((one) => ({ status: 200, body: answer(one) })) })
  }
  return createClient({ baseUrl: 'https://eaas.test', apiKey: 'x', engine, fetch: fetch as Fetch })
}

describe.each(engines)('with engine %s', (engine) => {
  it.each(vectors.column)('a column holds what is published: $name', async (vector) => {
    expect(await storedValue(clientOf(engine, vectors.key), vector, { keyId })).toEqual(vector.value)
  })

  it.each(vectors.refuse_column)('a column holds nothing else: $name', async (vector) => {
    expect(await storedValue(clientOf(engine, vectors.key), vector, { keyId })).not.toEqual(vector.value)
  })

  it('asks once for the secret of a model, for all who wait for it, and then makes indexes without the service', async () => {
    const eaas = connect({ engine })
    const models = ['users', 'orders'].map((name) =>
      eaas.model({
        name,
        keyId,
        bind: false,
        fields: { a: text({ index: 'a_index' }), n: number({ index: 'n_index' }) },
      }),
    )
    const found = await Promise.all(models.flatMap((model) => [model.index({ a: 'x' }), model.index({ n: 7 })]))
    expect(service.count('indexSecret')).toBe(2)
    expect(service.requests).toHaveLength(1)
    expect(new Set(found.map((columns) => Object.values(columns)[0])).size).toBe(4)
    service.intercept = () => {
      throw new Error('away')
    }
    expect(await models[0]?.index({ a: 'x' })).toEqual(found[0])
    expect(service.count('hash')).toBe(0)
  })

  it('is not made with another secret than the client saw first', async () => {
    const eaas = connect({ engine, retries: 0, deks: { cache: false } })
    const model = eaas.model({ name: 'users', keyId, bind: false, fields: { a: text({ index: 'a_index' }) } })
    const first = await model.index({ a: 'x' })
    service.intercept = ({ operation }, response) => {
      if (operation !== 'indexSecret') return false
      send(response, { status: 200, body: { secret: Buffer.alloc(32, 9).toString('base64'), key_id: keyId } })
      return true
    }
    const error = await failure(model.index({ a: 'x' }))
    expect(error).toMatchObject({ code: 'E_PROTOCOL', hint: expect.stringContaining('restored') })
    expect(error.message).toContain(`key ${keyId}: the service derived another index secret for "users"`)
    const other = eaas.model({ name: 'orders', keyId, bind: false, fields: { a: text({ index: 'a_index' }) } })
    expect(await other.index({ a: 'x' })).not.toEqual(first) // each name has its own
    service.intercept = undefined
    expect(await model.index({ a: 'x' })).toEqual(first)
  })

  it('equal values of two columns and two models differ, and those of one are equal, whatever they are', async () => {
    const eaas = clientOf(engine, vectors.key)
    const of = (name: string, index: string) => eaas.model({ name, keyId, bind: false, fields: { a: text({ index }) } })
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

describe('a model whose indexes are made in this process', () => {
  it('sends neither a value, nor a part or a hash of one, nor an index', async () => {
    const eaas = connect()
    const model = eaas.model({ ...definition(), indexes: partIndexes })
    const rows = await model.encryptMany(people)
    await model.index({ name: 'ada lovelace' })
    await model.index({ name: { startsWith: 'Ada' }, phone: '+33 6 39 98 80 05' })
    await model.index({ name: { contains: 'love' } })
    await model.decryptMany(rows)
    expect(await itemsOf(model.reseal(rows))).toMatchObject([{ status: 'changed' }, { status: 'changed' }])
    const sent = sentBytes()
    expect(service.requests.length).toBeGreaterThan(1)
    const columns = rows.flatMap((row) => [row.name_index, row.phone_index, row.name_2, ...row.name_parts])
    for (const trace of [...people.flatMap(({ name, phone }) => [...tracesOf(name), ...tracesOf(phone)])]) {
      expect(sent).not.toContain(trace)
    }
    for (const column of columns.filter(({ length }) => length === 64)) expect(sent).not.toContain(column)
    expect(service.count('hash')).toBe(0)
    // The same test sees what the service's own index sends.
    await connect()
      .model({ ...definition(), index: { by: 'service' } })
      .encryptMany(people)
    expect(tracesOf('ada lovelace').some((trace) => sentBytes().includes(trace))).toBe(true)
  })

  it('finds rows by a whole value, the beginning and a part, with the longest prefix that the search has', async () => {
    const eaas = connect()
    const model = eaas.model({ ...definition(), indexes: partIndexes })
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
    const model = eaas.model({ ...definition(), indexes: partIndexes })
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
    const model = eaas.model({ ...definition(), indexes: partIndexes })
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

  it('keeps its columns through a rotation of the key', async () => {
    const eaas = connect()
    const before = await eaas.model(definition()).index({ name: 'ada' })
    await eaas.keys.rotate(keyId)
    expect(await connect().model(definition()).index({ name: 'ada' })).toEqual(before)
  })

  it('has other columns in each generation and under each key, and in none those of the service', async () => {
    const eaas = connect()
    const other = service.createKey()
    const nameOf = async (index: object) =>
      (await eaas.model({ ...definition(), index }).index({ name: 'ada' })).name_index
    const all = [
      {},
      { generation: 2 },
      { generation: 3 },
      { keyId: other },
      { by: 'service' },
      { by: 'service', keyId: other },
    ]
    expect(new Set(await Promise.all(all.map(nameOf))).size).toBe(all.length)
    expect(await nameOf({ generation: 1, keyId })).toBe(await nameOf({}))
    const names = service.requests.flatMap(({ operations, operation, body }) =>
      operation === 'batch' ? operations.map(({ name }) => name) : [(JSON.parse(body) as { name?: string }).name],
    )
    expect([...new Set(names.filter(Boolean))].sort()).toEqual(['people', 'people:2', 'people:3'])
  })

  it('has its shared columns from the service, with others that it makes itself', async () => {
    const eaas = connect()
    const fields = { email: text({ index: 'email_index', shared: true }), name: text({ index: 'name_index' }) }
    const users = eaas.model({ name: 'users', keyId, bind: false, fields })
    const row = await users.encrypt({ email: 'ada@example.org', name: 'Ada' })
    expect(row.email_index).toBe(await eaas.hash('ada@example.org', { keyId }))
    expect(await users.index({ name: 'Ada' })).toEqual({ name_index: row.name_index })
    expect(
      service.requests
        .flatMap(({ operations }) => operations)
        .map(({ op }) => op)
        .sort(),
    ).toEqual(['hash', 'indexSecret', 'wrap'])
  })

  it('stores null where a value is missing', async () => {
    const eaas = connect()
    const model = eaas.model({
      name: 'people',
      keyId,
      bind: false,
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
    expect(service.requests).toEqual([]) // nothing to index: no secret is asked for
    expect(await model.decrypt(row)).toEqual({ name: null })
  })

  it('ends with its client: what waits is aborted, and no index is made afterwards', async () => {
    const eaas = connect()
    const model = eaas.model(definition())
    await model.index({ name: 'ada' })
    eaas.close()
    expect(await failure(model.index({ name: 'ada' }))).toMatchObject({ code: 'E_ABORTED' })
  })

  it('asks again after a failure, and lets a caller who aborts go alone', async () => {
    const eaas = connect({ retries: 0 })
    const model = eaas.model(definition())
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

  it('asks again once its secret is as old as a cached DEK may be, and each time without a cache', async () => {
    const eaas = connect({ deks: { cacheMaxAgeMs: 60_000 } })
    const model = eaas.model(definition())
    const first = await model.index({ name: 'ada' })
    const now = vi.spyOn(performance, 'now')
    try {
      const start = performance.now()
      now.mockImplementation(() => start + 61_000)
      expect(await model.index({ name: 'ada' })).toEqual(first)
      expect(service.count('indexSecret')).toBe(2)
    } finally {
      now.mockRestore()
    }
    const uncached = connect({ deks: { cache: false } }).model(definition())
    service.reset()
    for (const _ of [1, 2]) expect(await uncached.index({ name: 'ada', phone: '1' })).toMatchObject(first)
    expect(service.count('indexSecret')).toBe(2)
  })

  it('refuses a secret of zeros', async () => {
    const model = clientOf('node', '00'.repeat(32)).model(definition())
    expect(await failure(model.index({ name: 'ada' }))).toMatchObject({ code: 'E_PROTOCOL' })
  })

  it.each<[string, object, string]>([
    ['another maker', { by: 'browser' }, 'index.by must be one of service'],
    ['a generation that is none', { generation: 0 }, 'index.generation must be a whole number'],
    ['a generation of the service', { by: 'service', generation: 2 }, 'the service has no generations'],
    ['a key that is none', { keyId: 'users' }, 'index.keyId'],
    ['a key by name and id', { key: 'users', keyId: '0c8f8f9e-6d1e-4c53-9c1f-3f4a0d1b2c3d' }, 'not both'],
    ['another option', { secret: 'x' }, 'no option "secret"'],
  ])('is refused with %s', (_, index, message) => {
    expect(() => connect().model({ ...definition(), index } as never)).toThrow(message)
  })

  it.each(['x'.repeat(256), 'a\0b', '🗝️'.repeat(130), '\ud800'])(
    'is refused with a name that no secret can have: %j',
    (name) => {
      const { name: _, ...rest } = definition()
      expect(() => connect().model({ ...rest, name })).toThrow('a model with an index must have a name')
      expect(() => connect().model({ ...rest, name, index: { by: 'service' } })).not.toThrow()
    },
  )
})

describe('an index of parts', () => {
  const declare = (indexes: object, more: object = {}) =>
    connect().model({
      ...definition(),
      ...more,
      indexes: indexes as typeof partIndexes,
    })

  it.each([
    [
      'of the service',
      { p: { prefix: 'name', length: 2 } },
      { index: { by: 'service' } },
      'the service makes no index',
    ],
    ['of format v1', { p: { prefix: 'name', length: 2 } }, { envelope: 1 }, 'the service makes no index'],
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
    expect(() => declare(indexes, more)).toThrow(message)
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
    const model = eaas.model({ ...definition(), indexes: partIndexes })
    expect((await failure(model.index({ name: name as string }))).message).toContain(message)
  })

  it('refuses a search for a part of a field that has no such index', async () => {
    const eaas = connect()
    const model = eaas.model(definition())
    const query = { name: { contains: 'ada' } as unknown as string }
    expect((await failure(model.index(query))).message).toContain('no index of kind ngram')
  })
})
