import { createClient, text } from '@eaas/sdk'
import { createTestService } from '@eaas/sdk/testing'
import { eq } from 'drizzle-orm'
import { text as column, integer, type PgTable, pgTable, serial } from 'drizzle-orm/pg-core'
import { drizzle } from 'drizzle-orm/pg-proxy'
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
