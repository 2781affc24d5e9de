// Whatever a query of Prisma looks like, no plaintext of an encrypted field reaches the driver: it is encrypted, hashed or refused.
import { randomUUID } from 'node:crypto'
import type { PGlite } from '@electric-sql/pglite'
import * as runtime from '@prisma/client/runtime/client'
import { PrismaPGlite } from 'pglite-prisma-adapter'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest'
import { encrypted } from '../../packages/prisma/src/index.js'
import { bytes, type Client, createClient, json, text } from '../../packages/sdk/src/index.js'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { openCreatedCluster } from '../support/database/created-cluster.js'
import { Prisma, PrismaClient } from './prisma/client.js'
import { modelsOf, tables } from './scene.js'

/** A plaintext of an encrypted field, in every query below. */
const SECRET = 'ada@secret.example'
const ID = randomUUID()

const postgres = await openCreatedCluster(inject('runDir'))
let eaas: Client
let keyId: string
let models: ReturnType<typeof modelsOf>
let client: PrismaClient
let db: ReturnType<typeof connect>
const sent: string[] = []

function connect() {
  return client.$extends(encrypted({ User: models.users, Post: models.posts }))
}

/** A client that leaves out the ids of posts. */
function omitting() {
  const other = new PrismaClient({ adapter: new PrismaPGlite(postgres), omit: { post: { id: true } } })
  return other.$extends(encrypted({ User: models.users, Post: models.posts }))
}

/** A client of a schema with a preview feature. */
function previewing(feature: string) {
  const other = new PrismaClient({ adapter: new PrismaPGlite(postgres) })
  const { _engineConfig } = Object.assign(other, { _previewFeatures: [feature] }) as never as { _engineConfig: object }
  Object.assign(_engineConfig, { previewFeatures: [feature] })
  return other.$extends(encrypted({ User: models.users, Post: models.posts }))
}

/** Notes the queries of a connection. */
function note(on: Pick<PGlite, 'query'>): void {
  const query = on.query.bind(on)
  on.query = (sql, values, ...rest) => {
    sent.push(JSON.stringify([sql, values]))
    return query(sql, values, ...rest)
  }
}

beforeAll(async () => {
  await postgres.exec(tables('text'))
  note(postgres)
  const transaction = postgres.transaction.bind(postgres)
  postgres.transaction = (run) =>
    transaction((inner) => {
      note(inner)
      return run(inner)
    })
  eaas = createClient(createTestService())
  keyId = (await eaas.keys.create({ name: 'users' })).id
  models = modelsOf(eaas, keyId, 'text')
  client = new PrismaClient({ adapter: new PrismaPGlite(postgres) })
  db = connect()
})
beforeEach(async () => {
  await postgres.exec('truncate users, posts, tickets')
  await db.user.create({ data: { ...user(ID), nick: 'ada', posts: { create: { ...post(), id: ID } } } })
  sent.length = 0
})
afterAll(async () => {
  await client.$disconnect()
  await postgres.close()
})

const user = (id: string = randomUUID()) => ({ id, email: `${id}@x.org`, city: 'London' })
const post = () => ({ id: randomUUID(), title: SECRET, likes: 3 })

class Row {
  id = randomUUID()
  email = SECRET
  city = 'London'
}

