// Changing the index key of a model while its rows are in use: two columns, of which a row has either.
import { beforeEach, describe, expect, expectTypeOf, it } from 'vitest'
import { createSealedTable } from '../adapter.js'
import { createClient, number, text } from '../index.js'
import { maintain } from '../maintenance.js'
import { failure, keyId, useClients } from '../test-support/clients.js'
import { createTestService } from '../testing.js'

const { service, connect } = useClients()
let before: string
let after: string

beforeEach(async () => {
  before = await connect().createIndexKey(keyId)
  after = await connect().createIndexKey(keyId)
})

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

it('an index key of before that is of another key is refused, also where the key is known by its name', async () => {
  const eaas = createClient(createTestService())
  const [own, other] = await Promise.all(['users', 'other'].map((name) => eaas.keys.ensure({ name })))
  const [indexKey, foreign] = await Promise.all([own, other].map((key) => eaas.createIndexKey(key?.id ?? '')))
  const users = (formerKey = '') =>
    eaas.model({
      ...{
        name: 'users',
        key: 'users',
        bind: ['id'],
        indexKey,
        formerIndex: { indexKey: formerKey, columns: { e2: 'e1' } },
      },
      fields: { email: text({ index: 'e2' }) },
    })
  expect(await users(indexKey).encrypt({ id: 'a', email: 'x' })).toHaveProperty('e1')
  expect((await failure(users(foreign).encrypt({ id: 'a', email: 'x' }))).message).toContain('indexKey was made under')
})

it('the types have both columns where the model writes or searches both', async () => {
  const users = connect().model({
    ...{ name: 'users', keyId, bind: ['id'], indexKey: after },
    formerIndex: { indexKey: before, columns: { e2: 'e1', p2: 'p1' } },
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

describe('a model whose index key is changed', () => {
  const old = () => define(OLD, { indexKey: before })
  const moving = () => define(NEW, { indexKey: after, formerIndex: { indexKey: before, columns } })
  const moved = () => define(NEW, { indexKey: after })

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
    ['without an index key', { indexKey: undefined }, 'formerIndex needs indexKey'],
    ['with rows that are sealed as a whole', { sealed: 'row' }, 'no `sealed`'],
    ['of a column that the model lacks', { formerIndex: { columns: { e9: 'e1' } } }, 'no option "e9"'],
    ['in a column that is taken', { formerIndex: { columns: { e2: 'email' } } }, 'already taken'],
    ['in one column twice', { formerIndex: { columns: { e2: 'e1', b2: 'e1' } } }, 'already taken'],
    ['under what is no index key', { formerIndex: { indexKey: 'x', columns } }, 'not an index key'],
  ])('is refused %s', (_, more, message) => {
    const { formerIndex = {}, ...others } = more as { formerIndex?: object }
    const former = { indexKey: before, columns, ...formerIndex }
    expect(() => define(NEW, { indexKey: after, formerIndex: former, ...others })).toThrow(message)
  })

  it('is refused with the index key of another model or key', async () => {
    const other = await connect().createIndexKey(service.createKey())
    const named = await connect().createIndexKey(keyId, { model: 'orders' })
    for (const indexKey of [other, named])
      expect(() => define(NEW, { indexKey: after, formerIndex: { indexKey, columns } })).toThrow('indexKey')
    expect(await failure(old().index({ email: 7 as never }))).toMatchObject({ code: 'E_INVALID_INPUT' })
  })
})

describe('the types of a model whose index key is changed', () => {
  it('have the columns under the key before, like those of the indexes, in what is stored alone', async () => {
    const model = connect().model({
      ...{ name: 'users', keyId, bind: false, indexKey: after },
      fields: { email: text({ index: 'e2' }), nick: text({ index: 'n2' }).nullable() },
      formerIndex: { indexKey: before, columns: { e2: 'e1', n2: 'n1' } },
    })
    const stored = await model.encrypt({ id: 'a', email: 'x', nick: null as string | null })
    expectTypeOf(stored.e1).toEqualTypeOf<string>()
    expectTypeOf(stored.n1).toEqualTypeOf<string | null>()
    expectTypeOf(await model.decrypt(stored)).toEqualTypeOf<{ id: string; email: string; nick: string | null }>()
    expect([stored.e1.length, stored.n1]).toEqual([64, null])
  })
})
