// What the compiler knows of an extended Prisma client: the functions are compiled, and never called.
import { describe, expectTypeOf, it } from 'vitest'
import { encrypted } from '../../packages/prisma/src/index.js'
import { type Client, text } from '../../packages/sdk/src/index.js'
import { Prisma, type PrismaClient } from './prisma/client.js'
import type { Models, Tree } from './scene.js'

function extend(client: PrismaClient, eaas: Client, { users, posts, samples }: Models) {
  const fields = { email: text({ index: 'email_index' }), phone: text().nullable() }
  const Customer = eaas.model({ name: 'customers', key: 'shop', bind: ['id'], format: 'text', fields })
  return client.$extends(encrypted({ User: users, Post: posts, Sample: samples, Customer }))
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

  it('writes them as values, and returns their types', () => {
    const write = async (db: Db, id: string) => {
      const values = { amount: 7, taken: new Date(), good: true, tree: { name: 'x', parts: [] }, data: Prisma.DbNull }
      expectTypeOf(await db.sample.create({ data: { id, ...values } })).toEqualTypeOf<OfSample>()
      const update = db.sample.update({ where: { id }, data: { taken: new Date() }, select: { taken: true } })
      expectTypeOf(await update).toEqualTypeOf<{ taken: Date | null }>()
      const upsert = db.sample.upsert({ where: { id }, create: { id }, update: values })
      expectTypeOf(await upsert).toEqualTypeOf<OfSample>()
      expectTypeOf(await db.sample.createManyAndReturn({ data: [{ id }] })).toEqualTypeOf<OfSample[]>()
      // @ts-expect-error text is not a number
      await db.user.update({ where: { id }, data: { email: 7 } })
      // @ts-expect-error a field that the schema does not have
      await db.sample.create({ data: { id, weight: 7 } })
      // @ts-expect-error a row has an id
      await db.sample.create({ data: values })
    }
    expectTypeOf(write).toBeFunction()
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
