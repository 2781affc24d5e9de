import { createClient, text } from '@eaas/sdk'
import { createTestService } from '@eaas/sdk/testing'
import { asc, count, eq, relations, type SQL, sql } from 'drizzle-orm'
import { alias, text as column, integer, jsonb, pgTable } from 'drizzle-orm/pg-core'
import { drizzle } from 'drizzle-orm/pg-proxy'
import { text as columnOfSqlite, sqliteTable } from 'drizzle-orm/sqlite-core'
import { drizzle as drizzleOfSqlite } from 'drizzle-orm/sqlite-proxy'
import { beforeEach, describe, expect, it } from 'vitest'
import { encrypted } from './index.js'

const users = pgTable('users', {
  id: integer().primaryKey(),
  email: jsonb('mail').$type<string>().notNull(),
  city: column(),
})
const posts = pgTable('posts', { id: integer().primaryKey(), userId: integer(), mail: column() })
const usersPosts = relations(users, ({ many }) => ({ posts: many(posts) }))
const postsUser = relations(posts, ({ one }) => ({
  user: one(users, { fields: [posts.userId], references: [users.id] }),
}))
const u = alias(users, 'u')

describe('text in a query of Drizzle', () => {
  const sent: string[] = []
  const connect = async () => {
    const eaas = createClient(createTestService())
    const { id: keyId } = await eaas.keys.create({ name: 'users' })
    const model = eaas.model({ name: 'users', keyId, bind: ['id'], fields: { email: text() } })
    const schema = { users, posts, usersPosts, postsUser }
    const driver = drizzle(
      async (query) => {
        sent.push(query)
        return { rows: [] }
      },
      { schema },
    )
    return encrypted(driver, [[users, model]])
  }
  type Db = Awaited<ReturnType<typeof connect>>
  beforeEach(() => {
    sent.length = 0
  })
  const refused = async (run: (db: Db) => unknown, message: RegExp) => {
    const db = await connect()
    const call = async () => await run(db)
    await expect(call()).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      message: expect.stringMatching(message),
      hint: expect.stringMatching(/./),
    })
    expect(sent).toEqual([])
  }

  const WHOLE = /(names all columns of|names the table|writes the table) (users|u|q)/
  it.each([
    '*',
    'users.*',
    '"users".*',
    'public.users.*',
    'users',
    'to_jsonb(users)',
    'row_to_json(users.*)',
    'jsonb_agg(users)',
    '(users).*',
    '(select to_jsonb(x) from users x limit 1)',
  ])('is refused where it takes a whole row, in a selection and in what a write returns: %s', async (raw) => {
    const x = sql.raw(raw)
    await refused((db) => db.select({ x }).from(users), WHOLE)
    await refused((db) => db.select({ x: x.as('x') }).from(users), WHOLE)
    await refused((db) => db.insert(users).values({ id: 1, email: 'a' }).returning({ x }), WHOLE)
    await refused((db) => db.update(users).set({ city: 'x' }).returning({ x }), WHOLE)
    await refused((db) => db.delete(users).returning({ x }), WHOLE)
    await refused((db) => db.query.users.findMany({ extras: { x: x.as('x') } }), WHOLE)
  })
  it.each<[string, (db: Db) => unknown]>([
    ['by the table itself', (db) => db.select({ x: sql`to_jsonb(${users})` }).from(users)],
    ['by an alias', (db) => db.select({ x: sql`jsonb_agg(u)` }).from(u)],
    ['by an alias as an object', (db) => db.select({ x: sql`row(${u}.*)` }).from(u)],
    ['of a joined table', (db) => db.select({ x: sql`u` }).from(posts).leftJoin(u, eq(u.id, posts.userId))],
    [
      'of a subquery',
      (db) => {
        const q = db.select({ id: users.id, email: users.email }).from(users).as('q')
        return db.select({ x: sql`to_jsonb(q)` }).from(q)
      },
    ],
    ['of a table around it', (db) => db.select({ x: sql`${db.select({ y: sql`users` }).from(posts)}` }).from(users)],
    ['of a table as text', (db) => db.select({ x: sql`x.*` }).from(sql`users x`)],
    ['of a table as text, by its alias', (db) => db.select({ x: sql`to_jsonb(x)` }).from(sql`${users} x`)],
    ['of a query as text', (db) => db.select({ x: sql`q` }).from(sql`(select * from users) q`)],
    ['in another table', (db) => db.insert(posts).values({ id: 1, mail: sql`(select users::text from users)` })],
    ['in an update', (db) => db.update(posts).set({ mail: sql`users::text` }).from(users)],
  ])('is refused where it takes a whole row %s', async (_, run) => refused(run, WHOLE))

  const ORDER = /^users\.email is encrypted: the database cannot sort or group by it$/
  it.each(['2', 'mail', 'users.mail desc', 'lower(mail)', '1, 2', '(2)'])(
    'is refused where rows are sorted or grouped by ciphertext: %s',
    async (raw) => {
      const by = sql.raw(raw)
      const fields = { id: users.id, email: users.email }
      await refused((db) => db.select(fields).from(users).orderBy(by), ORDER)
      await refused((db) => db.select(fields).from(users).orderBy(asc(by)), ORDER)
      await refused((db) => db.select(fields).from(users).groupBy(by), ORDER)
      await refused((db) => db.selectDistinctOn([by], fields).from(users), ORDER)
      await refused((db) => db.query.users.findMany({ orderBy: by }), ORDER)
      await refused((db) => db.query.posts.findMany({ with: { user: { orderBy: by } } } as never), ORDER)
      await refused((db) => db.select(fields).from(users).unionAll(db.select(fields).from(users)).orderBy(by), ORDER)
    },
  )
  it('is refused where it sorts by a number, which a driver may put into the SQL', async () => {
    await refused((db) => db.select({ email: users.email }).from(users).orderBy(sql`${1}`), ORDER)
  })
  it('is refused where a write of another table sorts by it', async () => {
    const eaas = createClient(createTestService())
    const model = eaas.model({ name: 'users', key: 'users', bind: false, format: 'text', fields: { email: text() } })
    const [own, others] = [
      sqliteTable('users', { email: columnOfSqlite() }),
      sqliteTable('others', { note: columnOfSqlite() }),
    ]
    const db = encrypted(
      drizzleOfSqlite(async () => ({ rows: [] })),
      [[own, model]] as never,
    )
    for (const by of [sql`email`, own.email]) {
      const update = db.update(others).set({ note: 'x' }).from(own).orderBy(by)
      await expect((async () => await update)()).rejects.toThrow(ORDER)
    }
  })
  it.each<[string, SQL]>([
    ['a window', sql`row_number() over (order by mail)`],
    ['a window in parts', sql`row_number() over (partition by users.mail)`],
    ['a window of a column', sql`row_number() over (order by ${users.email})`],
    ['different values', sql`count(distinct mail)`],
    ['different values of a column', sql`count(distinct ${users.email})`],
    ['an aggregate', sql`string_agg(city, ',' order by mail)`],
  ])('is refused in %s', (_, x) =>
    refused((db) => db.select({ x }).from(users), /users\.email is encrypted: it cannot be part of an expression/),
  )
  it('is refused in conditions', async () => {
    const message = /users\.email is encrypted/
    await refused((db) => db.select({ id: users.id }).from(users).where(sql`lower(mail) = 'x'`), message)
    await refused((db) => db.update(users).set({ city: 'x' }).where(sql`users.mail = 'x'`), message)
    await refused((db) => db.delete(users).where(sql`mail = 'x'`), message)
    await refused((db) => db.$count(users, sql`mail = 'x'`), message)
    await refused((db) => db.query.users.findMany({ where: sql`mail = 'x'` }), message)
    await refused(
      (db) => db.select({ id: posts.id }).from(posts).leftJoin(users, sql`users.mail = posts.mail`),
      message,
    )
  })

  it.each<[string, (db: Db) => unknown]>([
    ['places of other columns', (db) => db.select({ id: users.id, email: users.email }).from(users).orderBy(sql`1`)],
    ['counts', (db) => db.select({ n: count(), m: sql`count(*)` }).from(users).groupBy(users.city).orderBy(sql`1`)],
    ['other columns', (db) => db.select({ x: sql`upper(city)` }).from(users).orderBy(sql`city`)],
    ['values that look like SQL', (db) => db.select({ x: sql`${'mail'} || ${"it's *"}` }).from(users)],
    [
      'lists of such values',
      (db) =>
        db
          .select({ id: users.id })
          .from(users)
          .where(sql`city in ${['mail', "it's"]}`),
    ],
    ['a column of this name', (db) => db.select({ x: sql`lower(posts.mail)` }).from(posts).leftJoin(u, eq(u.id, 1))],
    ['such a column alone', (db) => db.select({ x: sql`mail` }).from(posts).orderBy(sql`mail`)],
    [
      'such a column of a relation',
      (db) => db.query.users.findMany({ with: { posts: { where: sql`mail = 'x'`, orderBy: sql`mail` } } }),
    ],
    ['rows of another table', (db) => db.select({ x: sql`to_jsonb(posts)` }).from(posts).leftJoin(users, sql`true`)],
    ['a test for null', (db) => db.select({ id: users.id }).from(users).where(sql`mail is not null and city = 'x'`)],
    ['a row of a statement', (db) => db.execute(sql`select id from posts where mail in ${['it', "it's"]}`)],
    ['a replacement', (db) => db.select({ x: sql`replace(users.city, 'a', 'b')` }).from(users)],
    [
      'an inner query of other columns',
      (db) => db.select({ x: sql`(select count(*) from ${users} where ${users.id} = ${posts.userId})` }).from(posts),
    ],
    [
      'a named expression of a subquery',
      (db) => {
        const q = db
          .select({ id: posts.id, low: sql`lower(mail)`.as('low') })
          .from(posts)
          .as('q')
        return db.select({ low: q.low }).from(q).leftJoin(users, eq(users.id, q.id)).orderBy(q.low)
      },
    ],
  ])('is sent where it names %s', async (_, run) => {
    await run(await connect())
    expect(sent).toHaveLength(1)
  })
})
