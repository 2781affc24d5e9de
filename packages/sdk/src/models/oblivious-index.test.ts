// Index columns that the process and the service compute together (oblivious-index.md): by the published vectors in
// each engine, what leaves the process, and a service that does not keep to it.
import { createHmac } from 'node:crypto'
import { decodeHex } from '@eaas/protocol'
import { describe, expect, it, vi } from 'vitest'
import { type Client, type ClientOptions, createClient, date, type IndexBy, number, text } from '../index.js'
import { maintain } from '../maintenance.js'
import { openExport } from '../offline.js'
import { failure, keyId, useClients } from '../test-support/clients.js'
import { storedValue } from '../test-support/index-vectors.js'
import { itemsOf } from '../test-support/items-of.js'
import { type Recorded, send } from '../test-support/service.js'
import { createTestService } from '../testing.js'
import vectors from './oblivious-index.vectors.json' with { type: 'json' }

const engines = ['node', 'web', 'noble'] as const
const { service, connect } = useClients()
const SECRET = new Uint8Array(32).fill(7)
const NEXT_SECRET = new Uint8Array(32).fill(8)

const emails = (eaas: Client, index: IndexBy = {}, more: object = {}) =>
  eaas.model({
    ...{ name: 'users', keyId, bind: false, warn: false, ...more },
    index: { by: 'oblivious', ...index },
    fields: { email: text({ index: 'email_index' }) },
  })
const indexOf = async (eaas: Client, index: IndexBy = {}, more: object = {}) =>
  (await emails(eaas, index, more).index({ email: 'ada@x.org' })).email_index
const publicKeyOf = async (id: string) => (await connect().keys.get(id)).blind_hash_public_key ?? ''

/** The blinded values of each operation that was sent, by request. */
const sentElements = () =>
  service.requests.map(({ operation, operations, body }) =>
    (operation === 'batch' ? operations : [JSON.parse(body || '{}')]).flatMap(({ elements }) =>
      elements ? [elements.length as number] : [],
    ),
  )

/** Has the service answer blinded values, sent alone, with what this makes of the honest answer. */
function answer(make: (asked: { elements: string[]; key_id: string }, request: Recorded) => object): void {
  service.intercept = (request, response) => {
    if (request.operation !== 'blindHash') return false
    send(response, { status: 200, body: make(JSON.parse(request.body), request) })
    return true
  }
}

