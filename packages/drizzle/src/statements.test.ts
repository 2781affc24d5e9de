import { createClient, text } from '@eaas/sdk'
import { createTestService } from '@eaas/sdk/testing'
import { sql } from 'drizzle-orm'
import { text as column, jsonb, pgTable, uuid } from 'drizzle-orm/pg-core'
import { drizzle } from 'drizzle-orm/pg-proxy'
import { beforeEach, describe, expect, it } from 'vitest'
import { encrypted } from './index.js'

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
      message: 'SQL as text that names the table users is not supported where fields are encrypted',
    })
    expect(sent).toEqual([])
  })
  it('is executed where it names nothing encrypted', async () => {
    const db = await connect()
    await db.execute(sql`select count(*) from ${users} where city = ${'mail'}`)
    expect(sent).toEqual(['select count(*) from "users" where city = $1'])
  })
})
