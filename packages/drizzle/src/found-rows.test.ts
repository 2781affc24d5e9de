import { createClient, text } from '@eaas/sdk'
import { createTestService } from '@eaas/sdk/testing'
import { eq } from 'drizzle-orm'
import { text as column, integer, pgTable } from 'drizzle-orm/pg-core'
import { drizzle } from 'drizzle-orm/pg-proxy'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { encrypted } from './index.js'

const people = pgTable('people', { id: integer().primaryKey(), owner: column().notNull(), email: column().notNull() })

let close: () => void
let sent: string[]
let connect: (bind: false | ['id']) => ReturnType<typeof drizzle>

beforeEach(async () => {
  const eaas = createClient(createTestService())
  close = () => eaas.close()
  sent = []
  const driver = drizzle(async (sql) => {
    sent.push(sql)
    return { rows: [] }
  })
  connect = (bind) => {
    const fields = { email: text() }
    const model = eaas.model({
      name: 'people',
      keyId: (row: { owner?: string }) => row.owner,
      bind,
      format: 'text',
      fields,
    } as never)
    return encrypted(driver, [[people, model]] as never) as never
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
