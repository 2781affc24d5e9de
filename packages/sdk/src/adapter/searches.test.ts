import { describe, expect, it } from 'vitest'
import { boolean, createClient, json, number, text } from '../index.js'
import { createTestService } from '../testing.js'
import { refuseOperator } from './refusals.js'
import { createSealedTable } from './sealed-table.js'
import { joinBounds, readPage, readPattern } from './searches.js'

describe('a page of filtered rows', () => {
  const all = Array.from({ length: 1_000 }, (_, at) => at)
  const isRight = (at: number) => at % 10 === 3
  const right = all.filter(isRight)
  const reader = () => {
    const reads: number[] = []
    const read = async (skip: number, take: number | undefined) => {
      const rows = all.slice(skip, take === undefined ? undefined : skip + take)
      reads.push(rows.length)
      return rows
    }
    return { reads, read }
  }

  it.each([
    [{}, right],
    [{ take: 7 }, right.slice(0, 7)],
    [{ skip: 5, take: 30 }, right.slice(5, 35)],
    [{ skip: 95, take: 30 }, right.slice(95)],
    [{ skip: 200, take: 1 }, []],
    [{ take: 0 }, []],
  ])('is full, and after what it skips: %j', async (page, expected) => {
    expect(await readPage(reader().read, isRight, page)).toEqual(expected)
  })
  it('takes no more reads than it needs', async () => {
    const { reads, read } = reader()
    await readPage(read, isRight, { take: 5 })
    expect(reads).toEqual([100])
  })
})

describe('bounds of a range', () => {
  const join = (...queries: object[]) =>
    joinBounds(
      queries.map((query) => ({ query })),
      () => true,
    ).map(({ query }) => query)

  it.each<[object[], object[]]>([
    [[], []],
    [[{ gte: 1 }, { lt: 9 }], [{ gte: 1, lt: 9 }]],
    [
      [{ gte: 1 }, { gte: 3 }, { lt: 9 }],
      [
        { gte: 1, lt: 9 },
        { gte: 3, lt: 9 },
      ],
    ],
    [
      [{ lt: 9 }, { gt: 1 }, { gte: 3 }, { lte: 8 }],
      [
        { gt: 1, lt: 9 },
        { gte: 3, lte: 8 },
      ],
    ],
    [
      [{ gte: 1 }, { gt: 3 }],
      [{ gte: 1 }, { gt: 3 }],
    ],
  ])('%j are ranges that keep each: %j', (bounds, ranges) => expect(join(...bounds)).toEqual(ranges))

  it('are joined only within one column', () => {
    const bounds = [
      { column: 'due', query: { gte: 1 } },
      { column: 'paid', query: { lt: 9 } },
    ]
    expect(joinBounds(bounds, (one, other) => one.column === other.column)).toEqual(bounds)
  })
})

describe('a pattern', () => {
  const searches = {
    ignoresCase: (field: string) => field === 'folded',
    refuse: (field: string, operator: string) => refuseOperator('users', field, operator),
  }
  const table = { searches }
  it('of ilike is one of a field whose index ignores case', () => {
    const read = (field: string) => readPattern(table, field, { operator: 'ilike', pattern: 'ada%', escapes: true })
    expect(read('folded')).toEqual({ startsWith: 'ada' })
    expect(() => read('name')).toThrow('cannot compare it by "ilike"')
  })
  it.each([
    ['ada%', { startsWith: 'ada' }],
    ['%ada%', { contains: 'ada' }],
    ['ada\\_%', { startsWith: 'ada_' }],
    ['%100\\%%', { contains: '100%' }],
    ['c:\\\\\\_%', { startsWith: 'c:\\_' }],
    ['a\\\\%', { startsWith: 'a\\' }],
    ['a\nb%', { startsWith: 'a\nb' }],
  ])('%s is a part of a text', (pattern, expected) => {
    expect(readPattern(table, 'name', { operator: 'like', pattern, escapes: true })).toEqual(expected)
  })
  it.each(['ada', '%ada', 'a_a%', 'a%a%', '%', '%%', '', 'a\\%', 'a\\b%', '\\%%\\', 'a\\\\_%', 7, null])(
    '%j is refused',
    (pattern) => {
      for (const escapes of [true, false]) {
        const read = () => readPattern(table, 'name', { operator: 'like', pattern, escapes })
        expect(read).toThrow('cannot compare it by "like"')
      }
    },
  )
  it('is refused with a backslash where the database has no such escape', () => {
    const read = () => readPattern(table, 'name', { operator: 'like', pattern: 'ada\\_%', escapes: false })
    expect(read).toThrow('cannot compare it by "like"')
    expect(readPattern(table, 'name', { operator: 'like', pattern: 'ada%', escapes: false })).toEqual({
      startsWith: 'ada',
    })
  })
})

