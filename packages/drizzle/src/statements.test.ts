import { createClient, text } from '@eaas/sdk'
import { createTestService } from '@eaas/sdk/testing'
import { type SQL, sql } from 'drizzle-orm'
import { text as column, jsonb, pgTable, QueryBuilder, uuid } from 'drizzle-orm/pg-core'
import { drizzle } from 'drizzle-orm/pg-proxy'
import { drizzle as drizzleSync } from 'drizzle-orm/sql-js'
import { integer, sqliteTable, text as textColumn } from 'drizzle-orm/sqlite-core'
import { beforeEach, describe, expect, it } from 'vitest'
import { encrypted } from './index.js'

interface Session {
  execute(statement: SQL): unknown
  prepareQuery(query: { sql: string; params: unknown[] }): unknown
}
/** Drizzle keeps it from its types. */
const sessionOf = (database: object) => (database as { session: Session }).session

const users = pgTable('users', {
  id: uuid().primaryKey(),
  email: jsonb('mail').$type<string>().notNull(),
  emailIndex: column('email_index'),
  city: column(),
})

describe('a statement of SQL as text', () => {
  const sent: string[] = []
  const connect = async () => {
    const eaas = createClient(createTestService())
    const { id: keyId } = await eaas.keys.create({ name: 'users' })
    const model = eaas.model({ name: 'users', keyId, bind: ['id'], fields: { email: text({ index: 'emailIndex' }) } })
    const driver = drizzle(async (query) => {
      sent.push(query)
      return { rows: [] }
    })
    return encrypted(driver, [[users, model]])
  }
  beforeEach(() => {
    sent.length = 0
  })

  it.each([
    ['that inserts into the table', sql`insert into ${users} values (${'7'}, ${'ada'})`],
    ['that names a sealed column', sql`select id from ${users} where ${users.email} = ${'ada'}`],
    ['in a string', "update users set city = 'ada'"],
    ['of parts', sql.join([sql.raw('delete from '), sql.identifier('users'), sql.raw(" where mail = 'ada'")])],
  ])('is refused %s', async (_, statement) => {
    const db = await connect()
    const run = async () => db.execute(statement)
    await expect(run()).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      message:
        'SQL as text that writes the table users, or names an encrypted column or * of it, is not supported where fields are encrypted',
    })
    expect(sent).toEqual([])
  })
  const WRITE = sql`update users set mail = ${'ada'} returning id`
  it.each<[string, (db: Awaited<ReturnType<typeof connect>>) => unknown]>([
    ['after a name with an apostrophe', (db) => db.execute(sql`with a as (select 1 as "it's") ${WRITE}`)],
    ['with escapes in its names', (db) => db.execute(sql.raw('update U&"\\0075sers" set U&"\\006dail" = $1'))],
    ['by an identifier with a quote', (db) => db.execute(sql`with ${sql.identifier('a"')} as (select 1) ${WRITE}`)],
    ['in `$with`', (db) => db.$with('q', { id: sql<number>`id`.as('id') }).as(WRITE)],
    ['in `$with`, by a function', (db) => db.$with('q', { id: sql<number>`id`.as('id') }).as(() => WRITE as never)],
    [
      'in `with` of another builder',
      (db) => {
        const q = new QueryBuilder().$with('q', { id: sql<number>`id`.as('id') }).as(WRITE)
        return db.with(q).select().from(q)
      },
    ],
    ['by its session', (db) => sessionOf(db).execute(WRITE)],
    ['by the session in `_`', (db) => sessionOf(db._).execute(WRITE)],
    [
      'that its session prepares',
      (db) => sessionOf(db).prepareQuery({ sql: "update users set mail = 'ada'", params: [] }),
    ],
  ])('is refused %s', async (_, run) => {
    const db = await connect()
    await expect((async () => run(db))()).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    expect(sent).toEqual([])
  })
  it('is executed where it names nothing encrypted', async () => {
    const db = await connect()
    await db.execute(sql`select count(*) from ${users} where city = ${'mail'}`)
    expect(sent).toEqual(['select count(*) from "users" where city = $1'])
  })
})

describe('a transaction of a driver that runs each query at once', () => {
  const people = sqliteTable('people', { id: integer().primaryKey(), email: textColumn().notNull() })
  const towns = sqliteTable('towns', { id: integer().primaryKey() })
  const sent: string[] = []
  const connect = async () => {
    sent.length = 0
    const eaas = createClient(createTestService())
    const { id: keyId } = await eaas.keys.create({ name: 'people' })
    const model = eaas.model({ name: 'people', keyId, bind: ['id'], format: 'text', fields: { email: text() } })
    const prepare = (query: string) => ({ run: () => void sent.push(query), free: () => undefined })
    return encrypted(drizzleSync({ prepare } as never), [[people, model]])
  }
  type Inner = Parameters<Parameters<Awaited<ReturnType<typeof connect>>['transaction']>[0]>[0]
  const row = { id: 7, email: 'ada@example.org' }
  const WAITS = 'a transaction that waits, by a driver that cannot,'

  it.each<[title: string, run: (tx: Inner) => unknown, call: string, sent: string[]]>([
    ['that is an async function', async (tx) => tx.insert(towns).values({ id: 1 }).run(), WAITS, []],
    ['that returns a query', (tx) => tx.select().from(people), WAITS, ['begin', 'rollback']],
    [
      'that writes an encrypted table',
      (tx) => tx.insert(people).values(row).run(),
      'a write of people in a transaction of a driver that cannot wait',
      ['begin', 'rollback'],
    ],
    ['that reads one', (tx) => tx.select().from(people).all(), 'all() of such a query', ['begin', 'rollback']],
  ])('is refused %s', async (_, run, call, expected) => {
    const db = await connect()
    expect(() => db.transaction(run)).toThrow(
      expect.objectContaining({
        message: `${call} is not supported where fields are encrypted`,
        hint: expect.stringContaining('encrypt the rows before, by `encrypt` of the model'),
      }),
    )
    expect(sent).toEqual(expected)
  })
  it('takes what is not encrypted', async () => {
    const db = await connect()
    db.transaction((tx) => tx.insert(towns).values({ id: 1 }).run())
    await db.insert(people).values(row)
    expect(sent).toEqual([
      'begin',
      'insert into "towns" ("id") values (?)',
      'commit',
      expect.stringContaining('people'),
    ])
  })
})