describe.each(engines)('with engine %s', (engine) => {
  const stored = (vector: (typeof vectors.column)[number]) => {
    const { application_secret, generation } = vector
    const secret = application_secret === undefined ? undefined : decodeHex(application_secret)
    const published = service.createKey(undefined, decodeHex(vectors.hash_key))
    const index = { by: 'oblivious', generation } as const
    return storedValue(connect({ engine, ...(secret && { secret }) }), vector, { keyId: published, index })
  }

  it.each(vectors.column)('a column holds what is published: $name', async (vector) => {
    expect(await stored(vector)).toEqual(vector.value)
  })

  it.runIf(engine === 'node').each(vectors.refuse_column)('a column holds nothing else: $name', async (vector) => {
    expect(await stored(vector)).not.toEqual(vector.value)
  })

  it('finds by whole values, several fields, parts and ranges, with every client, also after a rotation', async () => {
    const people = (eaas: Client) =>
      eaas.model({
        ...{ name: 'people', keyId, bind: ['id'], warn: false, index: { by: 'oblivious' } },
        fields: {
          name: text({ index: 'name_index', bits: 12, normalize: ['lowercase'] }),
          born: date({ index: 'born_year', range: 'year' }),
          pay: number(),
        },
        indexes: {
          both: { fields: ['name', 'pay'] },
          name_2: { prefix: 'name', length: 2 },
          parts: { ngram: 'name', length: 3, bits: 16, acceptLeakage: true },
        },
      })
    const ada = { id: 'a', name: 'Ada Lovelace', born: new Date('1815-12-10'), pay: 7 }
    const row = await people(connect({ engine })).encrypt(ada)
    expect(row.both).toMatch(/^[0-9a-f]{64}$/)
    expect(row.name_index).toMatch(/^[0-9a-f]{3}$/)
    await connect().keys.rotate(keyId)
    const other = people(connect())
    expect(await other.index({ name: 'ADA lovelace', pay: 7 })).toEqual({ name_index: row.name_index, both: row.both })
    expect(await other.index({ name: { startsWith: 'ada' } })).toEqual({ name_2: row.name_2 })
    expect(row.parts).toEqual(expect.arrayContaining((await other.index({ name: { contains: 'love' } })).parts))
    const years = await other.index({ born: { gte: new Date('1815-01-01'), lt: new Date('1817-01-01') } })
    expect(years.born_year).toHaveLength(2)
    expect(years.born_year).toContain(row.born_year)
    expect(await other.decrypt(row)).toEqual(ada)
    expect([service.count('hash'), service.count('indexSecret')]).toEqual([0, 0])
  })

  it("differs for each column, model, generation, key, kind and application's secret, and from other indexes", async () => {
    const eaas = connect({ engine })
    const made = await Promise.all([
      ...[{}, { generation: 2 }, { generation: 3 }, { keyId: service.createKey() }].map((by) => indexOf(eaas, by)),
      indexOf(eaas, {}, { name: 'orders' }),
      indexOf(eaas, {}, { name: 'users:2' }),
      indexOf(eaas, { by: undefined }),
      indexOf(eaas, { by: 'service' }),
      indexOf(connect({ engine, secret: SECRET })),
      indexOf(connect({ engine, secret: NEXT_SECRET })),
    ])
    expect(new Set(made).size).toBe(made.length)
    expect(await indexOf(connect({ engine, secret: [SECRET, NEXT_SECRET] }))).toBe(made.at(-2))
    const parts = eaas.model({
      ...{ name: 'users', keyId, bind: false, warn: false, index: { by: 'oblivious' } },
      fields: { email: text({ index: 'email_index' }), n: number({ index: 'n_index', range: { step: 1 } }) },
      indexes: { a: { prefix: 'email', length: 3 }, b: { prefix: 'email', length: 4 } },
    })
    const row = await parts.encrypt({ email: '123', n: 123 })
    expect(new Set([row.email_index, row.n_index, row.a, row.b]).size).toBe(4)
  })
})

