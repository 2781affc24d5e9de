// Changing what makes the indexes of a model while its rows are in use: two columns, of which a row has either.
import { beforeEach, describe, expect, expectTypeOf, it } from 'vitest'
import { createSealedTable } from '../adapter.js'
import { type IndexBy, number, text } from '../index.js'
import { maintain } from '../maintenance.js'
import { keyId, useClients } from '../test-support/clients.js'

const { service, connect } = useClients()
type Stored = Record<string, unknown>

const define = (names: Record<'email' | 'parts' | 'step' | 'start', string>, more: object) =>
  connect().model({
    ...{ name: 'users', keyId, bind: ['id'], ...more },
    fields: { email: text({ index: names.email }), pay: number({ index: names.step, range: { step: 10 } }) },
    indexes: {
      [names.parts]: { ngram: 'email', length: 3, bits: 16, acceptLeakage: true },
      [names.start]: { prefix: 'email', length: 2 },
    } as Record<string, { prefix: 'email'; length: number }>,
  })
const OLD = { email: 'e1', parts: 'p1', step: 's1', start: 'b1' }
const NEW = { email: 'e2', parts: 'p2', step: 's2', start: 'b2' }
const columns = { e2: 'e1', p2: 'p1', s2: 's1', b2: 'b1' }
const ada = { id: 'a', email: 'ada@x.org', pay: 42 }
const QUERIES = [
  { email: ada.email, pay: { gte: 40, lt: 50 } },
  { email: { contains: 'da@' } },
  { email: { startsWith: 'ada' } },
  { pay: 41 },
]

const SECRET = new Uint8Array(32).fill(7)
const NEXT_SECRET = new Uint8Array(32).fill(8)

it('the index of before may be that of another key, of the service, or of another secret of the application', async () => {
  const other = service.createKey()
  const email = (index: string) => ({ fields: { email: text({ index }) } })
  const options = { name: 'users', keyId, bind: false as const }
  const clients = { plain: connect(), one: connect({ secret: SECRET }), next: connect({ secret: NEXT_SECRET }) }
  const changing = connect({ secret: [NEXT_SECRET, SECRET] })
  const beginning = connect({ secret: SECRET, acceptWithoutSecret: true })
  for (const [eaas, former, old, index, next] of [
    [clients.plain, { keyId: other }, clients.plain, {}, clients.plain],
    [clients.plain, { by: 'service' }, clients.plain, {}, clients.plain],
    [clients.plain, { by: 'local' }, clients.plain, { by: 'service' }, clients.plain],
    [changing, {}, clients.one, {}, clients.next],
    [changing, {}, clients.one, { generation: 2 }, clients.next],
    [beginning, {}, clients.plain, {}, clients.one],
  ] as const) {
    const moving = eaas.model({ ...options, ...email('e2'), index, formerIndex: { ...former, columns: { e2: 'e1' } } })
    expect(await moving.index({ email: 'x' })).toEqual({
      ...(await old.model({ ...options, ...email('e1'), index: former }).index({ email: 'x' })),
      ...(await next.model({ ...options, ...email('e2'), index }).index({ email: 'x' })),
    })
  }
})

