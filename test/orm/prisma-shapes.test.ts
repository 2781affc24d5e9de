// Whatever a query of Prisma looks like, no plaintext of an encrypted field reaches the driver: it is encrypted, hashed or refused.
import { randomUUID } from 'node:crypto'
import * as runtime from '@prisma/client/runtime/client'
import { describe, expect, it } from 'vitest'
import { encrypted } from '../../packages/prisma/src/index.js'
import { text } from '../../packages/sdk/src/index.js'
import { Prisma } from './prisma/client.js'
import { ID, openScene, post, SECRET, user } from './prisma-scene.js'

const { sent, assertNothingSent, eaas, keyId, models, createPrisma, encrypting, client, db } = await openScene()

/** A client that leaves out the ids of posts. */
function omitting() {
  return encrypting(createPrisma({ omit: { post: { id: true } } }))
}

/** A client of a schema with a preview feature. */
function previewing(feature: string) {
  const other = createPrisma()
  const { _engineConfig } = Object.assign(other, { _previewFeatures: [feature] }) as never as { _engineConfig: object }
  Object.assign(_engineConfig, { previewFeatures: [feature] })
  return encrypting(other)
}

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
  ['SQL that inserts', /writes the table users/, (db) => db.$executeRaw`insert into users values (${ID}, ${SECRET})`],
  [
    'SQL that searches',
    /writes the table users/,
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
    /writes the table users/,
    (db) => db.$queryRawUnsafe(`select ${value} from users u where city = $1`, SECRET),
  ]),
  ...['order by u.email', 'group by email'].map((end): (typeof REFUSED)[number] => [
    `SQL with ${end}`,
    /writes the table users/,
    (db) => db.$queryRawUnsafe(`select count(*) from users u where city = $1 ${end}`, SECRET),
  ]),
  ['SQL as a string', /writes the table users/, (db) => db.$executeRawUnsafe('update users set email = $1', SECRET)],
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
    assertNothingSent()
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
  it('computes a minimum that is not asked for of no encrypted field', async () => {
    expect(await db.user.aggregate({ _min: { nick: false, city: true } as never })).toEqual({
      _min: { city: 'London' },
    })
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
  it('executes statements of SQL that name no encrypted column', async () => {
    expect(await db.$queryRaw`select count(*)::int as n from users where city = ${'London'}`).toEqual([{ n: 1 }])
  })
  it('takes a query of TypedSQL by its text', async () => {
    const typing = previewing('typedSql') as unknown as { $queryRawTyped(query: object): Promise<unknown> }
    const run = async (sql: string) => typing.$queryRawTyped(runtime.makeTypedQueryFactory(sql)('London'))
    await expect(run('select email from users where city = $1')).rejects.toThrow('writes the table users')
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
  it('reads pages of a search in one order, by the id too, where nothing is bound', async () => {
    const indexes = { fault_start: { prefix: 'fault', length: 3 } } as const
    const model = eaas.model({ name: 'pumps', keyId, bind: false, fields: { fault: text() }, indexes })
    const logs = client.$extends(encrypted({ Log: model })).log
    await logs.findMany({ where: { fault: { startsWith: 'Pump' } } as never, orderBy: { number: 'asc' }, take: 2 })
    expect(sent.join()).toMatch(/ORDER BY [^)]*number[^)]* ASC, [^)]*id[^)]* ASC/)
  })
  it('refuses models and fields that the schema does not have', () => {
    expect(() => client.$extends(encrypted({ Nobody: models.users }))).toThrow('the schema has no model "Nobody"')
    expect(() => client.$extends(encrypted({ Post: models.users }))).toThrow(
      'the model Post of the schema has no field "email"',
    )
  })
})
