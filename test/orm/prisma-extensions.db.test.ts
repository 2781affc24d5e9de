// Other extensions of a Prisma client beside `encrypted()`: what they change is sealed, what they filter stays filtered, in every operation.
import { randomUUID } from 'node:crypto'
import { PrismaPGlite } from 'pglite-prisma-adapter'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest'
import { encrypted } from '../../packages/prisma/src/index.js'
import { type Client, createClient } from '../../packages/sdk/src/index.js'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { openCreatedCluster } from '../support/database/created-cluster.js'
import { Prisma, PrismaClient } from './prisma/client.js'
import { modelsOf, tables } from './scene.js'

const postgres = await openCreatedCluster(inject('runDir'))
const client = new PrismaClient({ adapter: new PrismaPGlite(postgres) })
let eaas: Client
let models: ReturnType<typeof modelsOf>
const [mine, foreign] = [randomUUID(), randomUUID()]

beforeAll(async () => {
  await postgres.exec(tables('text'))
  eaas = createClient(createTestService())
  models = modelsOf(eaas, (await eaas.keys.create({ name: 'users' })).id, 'text')
})
beforeEach(async () => {
  await postgres.exec('truncate users cascade')
  await client.$extends(encrypted({ User: models.users })).user.createMany({
    data: [
      { id: mine, email: 'a@x', city: 'Paris' },
      { id: foreign, email: 'b@x', city: 'Rome' },
    ],
  })
})
afterAll(async () => {
  await client.$disconnect()
  await postgres.close()
  eaas.close()
})

const nicks = async () => {
  const { rows } = await postgres.query<{ nick: string | null }>('select nick from users order by city')
  return rows.map(({ nick }) => nick?.slice(0, 6) ?? null)
}

describe('an extension before encrypted()', () => {
  const stamped = () => {
    const stamp = ({ args, query }: { args: { data?: object }; query: (args: object) => unknown }) => {
      const add = (data: object) => ({ ...data, nick: 'by it' })
      return query({ ...args, data: Array.isArray(args.data) ? args.data.map(add) : add(args.data ?? {}) })
    }
    const user = { create: stamp, createMany: stamp, update: stamp, updateMany: stamp, updateManyAndReturn: stamp }
    return client.$extends({ query: { user } } as object).$extends(encrypted({ User: models.users }))
  }
  const city = 'Paris'

  it.each<[string, (db: ReturnType<typeof stamped>) => Promise<unknown>]>([
    ['create', (db) => db.user.create({ data: { id: randomUUID(), email: 'c@x', city: 'Oslo' } })],
    ['createMany', (db) => db.user.createMany({ data: [{ id: randomUUID(), email: 'c@x', city: 'Oslo' }] })],
    ['update by id', (db) => db.user.update({ where: { id: mine }, data: { city } })],
    ['update by another field', (db) => db.user.update({ where: { email: 'a@x' } as never, data: { city } })],
    ['updateMany', (db) => db.user.updateMany({ where: { city }, data: { email: 'd@x' } })],
    ['updateManyAndReturn', (db) => db.user.updateManyAndReturn({ where: { city }, data: { email: 'd@x' } })],
    [
      'updateMany in a transaction',
      (db) => db.$transaction((tx) => tx.user.updateMany({ where: { city }, data: { email: 'd@x' } })),
    ],
  ])('has what it sets sealed by %s', async (_, write) => {
    const db = stamped()
    await write(db)
    expect((await nicks()).filter((nick) => nick !== null)).toEqual(['eaas.2'])
    expect(await db.user.count({ where: { nick: 'by it' } as never })).toBe(1)
  })

  it('filters every operation', async () => {
    const filter = {
      query: {
        user: {
          $allOperations({ args, query }: { args: { where?: object }; query: (args: object) => unknown }) {
            return query({ ...args, where: { ...args.where, city: 'Paris' } })
          },
        },
      },
    }
    const { user } = client.$extends(filter as object).$extends(encrypted({ User: models.users }))
    expect(await user.updateMany({ data: { nick: 'x' } })).toEqual({ count: 1 })
    expect(await user.updateManyAndReturn({ data: { nick: 'x' } })).toMatchObject([{ id: mine, nick: 'x' }])
    const other = { where: { email: 'b@x' } as never, data: { nick: 'x' } }
    await expect(user.update(other)).rejects.toThrow(expect.objectContaining({ code: 'P2025' }))
    expect(await nicks()).toEqual(['eaas.2', null])
  })

  it('computes fields of what was opened, also where they are selected alone', async () => {
    const shout = { needs: { email: true }, compute: ({ email }: { email: string }) => email.toUpperCase() }
    const computed = client.$extends({ result: { user: { shout } } }).$extends(encrypted({ User: models.users }))
    const select = { shout: true } as never
    const found = [
      await computed.user.findUnique({ where: { id: mine }, select }),
      await computed.user.update({ where: { email: 'a@x' } as never, data: { nick: 'y' }, select }),
    ]
    for (const row of found) expect(Object.entries(row ?? {})).toEqual([['shout', 'A@X']])
  })
})