describe('what the index of before does not state, it has of the index', () => {
  const [model, other, third] = ['model', 'other', 'third'] // stand for ids of keys
  const ids = new Map<unknown, string>()
  beforeEach(() => {
    ids.set(model, keyId).set(other, service.createKey()).set(third, service.createKey())
  })
  const withId = (given: object): object => {
    const { keyId, ...rest } = given as { keyId?: string }
    return keyId ? { ...rest, keyId: ids.get(keyId) } : rest
  }
  const email = (index: string, shared = false) => ({ fields: { email: text({ index, shared }) } })
  const options = () => ({ name: 'users', keyId, bind: false as const })
  const publicKey = Buffer.alloc(32, 1).toString('base64')
  const moving = (index: object, former: object = {}) =>
    connect().model({
      ...options(),
      ...email('e2'),
      index: withId(index),
      formerIndex: { ...withId(former), columns: { e2: 'e1' } },
    })

  it.each<[before: object, index: object, former: object]>([
    [{ by: 'oblivious' }, { by: 'oblivious', generation: 2 }, {}],
    [{ keyId: other }, { keyId: other, generation: 2 }, {}],
    [{ key: 'search' }, { key: 'search', generation: 2 }, {}],
    [{ by: 'oblivious', keyId: third }, { by: 'oblivious', keyId: other }, { keyId: third }],
    [{ by: 'service', keyId: third }, { by: 'service', keyId: other }, { keyId: third }],
    [{ keyId: other }, { by: 'oblivious', keyId: other }, { by: 'local' }],
    [{}, { generation: 2, keyId: other }, { keyId: model }],
  ])('was %j, is %j, states %j', async (before, index, former) => {
    const { e1 } = (await connect()
      .model({ ...options(), ...email('e1'), index: withId(before) })
      .index({ email: 'x' })) as Stored
    expect(e1).toHaveLength(64)
    expect(await moving(index, former).index({ email: 'x' })).toMatchObject({ e1 })
  })

  it('the public key too, unless it states another key or another way', async () => {
    expect(() => moving({ by: 'oblivious', publicKey, generation: 2 })).not.toThrow()
    await expect(moving({ by: 'oblivious', publicKey, generation: 2 }).index({ email: 'x' })).rejects.toThrow(publicKey)
    expect(() => moving({ by: 'oblivious', publicKey }, { by: 'local' })).not.toThrow()
    expect(() => moving({ by: 'oblivious' }, { publicKey, keyId: other })).not.toThrow()
    expect(() => moving({ by: 'oblivious' }, { by: 'local', publicKey })).toThrow('no option "publicKey"')
  })

  it.each<[index: object, former: object]>([
    [{}, {}],
    [{ by: 'oblivious' }, {}],
    [{ by: 'service' }, { generation: 1 }],
    [{ generation: 2 }, { generation: 2 }],
    [{ keyId: other }, { keyId: other }],
    [{}, { keyId: model }],
  ])('and nothing that differs is refused: %j, %j', (index, former) => {
    expect(() => moving(index, former)).toThrow('formerIndex: it is as `index`')
  })

  it('so that a new name of a column alone is said by what makes it', async () => {
    const { e1 } = await connect()
      .model({ ...options(), ...email('e1') })
      .index({ email: 'x' })
    expect(await moving({}, { by: 'local' }).index({ email: 'x' })).toMatchObject({ e1 })
  })

  it.each([{}, { by: 'service' }, { by: 'local' }])(
    'a shared column has none, which the service made: %j',
    (former) => {
      const two = { email: text({ index: 'e2', shared: true }), nick: text({ index: 'n2' }) }
      const formerIndex = { ...former, columns: { e2: 'e1' } }
      const define = (fields: object) =>
        connect().model({ ...options(), index: withId({ keyId: other }), formerIndex, fields } as never)
      expect(() => define(two)).toThrow('formerIndex.columns, none of them shared, has no option "e2"')
      expect(() => define({ email: two.email })).toThrow('need envelope 2 and an index not shared')
    },
  )

  it.each<IndexBy>([{ by: 'oblivious', publicKey }, { by: 'local' }, { generation: 2 }])(
    'no option is taken that applies to none of its columns, which are shared: %j',
    (index) => {
      const define = () => connect().model({ ...options(), ...email('e1', true), index })
      expect(define).toThrow('need envelope 2 and an index not shared')
    },
  )
})

it('the types have both columns where the model writes or searches both', async () => {
  const users = connect().model({
    ...{ name: 'users', keyId, bind: ['id'], index: { generation: 2 } },
    formerIndex: { columns: { e2: 'e1', p2: 'p1' } },
    fields: { email: text({ index: 'e2' }), pay: number({ index: 's2', range: { step: 10 } }) },
    indexes: { p2: { ngram: 'email', length: 3, bits: 16, acceptLeakage: true } },
  } as const)
  const found = await users.index({ email: ada.email })
  expectTypeOf(found).toEqualTypeOf<{ e2: string; e1: string }>()
  expect(Object.keys(found).sort()).toEqual(['e1', 'e2'])
  const parts = await users.index({ email: { contains: 'da@' } })
  expectTypeOf(parts).toEqualTypeOf<{ p2: string[]; p1: string[] }>()
  const changes = await users.encryptPartial({ id: 'a', email: ada.email })
  expectTypeOf(changes.e1).toEqualTypeOf<string>()
  expectTypeOf(changes.p1).toEqualTypeOf<string[]>()
  expect(changes).toHaveProperty('e1')
  const either = await users.index({ pay: 42 as number | { gte: number; lt: number } })
  expectTypeOf(either).toEqualTypeOf<{ s2: string | string[] }>()
  const whole = await users.index({ email: ada.email as string | { contains: string } })
  expectTypeOf(whole.e2).toEqualTypeOf<string | undefined>()
})

