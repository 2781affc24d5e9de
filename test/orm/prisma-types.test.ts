// What the compiler knows of an extended Prisma client: the functions are compiled, and never called.
import { describe, expectTypeOf, it } from 'vitest'
import { encrypted } from '../../packages/prisma/src/index.js'
import { type Client, text } from '../../packages/sdk/src/index.js'
import { Prisma, type PrismaClient } from './prisma/client.js'
import { type Models, readingModelOf, type Tree } from './scene.js'

type Readings = ReturnType<typeof readingModelOf>

function extend(client: PrismaClient, eaas: Client, { users, posts, samples }: Models) {
  const fields = { email: text({ index: 'email_index' }), phone: text().nullable() }
  const Customer = eaas.model({ name: 'customers', key: 'shop', bind: ['id'], format: 'text', fields })
  return client.$extends(
    encrypted({ User: users, Post: posts, Sample: samples, Reading: readingModelOf(eaas, ''), Customer }),
  )
}
type Db = ReturnType<typeof extend>

interface OfSample {
  id: string
  data: Uint8Array<ArrayBuffer> | null
  amount: number | null
  taken: Date | null
  good: boolean | null
  tree: Tree | null
}

interface OfReading {
  id: string
  place_id: string
  taken: Date
  level: number | null
  good: boolean | null
  tree: Tree | null
  raw: Uint8Array<ArrayBuffer> | null
}

interface OfPlace {
  id: string
  address: Prisma.JsonValue | null
  street_index: string | null
}

declare const untouched: ReturnType<typeof notExtended>
const notExtended = (client: PrismaClient) => client.$extends({ name: 'other' })