type Db = typeof db
const ENCRYPTED: [title: string, run: (db: Db) => Promise<unknown>][] = [
  ['create', (db) => db.user.create({ data: { ...user(), email: SECRET } })],
  ['create of an object of a class', (db) => db.user.create({ data: new Row() })],
  ['createMany', (db) => db.user.createMany({ data: [{ ...user(), email: SECRET }], skipDuplicates: true })],
  ['createManyAndReturn', (db) => db.user.createManyAndReturn({ data: [{ ...user(), email: SECRET }] })],
  ['a nested create', (db) => db.user.create({ data: { ...user(), posts: { create: [post(), post()] } } })],
  ['a nested createMany', (db) => db.user.create({ data: { ...user(), posts: { createMany: { data: [post()] } } } })],
  [
    'a nested connectOrCreate',
    (db) =>
      db.user.update({
        where: { id: ID },
        data: { posts: { connectOrCreate: { where: { id: randomUUID() }, create: post() } } },
      }),
  ],
  [
    'a nested update, upsert, updateMany and deleteMany',
    (db) =>
      db.user.update({
        where: { id: ID },
        data: {
          posts: {
            update: { where: { id: ID }, data: { title: SECRET } },
            upsert: { where: { id: ID }, create: post(), update: { title: { set: SECRET } } },
            updateMany: { where: { id: ID }, data: { title: SECRET } },
            deleteMany: { id: { not: ID } },
          },
        },
      }),
  ],
  [
    'a nested update of the row that another belongs to',
    (db) => db.post.update({ where: { id: ID }, data: { user: { update: { nick: SECRET } } } }),
  ],
  [
    'nested updates by other fields',
    (db) =>
      db.user.update({
        where: { id: ID },
        data: { posts: { updateMany: [{ where: { likes: 3 }, data: { title: SECRET } }] } },
      }),
  ],
  [
    'an upsert with a nested update',
    (db) =>
      db.user.upsert({
        where: { id: ID },
        create: user(),
        update: { posts: { updateMany: { where: {}, data: { title: SECRET } } } },
      }),
  ],
  [
    'a create of the row that another belongs to',
    (db) => db.post.create({ data: { ...post(), user: { create: { ...user(), email: SECRET } } } }),
  ],
  ['update', (db) => db.user.update({ where: { id: ID }, data: { email: { set: SECRET } } })],
  ['updateMany', (db) => db.user.updateMany({ where: { AND: [{ id: { equals: ID } }] }, data: { nick: SECRET } })],
  ['an update of many rows', (db) => db.user.updateMany({ data: { nick: SECRET } })],
  [
    'an update by a condition that is not of its row',
    (db) =>
      db.user.updateMany({
        where: { NOT: { id: randomUUID() }, OR: [{ id: ID }], posts: { some: { id: ID } } },
        data: { nick: SECRET },
      }),
  ],
  [
    'an update by a text of any case',
    (db) => db.user.updateMany({ where: { city: { equals: 'LONDON', mode: 'insensitive' } }, data: { nick: SECRET } }),
  ],
  [
    'an update by an id and another operator',
    (db) => db.user.updateMany({ where: { id: { equals: ID, not: randomUUID() } }, data: { nick: SECRET } }),
  ],
  [
    'an update by a list of ids, which returns them',
    (db) => db.user.updateManyAndReturn({ where: { id: { in: [ID] } }, data: { nick: SECRET } }),
  ],
  [
    'an update that returns a field without its id',
    (db) => db.user.update({ where: { id: ID }, data: { nick: SECRET }, omit: { id: true } }),
  ],
  [
    'an upsert by another field',
    (db) => db.user.upsert({ where: { email_index: 'x' }, create: user(), update: { nick: SECRET } }),
  ],
  [
    'upsert',
    (db) => db.user.upsert({ where: { id: ID }, create: { ...user(), email: SECRET }, update: { email: SECRET } }),
  ],
  ['a search', (db) => db.user.findFirst({ where: { email: SECRET, nick: { in: [SECRET], not: SECRET } } })],
  [
    'a search in AND, OR and NOT',
    (db) =>
      db.user.findMany({
        where: { AND: { email: SECRET }, OR: [{ nick: { equals: SECRET } }], NOT: { nick: { notIn: [SECRET] } } },
      }),
  ],
  ['a search with a negation inside', (db) => db.user.findMany({ where: { nick: { not: { in: [SECRET] } } } })],
  ['a search by a relation', (db) => db.post.findMany({ where: { user: { is: { email: SECRET } } } })],
  [
    'a search in a relation',
    (db) =>
      db.post.findMany({ where: { id: ID, user: { email: SECRET, posts: { none: { user: { nick: SECRET } } } } } }),
  ],
  [
    'a search in what is included',
    (db) =>
      db.user.findMany({
        include: { posts: { where: { user: { email: SECRET } }, include: { user: true } } },
      }),
  ],
  [
    'a search in what is counted',
    (db) =>
      db.user.findMany({ select: { id: true, _count: { select: { posts: { where: { user: { nick: SECRET } } } } } } }),
  ],
  [
    'count, aggregate and groupBy',
    async (db) => {
      await db.user.count({ where: { email: SECRET } })
      await db.user.aggregate({ where: { email: SECRET }, _count: { email: true } })
      await db.user.groupBy({ by: ['city'], where: { email: SECRET }, _count: true })
    },
  ],
  ['deleteMany', (db) => db.user.deleteMany({ where: { email: SECRET } })],
  [
    'a list of operations in one transaction',
    (db) =>
      db.$transaction([
        db.user.create({ data: { ...user(), email: SECRET } }),
        db.user.findMany({ where: { email: SECRET } }),
      ]),
  ],
]