it.each([
  [
    'before',
    (fields: object) => client.$extends(fields).$extends(encrypted({ User: models.users, Post: models.posts })),
  ],
  [
    'after',
    (fields: object) => client.$extends(encrypted({ User: models.users, Post: models.posts })).$extends(fields),
  ],
])('an extension %s encrypted() computes a field of an id that is left out', async (_, extend) => {
  const tag = { needs: { id: true }, compute: ({ id }: { id: string }) => `#${id}` }
  const db = extend({ result: { user: { tag }, post: { tag } } }) as never as ReturnType<typeof stampedBy>
  const id = randomUUID()
  await db.post.create({ data: { id, user_id: mine, title: 't', likes: 1 } })
  const row = await db.user.findUnique({
    where: { id: mine },
    omit: { id: true, email_index: true, nick_index: true, born: true, prefs: true },
    include: { posts: { omit: { id: true } } },
  })
  const post = { user_id: mine, title: 't', likes: 1, tag: `#${id}` }
  expect(JSON.parse(JSON.stringify(row))).toEqual({
    email: 'a@x',
    nick: null,
    city: 'Paris',
    posts: [post],
    tag: `#${mine}`,
  })
})
const stampedBy = () => client.$extends(encrypted({ User: models.users, Post: models.posts }))

it('says that the writes of a list may be done where one of its reads is not opened', async () => {
  await postgres.exec('update users set nick = email')
  const db = client.$extends(encrypted({ User: models.users }))
  const update = db.user.update({ where: { id: mine }, data: { city: 'Oslo' }, select: { city: true } })
  const message = expect.stringMatching(/^rows may have been written, but could not be decrypted: /)
  await expect(db.$transaction([update, db.user.findMany()])).rejects.toMatchObject({
    code: 'E_DECRYPTION',
    retryable: false,
    message,
  })
  expect((await postgres.query(`select id from users where city = 'Oslo'`)).rows).toEqual([{ id: mine }])
})

describe('an extension after encrypted()', () => {
  const queries = {
    query: { user: { create: ({ args, query }: { args: object; query: (args: object) => unknown }) => query(args) } },
  }

  it('is refused if it has queries, on each client that is made of it', () => {
    const db = client.$extends(encrypted({ User: models.users }))
    const refusal = /an extension with queries after encrypted\(\) would change or miss what is sealed already/
    expect(() => db.$extends(queries as object)).toThrow(refusal)
    expect(() => db.$extends(Prisma.defineExtension(queries as object))).toThrow(refusal)
    expect(() => db.$extends(Prisma.defineExtension((other) => other.$extends(queries as object)))).toThrow(refusal)
    expect(() => db.$extends({ client: { now: () => 1 } }).$extends(queries as object)).toThrow(refusal)
    expect(() => db.$extends(encrypted({ Post: models.posts })).$extends(queries as object)).toThrow(refusal)
  })

  it('may add fields, methods, and other encrypted models', async () => {
    const shout = { needs: { email: true }, compute: ({ email }: { email: unknown }) => String(email).toUpperCase() }
    const db = client.$extends(encrypted({ User: models.users })).$extends({ result: { user: { shout } } })
    expect((await db.user.findFirstOrThrow({ where: { id: mine } })).shout).toBe('A@X')
    const both = db.$extends(encrypted({ Post: models.posts }))
    await both.post.create({ data: { id: randomUUID(), user_id: mine, title: 't', likes: 1 } })
    expect(await both.post.findFirst({ select: { title: true } })).toEqual({ title: 't' })
  })
})