describe('a model whose indexes are changed', () => {
  const after = { generation: 2 }
  const old = () => define(OLD, {})
  const moving = () => define(NEW, { index: after, formerIndex: { columns } })
  const moved = () => define(NEW, { index: after })

  it('finds rows by the column before, and by the new one, whoever wrote them', async () => {
    for (const query of QUERIES as never[]) {
      const both = (await moving().index(query)) as Stored
      expect(both).toEqual({ ...(await old().index(query)), ...(await moved().index(query)) })
    }
    const stored = (await moving().encrypt(ada)) as Stored
    expect(stored).toMatchObject({
      ...(await old().index({ email: ada.email })),
      ...(await moved().index({ email: ada.email })),
    })
    expect(await moving().decrypt(stored as never)).toEqual(ada)
  })

  it('has the new columns filled by a backfill of indexes, which leaves those before', async () => {
    const row = (await old().encrypt(ada)) as Stored
    const { found, workOn } = await maintain(moving(), { work: 'index' })
    const [outcome] = await workOn([row])
    expect(found.indexes.e2).toMatchObject({ missing: 1 })
    expect(found.indexes.e1).toMatchObject({ present: 1 })
    expect(outcome).toMatchObject({ status: 'changed' })
    if (outcome?.status !== 'changed') return
    expect(Object.keys(outcome.to).sort()).toEqual(['b2', 'e2', 'p2', 's2'])
    const { e1, p1, s1, b1, ...done } = { ...row, ...outcome.to } as Stored
    expect(done).toMatchObject(await moved().index({ email: ada.email }))
    expect(await moved().decrypt(done as never)).toEqual(ada)
  })

  it('has adapters search by the column that all rows have', async () => {
    expect(createSealedTable(moving()).planEqual('email', '=', ['x']).column).toBe('e1')
    const { searches } = createSealedTable(moving())
    for (const [field, query, column] of [
      ['email', { contains: 'da@' }, 'p1'],
      ['email', { startsWith: 'ada' }, 'b1'],
      ['pay', { gte: 40, lt: 50 }, 's1'],
      ['pay', { equal: 41 }, 's1'],
    ] as const) {
      const asked = 'equal' in query ? query.equal : query
      const stored = (await old().index({ [field]: asked } as never)) as Stored
      expect(searches.plan(field, query)).toMatchObject({ column })
      expect(await searches.find(field, query)).toMatchObject({ column, values: [stored[column]].flat() })
    }
  })

  it.each<[string, object, string]>([
    ['with rows that are sealed as a whole', { sealed: 'row' }, 'without `sealed`'],
    ['of a column that the model lacks', { formerIndex: { columns: { e9: 'e1' } } }, 'no option "e9"'],
    ['in a column that is taken', { formerIndex: { columns: { e2: 'email' } } }, 'already taken'],
    ['in one column twice', { formerIndex: { columns: { e2: 'e1', b2: 'e1' } } }, 'already taken'],
    [
      'of the service, where that makes no such index',
      { formerIndex: { by: 'service' } },
      'the service makes no index',
    ],
    ['under what is no key', { formerIndex: { keyId: 'x' } }, 'formerIndex.keyId'],
  ])('is refused %s', (_, more, message) => {
    const { formerIndex = {}, ...others } = more as { formerIndex?: object }
    expect(() => define(NEW, { index: after, formerIndex: { columns, ...formerIndex }, ...others })).toThrow(message)
  })
})

describe('the types of a model whose indexes are changed', () => {
  it('have the columns of before, like those of the indexes, in what is stored alone', async () => {
    const model = connect().model({
      ...{ name: 'users', keyId, bind: false, index: { generation: 2 } },
      fields: { email: text({ index: 'e2' }), nick: text({ index: 'n2' }).nullable() },
      formerIndex: { columns: { e2: 'e1', n2: 'n1' } },
    })
    const stored = await model.encrypt({ id: 'a', email: 'x', nick: null as string | null })
    expectTypeOf(stored.e1).toEqualTypeOf<string>()
    expectTypeOf(stored.n1).toEqualTypeOf<string | null>()
    expectTypeOf(await model.decrypt(stored)).toEqualTypeOf<{ id: string; email: string; nick: string | null }>()
    expect([stored.e1.length, stored.n1]).toEqual([64, null])
  })
})