const REFUSED: [title: string, message: RegExp, run: (db: Db) => Promise<unknown>][] = [
  [
    'a nested upsert of a row that must be read before',
    /a nested write of User whose row must be read before/,
    (db) =>
      db.post.update({ where: { id: ID }, data: { user: { upsert: { create: user(), update: { nick: SECRET } } } } }),
  ],
  [
    'a nested update in a nested one that must be read before',
    /a nested write of User whose row must be read before/,
    (db) => {
      const data: object = { user: { update: { nick: SECRET } } } // Prisma's types know that it is the outer row
      return db.user.update({ where: { id: ID }, data: { posts: { update: { where: { id: ID }, data } } } })
    },
  ],
  ['a row without what it is bound to', /field "id"/, (db) => db.user.create({ data: { email: SECRET } as never })],
  [
    'a computed value',
    /the database cannot compute/,
    (db) => db.user.update({ where: { id: ID }, data: { email: { append: SECRET } as never } }),
  ],
  [
    'a write that it does not know',
    /replace of the relation posts/,
    (db) => db.user.update({ where: { id: ID }, data: { posts: { replace: [post()] } as never } }),
  ],
  [
    'a member of a nested write that it does not know',
    /title in a nested write/,
    (db) =>
      db.user.update({
        where: { id: ID },
        data: { posts: { updateMany: { where: { id: ID }, data: {}, title: SECRET } as never } },
      }),
  ],
  [
    'a pattern',
    /cannot compare it by "startsWith"/,
    (db) => db.user.findMany({ where: { email: { startsWith: SECRET } } }),
  ],
  ['a range', /cannot compare it by "lte"/, (db) => db.user.findMany({ where: { email: { lte: SECRET } } })],
  [
    'an index that would have to ignore case',
    /users\.nick is encrypted: its index does not compare by mode "insensitive"/,
    (db) => db.user.findMany({ where: { nick: { equals: SECRET, mode: 'insensitive' } } }),
  ],
  [
    'a pattern in a relation',
    /posts\.title is encrypted/,
    (db) => db.user.findMany({ where: { posts: { some: { title: { contains: SECRET } } } } }),
  ],
  [
    'to sort by a field of a relation',
    /cannot sort or group/,
    (db) => db.post.findMany({ orderBy: [{ user: { email: 'asc' } }], where: { user: { email: SECRET } } }),
  ],
  [
    'to sort what is included',
    /posts\.title is encrypted: the database cannot sort/,
    (db) => db.user.findMany({ include: { posts: { orderBy: { title: 'asc' } } }, where: { email: SECRET } }),
  ],
  ...[
    ({ user: { fields } }: Db) => ({ email: { not: { equals: fields.city } } }),
    ({ user: { fields } }: Db) => ({ OR: [{ city: { in: [SECRET], not: { equals: fields.email } } }] }),
    ({ user: { fields } }: Db) => ({ posts: { every: { user: { email: { equals: fields.nick } } } } }),
    ({ user: { fields } }: Db) => ({ city: { contains: fields.email } }),
  ].map((where: (db: Db) => Prisma.UserWhereInput): (typeof REFUSED)[number] => [
    'a comparison with another field',
    /users\.email is encrypted: the database cannot compare it with another field/,
    (db) => db.user.findMany({ where: where(db) }),
  ]),
  ['distinct', /cannot sort or group/, (db) => db.user.findMany({ distinct: ['email'], where: { email: SECRET } })],
  ['a cursor', /cannot sort or group/, (db) => db.user.findMany({ cursor: { email: SECRET } as never })],
  [
    'the greatest',
    /cannot be part of an expression/,
    (db) => db.user.aggregate({ where: { email: SECRET }, _max: { email: true } }),
  ],
  [
    'a condition on groups',
    /cannot sort or group/,
    (db) => db.user.groupBy({ by: ['city'], having: { email: { equals: SECRET } as never }, _count: true }),
  ],
  ['SQL that inserts', /names the table users/, (db) => db.$executeRaw`insert into users values (${ID}, ${SECRET})`],
  [
    'SQL that searches',
    /names the table users/,
    (db) => db.$queryRaw(Prisma.sql`select * from users where email = ${SECRET}`),
  ],
  ...[
    'row_to_json(u.*)',
    'to_jsonb(u)',
    'jsonb_agg(u)',
    'u',
    'u.*',
    'rank() over (order by email)',
    'count(distinct email)',
  ].map((value): (typeof REFUSED)[number] => [
    `SQL that selects ${value}`,
    /names the table users/,
    (db) => db.$queryRawUnsafe(`select ${value} from users u where city = $1`, SECRET),
  ]),
  ...['order by u.email', 'group by email'].map((end): (typeof REFUSED)[number] => [
    `SQL with ${end}`,
    /names the table users/,
    (db) => db.$queryRawUnsafe(`select count(*) from users u where city = $1 ${end}`, SECRET),
  ]),
  ['SQL as a string', /names the table users/, (db) => db.$executeRawUnsafe('update users set email = $1', SECRET)],
]