describe('an extended client', () => {
  it('reads numbers, dates, booleans, bytes and JSON in the types of the model', () => {
    const read = async (db: Db) => {
      expectTypeOf(await db.sample.findFirstOrThrow()).toEqualTypeOf<OfSample>()
      expectTypeOf(await db.sample.findMany({ select: { taken: true } })).toEqualTypeOf<{ taken: Date | null }[]>()
      const [user] = await db.user.findMany({ include: { posts: { include: { user: { select: { born: true } } } } } })
      expectTypeOf(user?.posts[0]?.user.born).toEqualTypeOf<Date | null | undefined>()
    }
    expectTypeOf(read).toBeFunction()
  })

  it('and its transactions are what a helper takes that names some of its models', () => {
    const helper = (tx: Pick<Db, 'sample' | 'user'>) => tx.sample.findFirstOrThrow({ select: { taken: true } })
    const call = async (db: Db) => {
      expectTypeOf(await helper(db)).toEqualTypeOf<{ taken: Date | null }>()
      await db.$transaction(async (tx) => expectTypeOf(await helper(tx)).toEqualTypeOf<{ taken: Date | null }>())
    }
    expectTypeOf(call).toBeFunction()
  })

  it('writes them as values, and returns their types', () => {
    const write = async (db: Db, id: string) => {
      const values = { amount: 7, taken: new Date(), good: true, tree: { name: 'x', parts: [] }, data: null }
      expectTypeOf(await db.sample.create({ data: { id, ...values } })).toEqualTypeOf<OfSample>()
      const update = db.sample.update({ where: { id }, data: { taken: new Date() }, select: { taken: true } })
      expectTypeOf(await update).toEqualTypeOf<{ taken: Date | null }>()
      const upsert = db.sample.upsert({ where: { id }, create: { id }, update: values })
      expectTypeOf(await upsert).toEqualTypeOf<OfSample>()
      expectTypeOf(await db.sample.createManyAndReturn({ data: [{ id }] })).toEqualTypeOf<OfSample[]>()
      await db.sample.update({ where: { id }, data: { data: Prisma.DbNull, taken: null } })
      // @ts-expect-error text is not a number
      await db.user.update({ where: { id }, data: { email: 7 } })
      // @ts-expect-error a field that the schema does not have
      await db.sample.create({ data: { id, weight: 7 } })
      // @ts-expect-error a row has an id
      await db.sample.create({ data: values })
      // @ts-expect-error a field that a selection does not have
      await db.sample.create({ data: { id }, select: { weight: true } })
      // @ts-expect-error JSON, and not a number
      await db.sample.create({ data: { id, amount: { n: 7 } } })
    }
    expectTypeOf(write).toBeFunction()
  })

  it('takes values for what is stored as text, in every write, and refuses text in their place', () => {
    const write = async (db: Db, id: string, taken: Date) => {
      const place_id = id
      const all = { taken, level: 7.5, good: true, tree: { name: 'x', parts: [] }, raw: new Uint8Array(3) }
      const created = await db.reading.create({ data: { ...all, place_id } })
      expectTypeOf(created).toEqualTypeOf<OfReading>()
      const connected = { ...all, place: { connect: { id } } }
      expectTypeOf(await db.reading.create({ data: connected })).toEqualTypeOf<OfReading>()
      expectTypeOf(await db.reading.create({ data: connected }).place()).toEqualTypeOf<OfPlace>()
      expectTypeOf(await db.reading.createMany({ data: [{ taken, place_id }] })).toEqualTypeOf<{ count: number }>()
      const returned = db.reading.createManyAndReturn({ data: { taken, level: null, place_id }, omit: { raw: true } })
      expectTypeOf(await returned).toEqualTypeOf<Omit<OfReading, 'raw'>[]>()
      await db.reading.update({ where: { id }, data: { taken, level: null, tree: null } })
      await db.reading.updateMany({ where: { good: null }, data: { ...all, raw: null }, limit: 3 })
      const changed = db.reading.updateManyAndReturn({ data: { raw: new Uint8Array(1) }, select: { raw: true } })
      expectTypeOf(await changed).toEqualTypeOf<{ raw: Uint8Array<ArrayBuffer> | null }[]>()
      await db.reading.upsert({ where: { id }, create: { ...all, place_id }, update: { taken } })
      await db.$transaction([db.reading.create({ data: { taken, place_id } })])
      await db.$transaction((tx) => tx.reading.create({ data: { taken, place_id } }))
      // @ts-expect-error the text of a date
      await db.reading.create({ data: { ...all, taken: '2026-01-01', place_id } })
      // @ts-expect-error the text of a number
      await db.reading.createMany({ data: [{ taken, level: '7.5', place_id }] })
      // @ts-expect-error a field that may not be null
      await db.reading.createManyAndReturn({ data: [{ taken: null, place_id }] })
      // @ts-expect-error the text of a boolean
      await db.reading.update({ where: { id }, data: { good: 'true' } })
      // @ts-expect-error a number in place of a date
      await db.reading.update({ where: { id }, data: { taken: 7 } })
      // @ts-expect-error JSON of another type
      await db.reading.updateMany({ data: { tree: { name: 7 } } })
      // @ts-expect-error the base64 of bytes
      await db.reading.updateManyAndReturn({ data: { raw: 'AAAA' } })
      // @ts-expect-error the text of a date, in one of two places
      await db.reading.upsert({ where: { id }, create: { taken, place_id }, update: { taken: taken.toISOString() } })
      // @ts-expect-error a required field is missing
      await db.reading.create({ data: { level: 7, place_id } })
      // @ts-expect-error a member that no create has
      await db.reading.create({ data: { taken, place_id }, where: { id } })
    }
    expectTypeOf(write).toBeFunction()
  })

  it('takes values in conditions, whatever the column, at each depth', () => {
    const find = async (db: Db, id: string, since: Date, built: Prisma.ReadingWhereInput) => {
      const range = { gte: since, lt: new Date() }
      expectTypeOf(await db.reading.findMany({ where: { taken: range } })).toEqualTypeOf<OfReading[]>()
      const where = { taken: since, level: { in: [1, 2], not: null }, good: null, raw: { not: null } }
      expectTypeOf(await db.reading.findFirst({ where })).toEqualTypeOf<OfReading | null>()
      expectTypeOf(
        await db.reading.findFirstOrThrow({ where: { NOT: { taken: { not: since } } } }),
      ).toEqualTypeOf<OfReading>()
      const one = db.reading.findUnique({ where: { id, taken: range }, select: { taken: true, place: true } })
      expectTypeOf(await one).toEqualTypeOf<{ taken: Date; place: OfPlace } | null>()
      expectTypeOf(await db.reading.findUnique({ where: { id } }).place()).toEqualTypeOf<OfPlace | null>()
      expectTypeOf(await db.reading.findUniqueOrThrow({ where: { id } }).place()).toEqualTypeOf<OfPlace>()
      const rows = await db.user.findMany({ where: { OR: [{ born: range }, { born: { equals: Prisma.DbNull } }] } })
      expectTypeOf(rows[0]?.born).toEqualTypeOf<Date | null | undefined>()
      await db.user.findMany({ where: { born: null, AND: { email: { contains: 'x' } } } })
      await db.sample.findMany({ where: { amount: { gt: 1, lte: 7 }, taken: { in: [since] }, tree: null } })
      expectTypeOf(await db.reading.count({ where: { taken: range } })).toEqualTypeOf<number>()
      expectTypeOf(await db.reading.count()).toEqualTypeOf<number>()
      const counts = db.reading.aggregate({ where: { taken: range }, _count: true })
      expectTypeOf(await counts).toEqualTypeOf<{ _count: number }>()
      const groups = await db.reading.groupBy({ by: ['place_id'], where: { level: 7 }, _count: true })
      expectTypeOf(groups[0]?.place_id).toEqualTypeOf<string | undefined>()
      expectTypeOf(await db.reading.deleteMany({ where: { taken: range } })).toEqualTypeOf<{ count: number }>()
      expectTypeOf(await db.reading.delete({ where: { id, level: { gte: 7 } } })).toEqualTypeOf<OfReading>()
      await db.reading.updateMany({ where: { taken: since }, data: { level: 7 } })
      await db.reading.upsert({ where: { id, taken: since }, create: { taken: since, place_id: id }, update: {} })
      await db.place.findMany({ where: { readings: { some: { taken: range } }, sample: { is: { taken: since } } } })
      await db.reading.findMany({ where: { place: { readings: { every: { level: { lt: 7 } } } } } })
      const places = await db.place.findMany({
        include: {
          readings: { where: { taken: range }, select: { level: true } },
          _count: { select: { readings: { where: { taken: range } } } },
        },
      })
      expectTypeOf(places[0]?.readings).toEqualTypeOf<{ level: number | null }[] | undefined>()
      expectTypeOf(places[0]?._count).toEqualTypeOf<{ readings: number } | undefined>()
      const data = {
        readings: { deleteMany: { taken: range }, updateMany: { where: { level: 7 }, data: { level: 8 } } },
      }
      await db.place.update({ where: { id }, data })
      // One that was put together as Prisma types it.
      await db.reading.findMany({ where: built })
      await db.reading.findMany({ where: { ...built, taken: range } })
      await db.reading.findMany({ where: { AND: [built, { taken: range }] } })
      await db.place.findMany({ where: { readings: { none: built } } })
    }
    expectTypeOf(find).toBeFunction()
  })

  it('refuses conditions that the adapter does, on any depth', () => {
    const find = async (db: Db, id: string, taken: Date) => {
      // @ts-expect-error the text of a date
      await db.reading.findMany({ where: { taken: '2026-01-01' } })
      // @ts-expect-error the text of a date
      await db.reading.findMany({ where: { taken: { gte: taken.toISOString(), lt: taken } } })
      // @ts-expect-error the text of a date, of JSON
      await db.user.findMany({ where: { born: { gte: '2026-01-01' } } })
      // @ts-expect-error the text of a date, of JSON
      await db.user.findMany({ where: { born: { equals: '2026-01-01' } } })
      // @ts-expect-error the text of a number
      await db.reading.findFirst({ where: { level: { in: ['7'] } } })
      // @ts-expect-error a number in place of a date
      await db.reading.findFirst({ where: { taken: 7 } })
      // @ts-expect-error a date in place of a number
      await db.reading.count({ where: { level: taken } })
      // @ts-expect-error a part of a date
      await db.reading.findMany({ where: { taken: { contains: '2026' } } })
      // @ts-expect-error a boolean has no index
      await db.reading.findMany({ where: { good: true } })
      // @ts-expect-error JSON has no index
      await db.sample.findMany({ where: { tree: { path: ['name'], equals: 'x' } } })
      // @ts-expect-error a date is never null
      await db.reading.findMany({ where: { taken: { equals: null } } })
      // @ts-expect-error the text of a date, within others
      await db.reading.deleteMany({ where: { OR: [{ level: 7 }, { NOT: { taken: '2026-01-01' } }] } })
      // @ts-expect-error the text of a date, of a relation
      await db.place.findMany({ where: { readings: { some: { taken: '2026-01-01' } } } })
      // @ts-expect-error the text of a number, of a relation's relation
      await db.reading.findMany({ where: { place: { is: { readings: { none: { level: '7' } } } } } })
      // @ts-expect-error the text of a date, of a row to change
      await db.reading.update({ where: { id, taken: '2026-01-01' }, data: { level: 7 } })
      // @ts-expect-error a field that the schema does not have
      await db.reading.findMany({ where: { weight: 7 } })
      // @ts-expect-error a field that the schema does not have, beside one that it has
      await db.reading.findMany({ where: { taken, place_id: id, weight: { gt: 7 } } })
      // @ts-expect-error a field that the schema does not have, within others
      await db.reading.findMany({ where: { OR: [{ taken }, { taken, weight: 7 }] } })
      // @ts-expect-error an argument that no read has
      await db.reading.findMany({ where: { taken }, data: {} })
    }
    expectTypeOf(find).toBeFunction()
  })

  it('knows those members of a JSON field that are sealed, and takes others', () => {
    const write = async (client: PrismaClient, eaas: Client, id: string) => {
      const fields = { 'address.street': text() }
      const db = client.$extends(encrypted({ Place: eaas.model({ name: 'places', key: 'x', bind: ['id'], fields }) }))
      const place = await db.place.create({ data: { id, address: { street: 'x', city: 'y' } } })
      expectTypeOf(place.address.street).toEqualTypeOf<string>()
      expectTypeOf(place.address.city).toBeAny()
      // @ts-expect-error the street is text
      await db.place.create({ data: { id, address: { street: 7, city: 'y' } } })
    }
    expectTypeOf(write).toBeFunction()
  })

  it('takes them in nested writes, from either side', () => {
    const write = async (db: Db, id: string, taken: Date) => {
      const where = { id }
      const place = await db.place.create({
        data: { id, readings: { create: [{ taken }], createMany: { data: [{ taken, level: 7 }] } } },
        include: { readings: { select: { taken: true } } },
      })
      expectTypeOf(place.readings).toEqualTypeOf<{ taken: Date }[]>()
      await db.place.update({
        where,
        data: {
          readings: {
            connectOrCreate: { where, create: { taken } },
            upsert: { where, create: { taken }, update: { taken, good: null } },
            update: [{ where, data: { level: 7 } }],
            updateMany: { where: {}, data: { raw: null } },
          },
        },
      })
      // A sample has a field `data`, which is none of the members of a nested update.
      await db.place.update({ where, data: { samples: { update: { where, data: { taken, data: null } } } } })
      await db.place.update({ where, data: { samples: { update: [{ where, data: { taken } }] } } })
      await db.place.update({ where, data: { sample: { update: { where: {}, data: { taken } } } } })
      await db.place.update({ where, data: { sample: { update: { taken, data: null } } } })
      // @ts-expect-error JSON, and not a number
      await db.place.update({ where, data: { samples: { update: { where, data: { amount: { n: 7 } } } } } })
      // @ts-expect-error JSON, and not a number, of one row
      await db.place.update({ where, data: { sample: { update: { where: {}, data: { amount: { n: 7 } } } } } })
      const inner = { id, readings: { create: { taken } } }
      await db.reading.update({ where, data: { place: { update: inner } } })
      await db.reading.update({ where, data: { place: { update: { where: {}, data: inner } } } })
      await db.reading.create({ data: { taken, place: { create: inner } } })
      // @ts-expect-error the text of a date, in a new row
      await db.place.create({ data: { id, readings: { create: [{ taken: 'x' }] } } })
      // @ts-expect-error the text of a number, in a list of rows
      await db.place.create({ data: { id, readings: { createMany: { data: [{ taken, level: '7' }] } } } })
      // @ts-expect-error the text of a number, in a change
      await db.place.update({ where, data: { readings: { update: { where, data: { level: '7' } } } } })
      // @ts-expect-error the text of a date, in one of two places
      await db.place.update({ where, data: { readings: { upsert: { where, create: { taken: '' }, update: {} } } } })
      // @ts-expect-error the text of a date, two levels deep
      await db.reading.update({ where, data: { place: { update: { readings: { create: { taken: '' } } } } } })
    }
    expectTypeOf(write).toBeFunction()
  })

  it('keeps what the client leaves out, and what further extensions add', () => {
    const omits = async (client: PrismaClient<never, { reading: { raw: true } }>, readings: Readings) => {
      const db = client.$extends(encrypted({ Reading: readings })).$extends({
        result: { reading: { day: { needs: { taken: true }, compute: () => 7 } } },
      })
      const row = await db.reading.create({ data: { taken: new Date(), place_id: 'x' } })
      expectTypeOf<keyof typeof row>().toEqualTypeOf<Exclude<keyof OfReading, 'raw'> | 'day'>()
      const { readings: inner } = await db.place.create({ data: { id: 'x' }, include: { readings: true } })
      expectTypeOf<keyof (typeof inner)[0]>().toEqualTypeOf<Exclude<keyof OfReading, 'raw'> | 'day'>()
    }
    expectTypeOf(omits).toBeFunction()
  })

  it('has the own types of Prisma where all fields are text, and where it was made before', () => {
    const plain = (client: PrismaClient, { posts }: Models, readings: Readings) => {
      const db = client.$extends(encrypted({ Post: posts }))
      expectTypeOf(db.post.create).toEqualTypeOf<typeof untouched.post.create>()
      const made = encrypted({ Reading: readings })
      const other = client.$extends(made)
      // @ts-expect-error the client was not known
      return other.reading.updateMany({ data: { taken: new Date() } })
    }
    expectTypeOf(plain).toBeFunction()
  })

  it('finds by an encrypted unique field', () => {
    const find = async (db: Db) => {
      const found = await db.customer.findUnique({ where: { email: 'ada@example.org' }, select: { phone: true } })
      expectTypeOf(found).toEqualTypeOf<{ phone: string | null } | null>()
      await db.customer.upsert({ where: { email: 'x' }, create: { email: 'x', city: 'y' }, update: { phone: null } })
      // @ts-expect-error phone is not unique
      await db.customer.findUnique({ where: { phone: 'x' } })
    }
    expectTypeOf(find).toBeFunction()
  })
})