describe('a model with an oblivious index', () => {
  it('sends neither a value nor an index, and never the same twice', async () => {
    const model = emails(connect())
    const row = await model.encrypt({ email: 'ada@x.org' })
    await model.index({ email: 'ada@x.org' })
    await itemsOf(model.reseal([row]))
    const sent = JSON.stringify(service.requests)
    for (const trace of ['ada@', 'x.org', Buffer.from('ada@x.org').toString('base64').slice(0, -2), row.email_index])
      expect(sent).not.toContain(trace)
    const elements = service.requests.flatMap(({ body, operations }) =>
      [...operations, JSON.parse(body || '{}')].flatMap((one) => (one.elements ?? []) as string[]),
    )
    expect([elements.length, new Set(elements).size]).toEqual([3, 3])
  })

  it('sends the wrap and its values in one request, of at most 256 values at a time, each distinct one once', async () => {
    const publicKey = await publicKeyOf(keyId)
    const model = emails(connect(), { publicKey })
    service.reset()
    const rows = await model.encryptMany([{ email: 'a' }, { email: 'b' }, { email: 'a' }])
    expect(rows[0]?.email_index).toBe(rows[2]?.email_index)
    expect(sentElements()).toEqual([[2]])
    expect(service.count('wrap')).toBe(1)
    service.reset()
    const many = await model.encryptMany(Array.from({ length: 300 }, (_, at) => ({ email: `${at}` })))
    expect(new Set(many.map((row) => row.email_index)).size).toBe(300)
    const sums = sentElements().map((one) => one.reduce((sum, count) => sum + count, 0))
    expect(sums).toEqual([256, 44])
    expect(await model.index({ email: '299' })).toEqual({ email_index: many[299]?.email_index })
  })

  it('shares requests and proofs with the calls of the same turn, and lets the event loop turn after each proof', async () => {
    const model = emails(connect(), { publicKey: await publicKeyOf(keyId) })
    const names = Array.from({ length: 40 }, (_, at) => `${at}`)
    const rows = await model.encryptMany(names.map((email) => ({ email })))
    service.reset()
    const find = async (email: string) => (await model.index({ email })).email_index
    expect(await Promise.all(names.map(find))).toEqual(rows.map((row) => row.email_index))
    expect(sentElements()).toEqual([[8, 8, 8, 8, 8]])
    let [time, turns] = [0, 0]
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => (time += 10)) // so that a rest is always due
    const count = () => {
      turns++
      next = setImmediate(count)
    }
    let next = setImmediate(count)
    try {
      const inTurn = new Map<number, number>()
      const note = () => inTurn.set(turns, (inTurn.get(turns) ?? 0) + 1)
      await Promise.all(names.map((name) => find(name).then(note)))
      expect(Math.max(...inTurn.values())).toBeLessThanOrEqual(8)
    } finally {
      clearImmediate(next)
      clock.mockRestore()
    }
  })

  it('fails alone where another call of its turn is aborted, names another public key, or has another key', async () => {
    const eaas = connect()
    const publicKey = await publicKeyOf(keyId)
    const model = emails(eaas, { publicKey })
    const other = await publicKeyOf(service.createKey())
    const aborting = new AbortController()
    const aborted = failure(model.index({ email: 'a' }, { signal: aborting.signal }))
    const wrong = failure(emails(eaas, { publicKey: other }).index({ email: 'b' }))
    const missing = failure(indexOf(eaas, {}, { keyId: crypto.randomUUID() }))
    const good = model.index({ email: 'c' })
    aborting.abort()
    expect((await aborted).code).toBe('E_ABORTED')
    expect((await wrong).code).toBe('E_PROTOCOL')
    expect((await missing).code).toBe('E_API')
    expect(await good).toEqual(await model.index({ email: 'c' }))
  })

  it('asks the service for the public key once, and a client that may not is told to name it', async () => {
    const eaas = connect()
    const publicKey = await publicKeyOf(keyId)
    service.reset()
    await indexOf(eaas)
    await Promise.all([indexOf(eaas), indexOf(eaas, {}, { name: 'orders' })])
    expect(service.count('get')).toBe(1)
    const refusing = (problem: string) => {
      service.intercept = ({ operation }, response) => {
        if (operation !== 'get') return false
        const body = {
          type: 'about:blank',
          title: 'no',
          status: 403,
          detail: 'missing permission: keys:read',
          code: problem,
        }
        send(response, { status: 403, body })
        return true
      }
    }
    refusing('E_MISSING_PERMISSION')
    const error = await failure(indexOf(connect()))
    expect(error).toMatchObject({ code: 'E_API', hint: expect.stringContaining('blind_hash_public_key') })
    const failed = connect()
    await failure(indexOf(failed))
    expect(await indexOf(failed, { publicKey })).toHaveLength(64)
    expect(await indexOf(failed)).toHaveLength(64) // what was proved need not be asked for
    refusing('E_NOT_FOUND')
    expect((await failure(indexOf(connect()))).hint).not.toContain('blind_hash_public_key')
    service.intercept = undefined
    expect(await indexOf(eaas)).toHaveLength(64)
  })

  it('writes both columns while it moves to another index, from and to every other kind', async () => {
    const eaas = connect()
    for (const [former, index] of [
      [{ by: 'local' }, { by: 'oblivious' }],
      [{ by: 'service' }, { by: 'oblivious' }],
      [{ by: 'oblivious' }, { by: 'oblivious', generation: 2 }],
      [{ by: 'oblivious' }, {}],
    ] as const) {
      const options = { name: 'users', keyId, bind: ['id'] }
      const email = (column: string) => ({ fields: { email: text({ index: column }) } })
      const before = eaas.model({ ...options, ...email('e1'), index: former })
      const formerIndex = { ...former, columns: { e2: 'e1' } }
      const moving = eaas.model({ ...options, ...email('e2'), index, formerIndex })
      const row = await before.encrypt({ id: 'a', email: 'ada@x.org' })
      const { workOn } = await maintain(moving, { work: 'index' })
      const [outcome] = await workOn([{ ...row, e2: null }])
      const both = await moving.index({ email: 'ada@x.org' })
      expect(both.e1).toBe(row.e1)
      expect(outcome).toEqual({ status: 'changed', to: { e2: both.e2 } })
      expect(await eaas.model({ ...options, ...email('e2'), index }).index({ email: 'ada@x.org' })).toEqual({
        e2: both.e2,
      })
    }
    const formerIndex = { by: 'oblivious', columns: { email_index: 'e1' } }
    const changing = emails(connect({ secret: [NEXT_SECRET, SECRET] }), {}, { formerIndex })
    const fields = { email: text({ index: 'e1' }) }
    const before = connect({ secret: SECRET }).model({
      name: 'users',
      keyId,
      bind: false,
      index: { by: 'oblivious' },
      fields,
    })
    expect(await changing.index({ email: 'ada@x.org' })).toEqual({
      ...(await before.index({ email: 'ada@x.org' })),
      email_index: await indexOf(connect({ secret: NEXT_SECRET })),
    })
  })

  it('warns of data of few values with what a guess needs', () => {
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined)
    const born = (eaas: Client, column: string) =>
      eaas
        .model({
          ...{ name: 'users', keyId, bind: false, index: { by: 'oblivious' } },
          fields: { birthday: text({ index: column }) },
        })
        .index({ birthday: 'x' })
    return Promise.all([born(connect(), 'b1'), born(connect({ secret: SECRET }), 'b2')])
      .then(() => {
        const [plain, secret] = warn.mock.calls.map(([message]) => String(message)).sort()
        expect(plain).toContain('who can read the column and has hash can find them all')
        expect(secret).toContain('who can read the column and has the secret and hash can find them all')
      })
      .finally(() => warn.mockRestore())
  })

  it('is refused with options that it cannot have', () => {
    const define = (index: object, more: object = {}) => emails(connect(), index as IndexBy, more)
    const publicKey = Buffer.alloc(32, 1).toString('base64')
    expect(() => define({ publicKey })).not.toThrow()
    const bytes = (length: number) => Buffer.alloc(length, 1).toString('base64')
    for (const wrong of [
      '',
      'x',
      '%',
      bytes(31),
      bytes(33),
      `${publicKey} `,
      [publicKey],
      new String(publicKey),
      7,
      null,
    ])
      expect(() => define({ publicKey: wrong })).toThrow('index.publicKey must be the blind_hash_public_key of the key')
    for (const by of [undefined, 'service']) expect(() => define({ by, publicKey })).toThrow('no option "publicKey"')
    expect(() => define({}, { envelope: 1 })).toThrow('oblivious and formerIndex need envelope 2')
    expect(() => define({ by: 'obliviously' })).toThrow('index.by must be one of service, oblivious')
    const options = { name: 'a', keyId, bind: false, fields: { a: text() } } as const
    // @ts-expect-error no such option
    expect(() => connect().model({ ...options, index: { by: 'oblivious', generations: 2 } })).toThrow('generation')
    // @ts-expect-error no such kind
    expect(() => connect().model({ ...options, index: { by: 'oblivios' } })).toThrow('index.by')
  })

  it('is computed offline by an export of the key, and answered by the service in memory', async () => {
    const inMemory = createTestService()
    const eaas = createClient(inMemory)
    const { id } = await eaas.keys.create({ name: 'users' })
    const index = await indexOf(eaas, {}, { keyId: id })
    const exported = openExport(await eaas.keys.export(id))
    const parts = ['eaas/oblivious-index/v1', 'users', 'users', 'email_index', 'exact', TEXT].map((part) =>
      Buffer.from(part),
    )
    const message = Buffer.concat(parts.flatMap((part) => [u32(part.length), part]))
    const input = createHmac('sha256', 'eaas/oblivious-index/v1').update(message).digest()
    expect(
      Buffer.from(await exported.blindHash(input))
        .subarray(0, 32)
        .toString('hex'),
    ).toBe(index)
    const wrong = { elements: [Buffer.alloc(32).toString('base64')], key_id: id }
    const response = await inMemory.fetch(`${inMemory.baseUrl}/v1/hash/blind`, {
      method: 'POST',
      headers: { authorization: `Bearer ${inMemory.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify(wrong),
    })
    expect(response.status).toBe(400)
    eaas.close()
  })

  it('is refused for a key that may not be used as every other index of the service is', async () => {
    const inMemory = createTestService({ destroyWindowDays: 0 })
    const owner = createClient(inMemory)
    const { id } = await owner.keys.create({ name: 'users' })
    const { blind_hash_public_key } = await owner.keys.get(id)
    const problems = async () => {
      const all = [{}, { publicKey: blind_hash_public_key ?? '' }, { by: 'service' as const }].map(async (by) => {
        const eaas = createClient(inMemory)
        const error = await failure(indexOf(eaas, by, { keyId: id }))
        eaas.close()
        return 'problem' in error ? error.problem : error.message
      })
      return new Set(await Promise.all(all))
    }
    await owner.keys.disable(id)
    expect(await problems()).toEqual(new Set(['E_STATE']))
    await owner.keys.destroy(id, 'users')
    expect(await problems()).toEqual(new Set(['E_KEY_DESTROYED']))
    owner.close()
  })

  it('is not made once the caller has aborted or the client is closed', async () => {
    const eaas = connect()
    await indexOf(eaas)
    const signal = AbortSignal.abort()
    expect(await failure(emails(eaas).index({ email: 'a' }, { signal }))).toMatchObject({ code: 'E_ABORTED' })
    eaas.close()
    expect(await failure(indexOf(eaas))).toMatchObject({ code: 'E_ABORTED' })
  })
})

/** What is hashed for an index of one whole value (index-texts.md 2). */
const TEXT = 'eaas/index/v1:5:users:11:email_index:9:ada@x.org'

function u32(length: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(length)
  return bytes
}

describe('a service that does not keep to it', () => {
  const IDENTITY = Buffer.alloc(32).toString('base64')
  /** Not below the prime (RFC 9496 A.2). */
  const NOT_CANONICAL = Buffer.from(`00${'ff'.repeat(31)}`, 'hex').toString('base64')
  const elsewhere = () => service.createKey()

  it.each<[string, (honest: ReturnType<typeof service.blindHash>, asked: string[]) => object]>([
    ['no element', (honest) => ({ ...honest, elements: [] })],
    ['an element too many', (honest) => ({ ...honest, elements: [...honest.elements, ...honest.elements] })],
    ['the element that was sent', (honest, elements) => ({ ...honest, elements })],
    ['the identity', (honest) => ({ ...honest, elements: [IDENTITY] })],
    ['an element that is not canonical', (honest) => ({ ...honest, elements: [NOT_CANONICAL] })],
    ['the proof of other values', (honest) => ({ ...honest, proof: service.blindHash(keyId, honest.elements).proof })],
    ['a proof of zeros', (honest) => ({ ...honest, proof: Buffer.alloc(64).toString('base64') })],
    ['a proof beyond the order', (honest) => ({ ...honest, proof: Buffer.alloc(64, 255).toString('base64') })],
    ['the values of another key', (_, asked) => ({ ...service.blindHash(elsewhere(), asked), key_id: keyId })],
    ['another key', (_, asked) => service.blindHash(elsewhere(), asked)],
    ['another suite', (honest) => ({ ...honest, suite: 'P256-SHA256' })],
    ['no suite', ({ suite: _, ...honest }) => honest],
  ])('answers %s, and no index is made', async (_, lie) => {
    const eaas = connect({ retries: 0 })
    await indexOf(eaas) // the public key is seen
    answer(({ elements, key_id }) => lie(service.blindHash(key_id, elements), elements))
    const model = emails(eaas)
    expect(await failure(model.index({ email: 'ada@x.org' }))).toMatchObject({ code: 'E_PROTOCOL' })
  })

  it('plays an earlier answer again, or exchanges two values', async () => {
    const eaas = connect({ retries: 0 })
    const model = emails(eaas)
    let earlier: object | undefined
    answer(({ elements, key_id }) => {
      earlier ??= service.blindHash(key_id, elements)
      return earlier
    })
    await model.index({ email: 'a' })
    expect(await failure(model.index({ email: 'a' }))).toMatchObject({ code: 'E_PROTOCOL' })
    const both = eaas.model({
      ...{ name: 'users', keyId, bind: false, index: { by: 'oblivious' } },
      fields: { a: text({ index: 'a_index' }), b: text({ index: 'b_index' }) },
    })
    answer(({ elements, key_id }) => {
      const honest = service.blindHash(key_id, elements)
      return { ...honest, elements: honest.elements.toReversed() }
    })
    expect(await failure(both.index({ a: 'x', b: 'y' }))).toMatchObject({ code: 'E_PROTOCOL' })
  })

  it('proves nothing for a public key that no secret has', async () => {
    const publicKey = Buffer.alloc(32).toString('base64')
    expect(await failure(indexOf(connect(), { publicKey }))).toMatchObject({ code: 'E_PROTOCOL' })
  })

  it('has another secret than the model names, or than the client saw first, and says so with both', async () => {
    const another = elsewhere()
    const [first, other] = [await publicKeyOf(keyId), await publicKeyOf(another)]
    const error = await failure(indexOf(connect(), { publicKey: other }))
    expect(error).toMatchObject({ code: 'E_PROTOCOL' })
    expect(error.message).toContain(other)
    expect(error.hint).toContain('blind_hash_public_key')
    const eaas = connect({ retries: 0 })
    expect((await failure(indexOf(eaas, { publicKey: other }))).message).toContain(other)
    expect(await indexOf(eaas, { publicKey: first })).toBe(await indexOf(eaas)) // the wrong one is not kept
    expect((await failure(indexOf(eaas, { publicKey: other }))).message).toContain(other)
    service.intercept = ({ operation, body }, response) => {
      if (operation !== 'blindHash') return false
      const { elements } = JSON.parse(body)
      send(response, { status: 200, body: { ...service.blindHash(another, elements), key_id: keyId } })
      return true
    }
    const changed = await failure(indexOf(eaas, { publicKey: other }))
    expect(changed).toMatchObject({ code: 'E_PROTOCOL' })
    expect(changed.message).toContain(`the public key ${other}, and this client saw ${first} first`)
    const options = { retries: 0 } satisfies Partial<ClientOptions>
    for (const state of [null, undefined]) {
      service.intercept = ({ operation }, response) => {
        if (operation === 'get') void keyWithout(state).then((body) => send(response, { status: 200, body }))
        return operation === 'get'
      }
      const none = await failure(indexOf(connect(options)))
      expect(none).toMatchObject({ code: 'E_PROTOCOL' })
      expect(none.message).toContain(state === null ? 'it is destroyed' : 'too old')
    }
  })

  it('stores nothing: a row with a wrong proof is not sealed', async () => {
    const eaas = connect({ retries: 0 })
    await indexOf(eaas)
    const model = emails(eaas)
    await model.encrypt({ email: 'ada@x.org' }) // its DEK is at hand then, so that the values go alone
    answer(({ elements }) => ({ ...service.blindHash(elsewhere(), elements), key_id: keyId }))
    expect(await failure(model.encrypt({ email: 'ada@x.org' }))).toMatchObject({ code: 'E_PROTOCOL' })
  })
})

async function keyWithout(blind_hash_public_key: null | undefined): Promise<object> {
  const created_at = new Date().toISOString()
  const versions = [{ version: 1, status: 'active', created_at, wraps: 0 }]
  const names = { id: keyId, key_id: keyId, name: 'k', algorithm: 'AES-256-GCM', status: 'active', rotation: null }
  const numbers = { current_version: 1, key_version: 1, min_unwrap_version: 1 }
  return { ...names, ...numbers, created_at, updated_at: created_at, blind_hash_public_key, versions }
}
