// TypeORM: equality by a truncated index or one of a range, and a beginning by a prefix, find more rows than match. They are filtered, or refused.
import { type DataSource, type EntityManager, EntitySchema, Equal, ILike, In, IsNull, Not, Or } from 'typeorm'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { createClient, date, text } from '../../packages/sdk/src/index.js'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { encrypted } from '../../packages/typeorm/src/index.js'
import { openCreatedCluster } from '../support/database/created-cluster.js'
import { sourcesOn } from './typeorm-source.js'

describe('a search by equality, or by a beginning, that finds more rows than match', () => {
  interface Town {
    id: number
    city: string
    city_index?: string | null
    label: string
    label_three?: string | null
    label_five?: string | null
    day: Date
    day_month?: string | null
    sights?: number | null
  }
  const made = { type: 'text', nullable: true } as const
  const towns = new EntitySchema<Town>({
    name: 'Town',
    tableName: 'towns',
    columns: {
      id: { type: 'int', primary: true },
      city: { type: 'text' },
      city_index: made,
      label: { type: 'text' },
      label_three: made,
      label_five: made,
      day: { type: 'text' },
      day_month: made,
      sights: { type: 'int', nullable: true },
    },
  })
  const [first, other] = [new Date('2026-05-01'), new Date('2026-05-02')]
  const sent: string[] = []
  let postgres: Awaited<ReturnType<typeof openCreatedCluster>>
  let source: DataSource
  let all: EntityManager
  const ids = async (where: object, page = {}) =>
    (await all.find(towns, { where, order: { id: 'ASC' }, ...page })).map(({ id }) => id)
  beforeAll(async () => {
    postgres = await openCreatedCluster(inject('runDir'))
    const eaas = createClient(createTestService())
    const { id: keyId } = await eaas.keys.create({ name: 'towns' })
    const model = eaas.model({
      name: 'towns',
      keyId,
      bind: ['id'],
      format: 'text',
      warn: false,
      fields: {
        city: text({ index: 'city_index', bits: 8 }),
        label: text({ normalize: ['trim', 'lowercase'] }),
        day: date({ index: 'day_month', range: 'month' }),
      },
      indexes: {
        label_three: { prefix: 'label', length: 3 },
        label_five: { prefix: 'label', length: 5 },
      },
    })
    source = encrypted(sourcesOn(postgres, sent).open([towns], { synchronize: true }), [[towns, model]])
    all = (await source.initialize()).manager
    await all.insert(towns, [
      { id: 1, city: 'Bern', label: 'Pump house', day: first },
      { id: 2, city: 'Basel', label: 'pumpkins', day: other },
      { id: 3, city: 'Bern', label: 'pumice', day: first },
      { id: 4, city: 'Bern', label: 'pum', day: first },
    ])
    // As if the bits that are kept of the two were the same.
    await postgres.exec('update towns set city_index = (select city_index from towns where id = 1)')
  })
  afterAll(async () => {
    await source.destroy()
    await postgres.close()
  })

  it('returns those that match, and counts them in pages', async () => {
    for (const city of ['Bern', Equal('Bern')]) expect(await ids({ city })).toEqual([1, 3, 4])
    expect(await ids({ city: 'Bern' }, { skip: 1, take: 1 })).toEqual([3])
    expect(await ids({ city: 'Bern', day: other })).toEqual([])
    expect(await ids({ day: first, label: ILike('pump%') })).toEqual([1])
    expect(await all.findOneBy(towns, { day: other })).toMatchObject({ id: 2, city: 'Basel', day: other })
    const build = () => all.createQueryBuilder(towns, 'town')
    expect(await build().where({ day: other }).select('town.sights', 'sights').getRawMany()).toEqual([{ sights: null }])
  })
  type By = (change: (value: unknown) => unknown) => object
  it.each<[string, RegExp, (where: object, by: By) => Promise<unknown>]>([
    ['an update', /cannot be filtered/, (where) => all.update(towns, where, { sights: 1 })],
    ['an update of an encrypted column', /finds more rows/, (where) => all.update(towns, where, { label: 'x' })],
    ['a deletion', /cannot be filtered/, (where) => all.delete(towns, where)],
    ['a soft deletion', /cannot be filtered|delete date/, (where) => all.softDelete(towns, where)],
    ['an increment', /cannot be filtered/, (where) => all.increment(towns, where, 'sights', 1)],
    [
      'an upsert',
      /other rows|no index/,
      (where) => all.upsert(towns, { id: 9, ...where } as never, Object.keys(where)),
    ],
    ['`or`', /cannot be filtered/, (where) => all.findBy(towns, [where, { id: 1 }])],
    [
      '`not`',
      /cannot be filtered/,
      (_, by) =>
        all.findBy(
          towns,
          by((one) => Not(Equal(one))),
        ),
    ],
    ['`not` of a value', /other rows|no index/, (_, by) => all.findBy(towns, by(Not))],
    [
      '`in`',
      /other rows|no index/,
      (_, by) =>
        all.findBy(
          towns,
          by((one) => In([one])),
        ),
    ],
    [
      '`Or`',
      /cannot be filtered/,
      (_, by) =>
        all.findBy(
          towns,
          by((one) => Or(Equal(one), Equal(one))),
        ),
    ],
    ['a count', /cannot be filtered/, (where) => all.countBy(towns, where)],
    ['a test whether there is one', /cannot be filtered/, (where) => all.existsBy(towns, where)],
  ])('is refused in %s', async (_, message, run) => {
    for (const [name, value] of Object.entries({ city: 'Bern', day: first })) {
      const call = async () => run({ [name]: value }, (change) => ({ [name]: change(value) }))
      await expect(call()).rejects.toThrow(message)
    }
    expect(await all.countBy(towns, { sights: IsNull() })).toBe(4)
  })
  it('is by the longest beginning that the text has', async () => {
    for (const [pattern, found, column] of [
      ['Pum%', [1, 2, 3, 4], 'label_three'],
      ['pump%', [1, 2], 'label_three'],
      ['pump  %', [1, 2], 'label_three'],
      ['pumpk%', [2], 'label_five'],
      ['PUMP house%', [1], 'label_five'],
    ] as const) {
      sent.length = 0
      expect(await ids({ label: ILike(pattern) })).toEqual(found)
      expect(sent.filter((one) => one.includes(`\\"${column}\\" = $1`))).toHaveLength(1)
    }
    await expect(ids({ label: ILike('pu%') })).rejects.toThrow('a part needs at least 3 characters, got 2')
  })
})
