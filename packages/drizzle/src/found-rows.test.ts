import { createClient, text } from '@eaas/sdk'
import { createTestService } from '@eaas/sdk/testing'
import { eq, sql } from 'drizzle-orm'
import { text as column, integer, type PgTable, pgTable, serial } from 'drizzle-orm/pg-core'
import { drizzle } from 'drizzle-orm/pg-proxy'
import { text as columnOfSqlite, integer as integerOfSqlite, sqliteTable } from 'drizzle-orm/sqlite-core'
import { drizzle as drizzleOfSqlite } from 'drizzle-orm/sqlite-proxy'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { encrypted } from './index.js'

const people = pgTable('people', { id: integer().primaryKey(), owner: column().notNull(), email: column().notNull() })

let close: () => void
let sent: string[]
let connect: (bind: false | ['id'], table?: PgTable) => ReturnType<typeof drizzle>

beforeEach(async () => {
  const eaas = createClient(createTestService())
  close = () => eaas.close()
  sent = []
  const driver = drizzle(async (sql) => {
    sent.push(sql)
    return { rows: [] }
  })
  connect = (bind, table = people) => {
    const fields = { email: text() }
    const model = eaas.model({
      name: 'people',
      keyId: (row: { owner?: string }) => row.owner,
      bind,
      format: 'text',
      fields,
    } as never)
    return encrypted(driver, [[table, model]] as never) as never
  }
})
afterEach(() => close())

describe('a write whose rows must be read before', () => {
  it('is refused before anything is sent if nothing is bound, by which they are found again', async () => {
    const update = connect(false).update(people).set({ email: 'ada@x.org' })
    await expect(async () => update).rejects.toThrow('`bind: false` leaves no column by which they are found again')
    expect(sent.filter((sql) => /people/.test(sql))).toEqual([])
  })

  it('is refused with a common table expression', async () => {
    const db = connect(['id'])
    const some = db.$with('some').as(db.select({ id: people.id }).from(people).where(eq(people.owner, 'ada')))
    const update = async () => db.with(some).update(people).set({ email: 'ada@x.org' })
    await expect(update).rejects.toThrow('with() of a write of people whose rows must be read before')
    expect(sent).toEqual([])
  })
})

it('an insert whose id the database makes is refused with a common table expression', async () => {
  const made = pgTable('people', { id: serial().primaryKey(), owner: column().notNull(), email: column().notNull() })
  const db = connect(['id'], made)
  const some = db.$with('some').as(db.select({ id: made.id }).from(made))
  const insert = async () => db.with(some).insert(made).values({ owner: 'ada', email: 'ada@x.org' })
  await expect(insert).rejects.toThrow('with() of an insert into people whose id the database makes')
  expect(sent).toEqual([])
})

it('an upsert on SQLite takes no default of the row to insert, for which an update has no word', async () => {
  const eaas = createClient(createTestService())
  const { id: keyId } = await eaas.keys.create({ name: 'guests' })
  const fields = { email: text({ index: 'emailIndex' }) }
  const model = eaas.model({ name: 'guests', keyId, bind: ['id'], format: 'text', fields })
  const guests = sqliteTable('guests', {
    id: integerOfSqlite().primaryKey(),
    email: columnOfSqlite().notNull(),
    emailIndex: columnOfSqlite('email_index').unique(),
    city: columnOfSqlite().default('Oslo'),
  })
  const driver = drizzleOfSqlite(async (text, _, method) => {
    sent.push(text)
    return { rows: text.startsWith('select') ? [[7]] : method === 'get' ? undefined : [] } as { rows: unknown[] }
  })
  const db = encrypted(driver, [[guests, model]])
  const upsert = (row: { city?: string }) => {
    const set = { email: sql`excluded.email`, emailIndex: sql`excluded.email_index`, city: sql`excluded.city` }
    const insert = db.insert(guests).values({ id: 8, email: 'ada@x.org', emailIndex: undefined as never, ...row })
    return insert.onConflictDoUpdate({ target: guests.email, set })
  }
  await upsert({ city: 'Rome' })
  expect(sent.at(-2)).toMatch(/^update .* set "email" = \?, "email_index" = \?, "city" = \? where/)
  await expect(async () => upsert({})).rejects.toThrow('excluded.city in an upsert whose row must be read before')
  eaas.close()
})