describe('Prisma', () => {
  it.each(ENCRYPTED)('sends no plaintext in %s', async (_, run) => {
    await run(db)
    expect(sent.length).toBeGreaterThan(0)
    expect(sent.join()).not.toContain(SECRET)
  })
  it.each(REFUSED)('refuses %s, before anything is sent', async (_, message, run) => {
    const refused = async () => run(db)
    await expect(refused()).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      message: expect.stringMatching(message),
    })
    expect(sent.filter((query) => !/begin|commit|rollback/i.test(query))).toEqual([])
  })
  it('opens what a call on a found row returns', async () => {
    expect(await db.user.findUnique({ where: { id: ID } }).posts()).toMatchObject([{ title: SECRET }])
    expect(
      await db.post
        .findUnique({ where: { id: ID } })
        .user()
        .posts(),
    ).toMatchObject([{ title: SECRET }])
  })
  it('opens rows of every level, in what a write returns too', async () => {
    const posts = { include: { user: { include: { posts: true } } } }
    const row = await db.user.update({ where: { id: ID }, data: { nick: 'new' }, include: { posts } })
    expect(row).toMatchObject({
      nick: 'new',
      posts: [{ title: SECRET, user: { nick: 'new', posts: [{ title: SECRET }] } }],
    })
  })
  it('opens a field without its id, on every level, and returns no more than was asked for', async () => {
    const selected = { nick: true, posts: { select: { title: true } } }
    const expected = { nick: 'ada', posts: [{ title: SECRET }] }
    expect(await db.user.findMany({ select: selected })).toEqual([expected])
    expect(await db.user.findUnique({ where: { id: ID } }).posts({ select: { title: true } })).toEqual([
      { title: SECRET },
    ])
    const row = await db.user.findFirst({ omit: { id: true }, include: { posts: { omit: { id: true } } } })
    expect(row).toMatchObject({ nick: 'ada', posts: [{ title: SECRET }] })
    expect(JSON.stringify(row)).not.toContain('"id"')
    expect(await omitting().post.findFirst()).toEqual({ user_id: ID, title: SECRET, likes: 3 })
    const whole = { include: { posts: true } }
    const posts = [{ user_id: ID, title: SECRET, likes: 3 }]
    expect(await omitting().user.findFirst(whole)).toMatchObject({ posts })
    const written = await omitting().user.update({ where: { id: ID }, data: { city: 'Rome' }, ...whole })
    expect(written.posts).toEqual(posts)
    expect(
      await omitting()
        .user.findUnique({ where: { id: ID } })
        .posts(),
    ).toEqual(posts)
    const where = { email: `${ID}@x.org` } as never
    const update = db.user.update({ where, data: { nick: 'new' }, select: { nick: true } })
    expect(await update).toEqual({ nick: 'new' })
    expect(await db.user.update({ where, data: { nick: 'new' } }).posts()).toMatchObject([{ title: SECRET }])
  })
  it('changes nested rows, each under its own id, and no others', async () => {
    const [mine, other] = [post(), post()]
    const id = randomUUID()
    await db.user.update({ where: { id: ID }, data: { posts: { create: { ...mine, likes: 7 } } } })
    await db.user.create({ data: { ...user(id), posts: { create: other } } })
    const titles = async () => {
      const rows = await db.post.findMany({ orderBy: { id: 'asc' } })
      return Object.fromEntries(rows.map((row) => [row.id, row.title]))
    }
    const update = (posts: object) => db.user.update({ where: { id: ID }, data: { posts } as never })
    const few = { where: { likes: { lt: 5 } }, data: { title: 'few' } }
    const many = { where: { likes: 7 }, data: { title: 'many' } }
    await update({ updateMany: few })
    await update({ updateMany: [many] })
    expect(await titles()).toEqual({ [ID]: 'few', [mine.id]: 'many', [other.id]: SECRET })
    // Its rows would be found before the other writes, and Prisma finds them after these.
    for (const others of [
      { updateMany: [few, many] },
      { updateMany: few, create: post() },
      { updateMany: few, connect: { id: ID } },
    ])
      await expect(update(others)).rejects.toThrow('updateMany beside other writes of the relation posts')
    await update({ updateMany: { where: {}, data: { title: 'all' } } })
    expect(await titles()).toMatchObject({ [ID]: 'all', [other.id]: SECRET })
    await update({ updateMany: { where: { likes: 99 }, data: { title: 'none' } } })
    await db.post.update({ where: { id: other.id }, data: { user: { update: { data: { nick: 'nested' } } } } })
    await db.post.update({ where: { id: ID }, data: { likes: 9, user: { update: { nick: 'whole', city: 'Rome' } } } })
    expect((await db.user.findMany({ orderBy: { city: 'asc' } })).map(({ nick }) => nick)).toEqual(['nested', 'whole'])
    expect(await titles()).toMatchObject({ [other.id]: SECRET })
    await db.$transaction(async (tx) => {
      await tx.user.update({ where: { id }, data: { posts: { updateMany: { where: {}, data: { title: 'inner' } } } } })
    })
    expect(await titles()).toMatchObject({ [other.id]: 'inner' })
    const stray = { update: { where: { id: other.id, likes: 3 }, data: { title: 'stray' } } }
    await expect(update(stray)).rejects.toMatchObject({ code: 'P2025' })
    const list = () =>
      db.user.update({ where: { id: ID }, data: { posts: { updateMany: { where: {}, data: { title: 'x' } } } } })
    await expect(db.$transaction([list()])).rejects.toThrow('in a list of operations, an update of User')
  })
  it('changes many rows, counts them, and no more than its limit', async () => {
    await db.user.create({ data: { ...user(), nick: 'bob' } })
    expect(await db.user.updateMany({ data: { nick: 'all' }, limit: 1 })).toEqual({ count: 1 })
    expect(await db.user.updateMany({ data: { nick: 'all' } })).toEqual({ count: 2 })
    expect(await db.user.updateMany({ where: { city: 'x' }, data: { nick: 'all' } })).toEqual({ count: 0 })
    expect((await db.user.findMany()).map(({ nick }) => nick)).toEqual(['all', 'all'])
  })
  it('leaves a limit below zero to Prisma, which refuses it', async () => {
    const args = { data: { nick: 'all' }, limit: -1 }
    await expect(db.user.updateMany(args)).rejects.toMatchObject({ code: 'P2019' })
    await expect(db.user.updateManyAndReturn(args)).rejects.toMatchObject({ code: 'P2019' })
    expect(await db.user.findMany()).toMatchObject([{ nick: 'ada' }])
  })
  it('computes a minimum that is not asked for of no encrypted field', async () => {
    expect(await db.user.aggregate({ _min: { nick: false, city: true } as never })).toEqual({
      _min: { city: 'London' },
    })
  })
  const boundToCity = () =>
    eaas.model({ name: 'users', keyId, format: 'text', bind: ['city'], fields: { nick: text().nullable() } })
  it('changes each row by itself where several share what their values are bound to', async () => {
    for (let n = 0; n < 2; n++) await db.user.create({ data: user() })
    const shared = client.$extends(encrypted({ User: boundToCity() })).user
    await postgres.exec('update users set nick = null')
    expect(await shared.updateMany({ data: { nick: 'one' }, limit: 1 })).toEqual({ count: 1 })
    expect(await shared.count({ where: { nick: null } })).toBe(2)
    expect(await shared.updateMany({ data: { nick: 'all' } })).toEqual({ count: 3 })
    const returned = await shared.updateManyAndReturn({ data: { nick: 'again' } })
    expect([returned.length, new Set(returned.map(({ id }) => id)).size]).toEqual([3, 3])
    expect((await shared.findMany()).map(({ nick }) => nick)).toEqual(['again', 'again', 'again'])
  })
  it('refuses to change more rows than it read, where the schema does not say what identifies one', async () => {
    await db.user.create({ data: user() })
    await postgres.exec('update users set nick = null')
    const other = new PrismaClient({ adapter: new PrismaPGlite(postgres) })
    const config = (other as unknown as { _engineConfig: { inlineSchema: string } })._engineConfig
    config.inlineSchema = config.inlineSchema.replaceAll('@id', '')
    const shared = other.$extends(encrypted({ User: boundToCity() })).user
    await expect(shared.updateMany({ data: { nick: SECRET } })).rejects.toThrow('users: 2 rows, and not 1, have the')
    expect(await shared.count({ where: { nick: null } })).toBe(2)
  })
  it('seals each of many rows under its own key, also where nothing is bound', async () => {
    const keys = [keyId, (await eaas.keys.create({ name: 'other' })).id]
    const fields = { name: text() }
    const model = eaas.model({ name: 'people', keyId: (row) => row.key_id, bind: false, format: 'text', fields })
    const people = client.$extends(encrypted({ Person: model })).person
    await people.createMany({ data: keys.map((key_id) => ({ id: randomUUID(), key_id, name: 'x', city: 'y' })) })
    expect(await people.updateMany({ data: { name: 'both' } })).toEqual({ count: 2 })
    expect((await people.findMany()).map(({ name }) => name)).toEqual(['both', 'both'])
  })
  it('fails as Prisma does where no row is found', async () => {
    const where = { email_index: 'x' }
    await expect(db.user.update({ where, data: { nick: 'new' } })).rejects.toMatchObject({ code: 'P2025' })
  })
  it('takes a search for a part of a text as no value that a field could equal', async () => {
    const indexes = { fault_start: { prefix: 'fault', length: 3 } } as const
    const fields = { fault: text({ index: 'amount_step' }) }
    const model = eaas.model({ name: 'logs', keyId, bind: ['id'], fields, indexes })
    const { log } = client.$extends(encrypted({ Log: model }))
    await log.create({ data: { id: ID, fault: 'Pump' } })
    const part = { startsWith: 'Pum' }
    for (const fault of [{ equals: part }, { in: [part] }, { notIn: [part] }, { not: { equals: part } }]) {
      const where = { fault } as never
      const refusal = /^logs\.fault is encrypted: it can only be equal to a value of its own type/
      await expect(log.deleteMany({ where })).rejects.toThrow(refusal)
      await expect(log.updateMany({ where, data: { number: 1 } })).rejects.toThrow(refusal)
      await expect(log.findFirst({ where })).rejects.toThrow(refusal)
    }
    expect(await log.findMany({ where: { fault: part } as never })).toMatchObject([{ fault: 'Pump', number: null }])
  })
  it('refuses, in a list of operations, an update whose row must be read before', async () => {
    const update = () => db.user.updateMany({ where: { city: 'London' }, data: { nick: SECRET } })
    await expect(db.$transaction([update()])).rejects.toThrow('in a list of operations, an update of User')
    await db.$transaction((tx) => tx.user.updateMany({ where: { city: 'London' }, data: { nick: 'ben' } }))
    expect((await db.user.findFirst())?.nick).toBe('ben')
  })
  it('executes statements of SQL that name no encrypted column', async () => {
    expect(await db.$queryRaw`select count(*)::int as n from users where city = ${'London'}`).toEqual([{ n: 1 }])
  })
  it('takes a query of TypedSQL by its text', async () => {
    const typing = previewing('typedSql') as unknown as { $queryRawTyped(query: object): Promise<unknown> }
    const run = async (sql: string) => typing.$queryRawTyped(runtime.makeTypedQueryFactory(sql)('London'))
    await expect(run('select email from users where city = $1')).rejects.toThrow('names the table users')
    expect(await run('select count(*)::int as n from users where city = $1')).toEqual([{ n: 1 }])
  })
  it('leaves what is undefined to Prisma, which refuses it where the application wants that', async () => {
    const strict = previewing('strictUndefinedChecks')
    for (const where of [
      { city: undefined },
      { email: undefined },
      { email: { equals: undefined } },
      { email: { not: { in: undefined } } },
      { AND: [{ posts: { some: { title: undefined } } }] },
      { posts: { some: undefined } },
      { OR: undefined },
    ] as Prisma.UserWhereInput[]) {
      await expect(strict.user.deleteMany({ where })).rejects.toThrow('undefined')
      await expect(strict.user.updateMany({ where, data: { nick: 'all' } })).rejects.toThrow('undefined')
    }
    const posts = { deleteMany: { title: undefined } } as never
    await expect(strict.user.update({ where: { id: ID }, data: { posts } })).rejects.toThrow('undefined')
    const lacking = { ...user(), city: undefined } as never
    const owned = { ...user(), posts: { create: { ...post(), likes: undefined } } } as never
    for (const write of [
      () => strict.user.update({ where: { id: ID }, data: { city: 'Oslo', nick: undefined } as never }),
      () => strict.user.updateMany({ data: { nick: 'all', city: undefined } as never }),
      () => strict.user.update({ where: { id: ID }, data: { posts: undefined } as never }),
      () => strict.user.create({ data: lacking }),
      () => strict.user.createMany({ data: [lacking] }),
      () => strict.user.create({ data: owned }),
      () => strict.user.upsert({ where: { id: ID }, create: user(), update: { nick: undefined } as never }),
    ])
      await expect(write()).rejects.toThrow('undefined')
    const where = { city: undefined, email: { equals: undefined } } as never
    expect(await db.user.findMany({ where })).toHaveLength(1)
    expect(await db.post.count()).toBe(1)
  })
  it('leaves out what is Prisma.skip, as Prisma does', async () => {
    const skip = runtime.skip as never // Prisma has it in its types with the preview feature alone
    const where = { email: skip, nick: 'ada', posts: { some: { title: skip, likes: 3 } }, AND: skip }
    const data = { nick: skip, city: 'Rome', posts: { update: { where: { id: ID }, data: { title: skip, likes: 4 } } } }
    expect(await db.user.findMany({ where, include: { posts: skip } })).toMatchObject([{ nick: 'ada' }])
    expect(await db.user.update({ where: { id: ID }, data, include: { posts: true } })).toMatchObject({
      nick: 'ada',
      city: 'Rome',
      posts: [{ title: SECRET, likes: 4 }],
    })
    expect(await db.user.create({ data: { ...user(), nick: skip } })).toMatchObject({ nick: null })
  })
  it('tells a null of JSON from one of a text', async () => {
    await db.user.update({ where: { id: ID }, data: { born: Prisma.DbNull, nick: null } })
    expect(await db.user.findMany({ where: { born: { equals: Prisma.DbNull }, nick: null } })).toHaveLength(1)
  })
  it('seals to an id as the database spells it', async () => {
    const id = randomUUID()
    const other = id.toUpperCase()
    await db.user.create({
      data: { ...user(other), nick: 'first', posts: { create: { ...post(), id: `{${other}}` } } },
    })
    const nick = async () => (await db.user.findUnique({ where: { id } }))?.nick
    expect(await nick()).toBe('first')
    await db.user.update({ where: { id: other }, data: { nick: 'second' } })
    expect(await nick()).toBe('second')
    await db.user.updateMany({ where: { id: { equals: id.replaceAll('-', '') } }, data: { nick: 'third', id: other } })
    expect(await nick()).toBe('third')
    await db.user.upsert({ where: { id: other }, create: user(other), update: { nick: 'fourth' } })
    expect(await nick()).toBe('fourth')
    const posts = { update: { where: { id: other }, data: { title: 'Second' } } }
    await db.user.update({ where: { id }, data: { posts } })
    expect(await db.post.findUnique({ where: { id } })).toMatchObject({ title: 'Second' })
  })
  describe('a nested update of a model that has a field `data`', () => {
    const other = randomUUID()
    const start = { tree: 'first', amount: { n: 1 } }

    beforeAll(() => postgres.exec('create table _all ("A" uuid references places, "B" uuid references samples)'))
    beforeEach(async () => {
      await postgres.exec('truncate places, samples, _all')
      await of({}).place.create({
        data: { id: ID, sample: { create: start }, samples: { create: { id: other, ...start } } },
      })
      sent.length = 0
    })
    /** `tree` is encrypted, and what else is given. */
    const of = (more: object) => {
      const fields = { tree: text(), ...more }
      return client.$extends(encrypted({ Sample: eaas.model({ name: 'samples', keyId, bind: ['id'], fields }) }))
    }
    const update = (data: object, more: object = {}) => of(more).place.update({ where: { id: ID }, data })
    const read = (id: string, more: object = {}) => of(more).sample.findUnique({ where: { id } })
    const tree = SECRET

    it.each<[string, string, object]>([
      ['in a list', other, { samples: { update: { where: { id: other }, data: { tree } } } }],
      ['in several', other, { samples: { update: [{ where: { id: other }, data: { tree } }] } }],
      ['by another field', other, { samples: { updateMany: { where: {}, data: { tree } } } }],
      ['of one row, by a condition', ID, { sample: { update: { where: {}, data: { tree } } } }],
      ['of one row, by its changes', ID, { sample: { update: { tree } } }],
    ])('is sealed %s', async (_, id, data) => {
      await update(data)
      expect(sent.join()).not.toContain(SECRET)
      expect(await read(id)).toMatchObject({ ...start, tree, data: null })
    })
    it('sets that field beside others, and by itself where it is no object', async () => {
      await update({ sample: { update: { tree, data: { tree: 'plain' } } } })
      expect(await read(ID)).toMatchObject({ tree, data: { tree: 'plain' } })
      await update({ sample: { update: { data: 'alone' } } })
      await update({ samples: { update: { where: { id: other }, data: { data: { n: 2 } } } } })
      expect([await read(ID), await read(other)]).toMatchObject([{ data: 'alone' }, { data: { n: 2 } }])
      expect(sent.join()).not.toContain(SECRET)
    })
    it('is refused where its changes, or the value of that field, could be meant', async () => {
      for (const changes of [{ data: { tree } }, { where: undefined, data: { tree } }, { data: { tree }, size: 1 }]) {
        await expect(update({ sample: { update: changes } })).rejects.toMatchObject({
          code: 'E_INVALID_INPUT',
          message: expect.stringContaining('an update of the relation sample that could be changes or { where, data }'),
        })
      }
      expect(sent.filter((query) => !/begin|commit|rollback/i.test(query))).toEqual([])
    })
    it.each([
      ['bytes', bytes(), new Uint8Array([7])],
      ['JSON', json(), { tree: SECRET }],
    ])('is sealed with the field `data` of %s too', async (_, data, value) => {
      const more = { data: data.nullable() }
      await update({ samples: { update: { where: { id: other }, data: { data: value, tree } } } }, more)
      await update({ sample: { update: { data: value, tree } } }, more)
      expect([await read(ID, more), await read(other, more)]).toMatchObject([
        { data: value, tree },
        { data: value, tree },
      ])
      expect(sent.join()).not.toContain(SECRET)
    })
  })
  describe('a row that is bound to the id of another', () => {
    const bound = () => {
      const bind = ['id', 'user_id']
      const model = eaas.model({ name: 'posts', keyId, bind, format: 'text', fields: { title: text() } })
      return client.$extends(encrypted({ Post: model }))
    }
    const plain = (id: string = randomUUID()) => ({ ...user(id), email_index: id })
    const titles = async (user_id: string) => {
      const found = await bound().post.findMany({ where: { user_id } })
      return found.map(({ title }) => title)
    }

    it('is sealed to it where it is nested', async () => {
      const id = randomUUID()
      const posts = { create: [post(), post()] }
      await bound().user.create({ data: { ...plain(id.toUpperCase()), posts } })
      await bound().user.update({ where: { id: id.toUpperCase() }, data: { posts: { create: post() } } })
      await bound().user.update({ where: { id }, data: { posts: { createMany: { data: [post()] } } } })
      const connectOrCreate = { where: { id: randomUUID() }, create: post() }
      await bound().user.create({ data: { ...plain(), posts: { create: post() } } })
      expect(await titles(id)).toEqual([SECRET, SECRET, SECRET, SECRET])
      expect(sent.join()).not.toContain(SECRET)
      await expect(bound().user.update({ where: { id }, data: { posts: { connectOrCreate } } })).rejects.toThrow(
        'connectOrCreate of the relation posts, which changes posts.user_id,',
      )
    })
    it('is sealed to it where the other is nested, or connected', async () => {
      const [made, found] = [randomUUID(), randomUUID()]
      await bound().post.create({ data: { ...post(), user: { create: plain(made) } } })
      await bound().user.create({ data: plain(found) })
      await bound().post.create({ data: { ...post(), user: { connect: { id: found.toUpperCase() } } } })
      expect([await titles(made), await titles(found)]).toEqual([[SECRET], [SECRET]])
    })
    it('is sealed to that of a row which is found by another unique field', async () => {
      const id = randomUUID()
      await bound().user.create({ data: plain(id) })
      await bound().user.update({ where: { email_index: id }, data: { posts: { create: post() } } })
      expect(await titles(id)).toEqual([SECRET])
    })
    it('is refused where the id is not known', async () => {
      const { id: _, ...without } = plain()
      const message = /field "user_id": a column of bind must hold text or a whole number/
      for (const run of [
        () => bound().user.create({ data: { ...without, posts: { create: post() } } as never }),
        () => bound().post.create({ data: { ...post(), user: { connect: { email_index: 'x' } } } }),
      ]) {
        await expect(run()).rejects.toMatchObject({ code: 'E_INVALID_INPUT', message: expect.stringMatching(message) })
      }
      expect(sent.filter((query) => !/begin|commit|rollback/i.test(query))).toEqual([])
    })
    it('is refused a new id of the other, which the database would give it too', async () => {
      const [id, email_index] = [randomUUID(), 'x']
      const changes = [{ id }, { id: { set: id } }]
      const calls = [
        ...changes.map((data) => () => bound().user.update({ where: { id: ID }, data })),
        () => bound().user.updateMany({ data: { id } }),
        () => bound().user.upsert({ where: { id: ID }, create: plain(), update: { id } }),
        () => bound().post.update({ where: { id: ID }, data: { user: { update: { id } } } }),
      ]
      for (const call of calls) {
        await expect(call()).rejects.toMatchObject({
          code: 'E_INVALID_INPUT',
          message: expect.stringMatching(/^a change of User\.id, which changes posts\.user_id,/),
        })
      }
      const same = { id: ID, email_index }
      await bound().user.update({ where: { id: ID }, data: same })
      const again = { where: { email_index }, data: { ...same, city: 'Rome' } }
      expect(await bound().user.update(again)).toMatchObject({ id: ID, city: 'Rome' })
    })
    it('is never moved to another', async () => {
      const where = { id: ID }
      const MOVES: [string, () => Promise<unknown>][] = [
        ['connect', () => bound().post.update({ where, data: { user: { connect: { id: randomUUID() } } } })],
        ['create', () => bound().post.update({ where, data: { user: { create: plain() } } })],
        ['connect', () => bound().user.update({ where, data: { posts: { connect: { id: ID } } } })],
        ['connect', () => bound().user.create({ data: { ...plain(), posts: { connect: { id: ID } } } })],
        ['set', () => bound().user.update({ where, data: { posts: { set: [] } } })],
        ['disconnect', () => bound().user.update({ where, data: { posts: { disconnect: { id: ID } } as never } })],
      ]
      for (const [name, run] of MOVES) {
        await expect(run()).rejects.toMatchObject({
          code: 'E_INVALID_INPUT',
          message: expect.stringMatching(new RegExp(`^${name} of the relation \\w+, which changes posts\\.user_id`)),
        })
      }
      expect(sent.filter((query) => !/begin|commit|rollback/i.test(query))).toEqual([])
    })
  })
  it('reads pages of a search in one order, by the id too, where nothing is bound', async () => {
    const indexes = { fault_start: { prefix: 'fault', length: 3 } } as const
    const model = eaas.model({ name: 'pumps', keyId, bind: false, fields: { fault: text() }, indexes })
    const logs = client.$extends(encrypted({ Log: model })).log
    await logs.findMany({ where: { fault: { startsWith: 'Pump' } } as never, orderBy: { number: 'asc' }, take: 2 })
    expect(sent.join()).toMatch(/ORDER BY [^)]*number[^)]* ASC, [^)]*id[^)]* ASC/)
  })
  describe('a new row whose id the database makes', () => {
    const tickets = () => client.$extends(encrypted({ Ticket: models.tickets })).ticket
    const create = (label: string, parent?: object) =>
      tickets().create({ data: { label, parent } as never, select: { id: true, label: true, parent_id: true } })
    const label_index = 'x'
    const many = { data: [{ label: SECRET }] }

    it('is connected to another, by its key or another unique field', async () => {
      const first = await create(SECRET)
      for (const where of [{ id: first.id }, { label: SECRET }, { id: first.id, label: SECRET }]) {
        const label = `part ${JSON.stringify(where)}`
        const { id: _, ...row } = await create(label, { connect: where, create: undefined })
        expect(row).toEqual({ label, parent_id: first.id })
      }
      expect(await create('whole', {})).toMatchObject({ parent_id: null })
      const parts = { create: { label: 'nested', parts: { create: { label: 'deep' } }, parent: undefined } }
      const nested = await tickets().create({ data: { label: 'outer', parts, parent: { connect: { id: first.id } } } })
      const opened = await tickets().findUnique({
        where: { id: nested.id },
        select: { parent: { select: { label: true } }, parts: { select: { label: true, parts: true } } },
      })
      expect(opened).toMatchObject({
        parent: { label: SECRET },
        parts: [{ label: 'nested', parts: [{ label: 'deep' }] }],
      })
      const upsert = { where: { label: 'by' } as never, create: { label: 'by', parent: { connect: { id: first.id } } } }
      expect(await tickets().upsert({ ...upsert, update: {} })).toMatchObject({ label: 'by', parent_id: first.id })
      expect(sent.join()).not.toContain(SECRET)
    })
    it('is refused where Prisma would have to write or find the other first', async () => {
      const message = (name: string) =>
        `${name} of the relation parent in a new Ticket, whose id the database makes, is not supported`
      for (const [name, parent] of Object.entries({
        create: { create: { label: SECRET } },
        connectOrCreate: { connectOrCreate: { where: { id: 1 }, create: { label: SECRET } } },
      })) {
        const error = await create('part', parent).catch((refused: unknown) => refused)
        expect(error).toMatchObject({ code: 'E_INVALID_INPUT', message: expect.stringContaining(message(name)) })
        expect(error).toMatchObject({ hint: expect.stringContaining('or give its parent_id.') })
      }
      const list = () => tickets().create({ data: { label: 'part', parent: { connect: { label_index } } } })
      await expect(client.$transaction([list() as never])).rejects.toThrow('by another field')
      expect(sent.filter((query) => !/begin|commit|rollback/i.test(query))).toEqual([])
      await expect(list()).rejects.toMatchObject({ code: 'P2025' })
      await expect(create('part', { connect: { id: 0 } })).rejects.toMatchObject({ code: 'P2003' })
      expect(await tickets().createMany(many)).toEqual({ count: 1 })
    })
    it('is found in the transaction of the call', async () => {
      const all = client.$extends(encrypted({ Ticket: models.tickets }))
      const row = await all.$transaction(async (tx) => {
        await tx.ticket.create({ data: { label: 'inside' } })
        const parent = { connect: { label: 'inside' } as never }
        return tx.ticket.create({ data: { label: 'part', parent }, include: { parent: true } })
      })
      expect(row).toMatchObject({ label: 'part', parent: { label: 'inside' } })
    })
  })
  it('refuses models and fields that the schema does not have', () => {
    expect(() => client.$extends(encrypted({ Nobody: models.users }))).toThrow('the schema has no model "Nobody"')
    expect(() => client.$extends(encrypted({ Post: models.users }))).toThrow(
      'the model Post of the schema has no field "email"',
    )
  })
})