describe('a search that no index answers', () => {
  const FILTER = /^Filter the rows after they are decrypted\.$/
  const peopleTable = async () => {
    const eaas = createClient(createTestService())
    const { id: keyId } = await eaas.keys.create({ name: 'people' })
    const score = number({ index: 'score_index', range: { step: 10 } })
    const fields = { name: text(), age: number(), score, smokes: boolean(), prefs: json<{ dark: boolean }>() }
    return createSealedTable(eaas.model({ name: 'people', keyId, bind: false, fields }))
  }
  it.each([
    [{ startsWith: 'a' }, 'name', /indexes: \{ name_start: \{ prefix: 'name'/],
    [{ contains: 'a' }, 'name', /indexes: \{ name_parts: \{ ngram: 'name'/],
    [{ gte: 1, lt: 2 }, 'age', /number\(\{ index, range: \{ step \} \}\)/],
    [{ equal: 'Ada' }, 'name', /Give the field an index/],
    [{ gt: 1 }, 'score', /Give lt too, .*: as \{ gte, lt \}, or in an ORM by two conditions/],
    [{ gt: 1, gte: 1 }, 'score', /as \{ gte, lt \}, or in an ORM by two conditions/],
    [{ gte: 1, lt: 2 }, 'name', FILTER],
    [{ startsWith: 'a' }, 'prefs', FILTER],
    [{ contains: 'a' }, 'age', FILTER],
    [{ equal: true }, 'smokes', FILTER],
    [{ equal: { dark: true } }, 'prefs', FILTER],
  ])('is refused with what would: %j of %s', async (query, field, hint) => {
    const { searches } = await peopleTable()
    if ('startsWith' in query && field === 'name')
      await expect(searches.find(field, query, 'ilike')).rejects.toThrow('cannot compare it by "ilike"')
    await expect(searches.find(field, query)).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      hint: expect.stringMatching(hint),
    })
  })
  it.each(['a%', 'a%b'])('is refused without advice on texts where the field is none: like %s', async (pattern) => {
    const table = await peopleTable()
    const fits = (hint: RegExp) => expect.objectContaining({ hint: expect.stringMatching(hint) })
    for (const field of ['prefs', 'age']) {
      const read = () => readPattern(table, field, { operator: 'ilike', pattern, escapes: true })
      expect(read).toThrow(fits(FILTER))
    }
    expect(() => readPattern(table, 'name', { operator: 'ilike', pattern, escapes: true })).toThrow(fits(/lowercase/))
    expect(() => table.searches.refuse('prefs', 'not ilike', 'By an index of parts.')).toThrow(fits(FILTER))
    expect(() => table.searches.refuse('age', '<', 'By an index.')).toThrow(fits(/^By an index\.$/))
  })
  it('is refused without an index to give where a field can have none', async () => {
    const { planEqual } = await peopleTable()
    const refused = { message: 'people.smokes is encrypted: a field of boolean cannot have an index' }
    expect(() => planEqual('smokes', '=', [true])).toThrow(expect.objectContaining(refused))
    expect(() => planEqual('smokes', '=', [true])).toThrow(
      expect.objectContaining({ hint: expect.stringMatching(FILTER) }),
    )
    expect(() => planEqual('name', '=', ['Ada'])).toThrow('it has no index by which it could be searched alone')
    const ofBuckets = expect.objectContaining({ hint: expect.stringMatching(/not within OR/) })
    expect(() => planEqual('score', '=', [7])).toThrow(ofBuckets)
  })
})
