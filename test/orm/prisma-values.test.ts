// Values of Prisma that are no text, in columns of type text and of JSON: written as the types allow it, and read again.
import { randomUUID } from 'node:crypto'
import { PrismaPGlite } from 'pglite-prisma-adapter'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest'
import { encrypted } from '../../packages/prisma/src/index.js'
import { type Client, createClient } from '../../packages/sdk/src/index.js'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { openCreatedCluster } from '../support/database/created-cluster.js'
import { PrismaClient } from './prisma/client.js'
import { modelsOf, readingModelOf, tables } from './scene.js'

const postgres = await openCreatedCluster(inject('runDir'))
let eaas: Client
let client: PrismaClient
let db: ReturnType<typeof connect>

function connect(keyId: string) {
  const { samples } = modelsOf(eaas, keyId, 'text')
  return client.$extends(encrypted({ Reading: readingModelOf(eaas, keyId), Sample: samples }))
}

beforeAll(async () => {
  await postgres.exec(`${tables('text')}
    create table readings (
      id text primary key, taken text not null, level text, good text, tree text, raw text,
      place_id uuid not null references places
    );`)
  eaas = createClient(createTestService())
  client = new PrismaClient({ adapter: new PrismaPGlite(postgres) })
  db = connect((await eaas.keys.create({ name: 'readings' })).id)
})
beforeEach(async () => {
  await postgres.exec('truncate places, readings, samples')
  await db.place.create({ data: { id: place_id } })
})
afterAll(async () => {
  await client.$disconnect()
  await postgres.close()
  eaas.close()
})

const place_id = randomUUID()
const taken = new Date('2026-03-01T10:00:00.123Z')
const values = { taken, level: 7.5, good: false, tree: { name: 'x', parts: [] }, raw: new Uint8Array([0, 255]) }
const nothing = { level: null, good: null, tree: null, raw: null }
const read = () => db.reading.findMany({ orderBy: { id: 'asc' }, omit: { place_id: true } })

/** What the table holds, which is sealed. */
async function assertSealed() {
  const { rows } = await postgres.query<Record<string, unknown>>('select taken, level, good, tree, raw from readings')
  const stored = rows.flatMap((row) => Object.values(row)).filter((one) => one !== null)
  expect(stored).toEqual(stored.map(() => expect.stringMatching(/^eaas\.2/)))
}

describe('values in columns of type text', () => {
  it('are created, and come back as they are', async () => {
    const created = await db.reading.create({ data: { id: 'a', ...values, place_id } })
    expect(created).toEqual({ id: 'a', ...values, place_id })
    await db.reading.createMany({ data: [{ id: 'b', taken, ...nothing, place_id }] })
    const [returned] = await db.reading.createManyAndReturn({ data: [{ id: 'c', ...values, place_id }] })
    expect(returned?.raw).toEqual(values.raw)
    expect(await read()).toEqual([
      { id: 'a', ...values },
      { id: 'b', taken, ...nothing },
      { id: 'c', ...values },
    ])
    await assertSealed()
  })

  it('are changed, one row or many, to null and back', async () => {
    await db.reading.create({ data: { id: 'a', taken, place_id } })
    await db.reading.update({ where: { id: 'a' }, data: values })
    expect(await read()).toEqual([{ id: 'a', ...values }])
    await db.reading.updateMany({ where: { place_id }, data: nothing })
    expect(await read()).toEqual([{ id: 'a', taken, ...nothing }])
    const data = { tree: { name: 'y', parts: ['z'], deep: { n: null } }, raw: new Uint8Array(1) }
    const changed = await db.reading.updateManyAndReturn({ data, select: { tree: true, raw: true } })
    expect(changed).toEqual([data])
    await assertSealed()
  })

  it('are created or changed by upsert', async () => {
    const upsert = (level: number) =>
      db.reading.upsert({ where: { id: 'a' }, create: { id: 'a', ...values, place_id }, update: { level } })
    expect((await upsert(1)).level).toBe(7.5)
    expect((await upsert(1)).level).toBe(1)
    await assertSealed()
  })

  it('are nested in the writes of another model', async () => {
    const id = randomUUID()
    await db.place.create({ data: { id, readings: { create: { id: 'a', ...values } } } })
    await db.place.update({
      where: { id },
      data: {
        readings: {
          createMany: { data: [{ id: 'b', taken, ...nothing }] },
          connectOrCreate: { where: { id: 'c' }, create: { id: 'c', taken } },
          upsert: { where: { id: 'd' }, create: { id: 'd', ...values }, update: values },
          update: { where: { id: 'a' }, data: { ...nothing, taken: new Date(0) } },
        },
      },
    })
    expect(await read()).toEqual([
      { id: 'a', taken: new Date(0), ...nothing },
      { id: 'b', taken, ...nothing },
      { id: 'c', taken, ...nothing },
      { id: 'd', ...values },
    ])
    await assertSealed()
  })

  it('of another type are refused, where the types were not asked', async () => {
    const all: object[] = [{ taken: taken.toISOString() }, { level: '7' }, { good: 'true' }, { raw: 'AAAA' }]
    for (const wrong of all) {
      const data = { ...values, ...wrong, place_id }
      await expect(db.reading.create({ data })).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    }
    expect(await read()).toEqual([])
  })
})

describe('values in columns of JSON', () => {
  it('are null by null, in creates and updates', async () => {
    const id = randomUUID()
    const all = { data: null, amount: null, taken: null, good: null, tree: null }
    expect(await db.sample.create({ data: { id, ...all } })).toEqual({ id, ...all })
    const some = { data: values.raw, amount: 1, taken, good: true, tree: values.tree }
    expect(await db.sample.update({ where: { id }, data: some })).toEqual({ id, ...some })
    expect(await db.sample.update({ where: { id }, data: all })).toEqual({ id, ...all })
    const { rows } = await postgres.query('select count(*)::int as n from samples where data is null and tree is null')
    expect(rows).toEqual([{ n: 1 }])
  })

  it('are found by null, as in columns of text', async () => {
    const [full, empty] = [randomUUID(), randomUUID()]
    await db.sample.createMany({ data: [{ id: full, taken, amount: 1 }, { id: empty }] })
    await db.reading.createMany({
      data: [
        { id: 'full', ...values, place_id },
        { id: 'empty', taken, place_id },
      ],
    })
    const both = async (where: object) => [
      (await db.sample.findMany({ where })).map(({ id }) => (id === full ? 'full' : 'empty')),
      (await db.reading.findMany({ where: JSON.parse(JSON.stringify(where).replace('amount', 'level')) })).map(
        ({ id }) => id,
      ),
    ]
    expect(await both({ amount: null })).toEqual([['empty'], ['empty']])
    expect(await both({ amount: { equals: null } })).toEqual([['empty'], ['empty']])
    expect(await both({ amount: { not: null } })).toEqual([['full'], ['full']])
    expect(await both({ NOT: { amount: { not: { equals: null } } } })).toEqual([['empty'], ['empty']])
  })
})
