import { createClient, text } from '@eaas/sdk'
import { createTestService } from '@eaas/sdk/testing'
import { like } from 'drizzle-orm'
import { text as column, integer, pgTable } from 'drizzle-orm/pg-core'
import { drizzle } from 'drizzle-orm/pg-proxy'
import { text as columnOfSqlite, sqliteTable } from 'drizzle-orm/sqlite-core'
import { drizzle as drizzleOfSqlite } from 'drizzle-orm/sqlite-proxy'
import { expect, it } from 'vitest'
import { encrypted } from './index.js'

it('finds the same rows each time that one search is awaited, at once and while the database answers', async () => {
  const users = pgTable('users', {
    id: integer().primaryKey(),
    email: column().notNull(),
    emailStart: column('email_start'),
  })
  const eaas = createClient(createTestService())
  const { id: keyId } = await eaas.keys.create({ name: 'users' })
  const model = eaas.model({
    name: 'users',
    keyId,
    bind: ['id'],
    format: 'text',
    fields: { email: text() },
    indexes: { emailStart: { prefix: 'email', length: 3 } },
  })
  const stored = await model.encryptMany([
    { id: 1, email: 'ada@x.org' },
    { id: 2, email: 'adam@x.org' },
    { id: 3, email: 'ben@x.org' },
  ])
  const sent: string[] = []
  const later: Promise<{ email: string }[]>[] = []
  const driver = drizzle(async (sql, params) => {
    sent.push(sql)
    await new Promise((resolve) => setTimeout(resolve, 10))
    if (later.length === 0) later.push(query.execute())
    const found = stored.filter((row) => !sql.includes('"email_start" =') || params.includes(row.emailStart))
    return { rows: found.map((row) => [row.id, row.email, row.emailStart]) }
  })
  const db = encrypted(driver, [[users, model]])
  const query = db.select().from(users).where(like(users.email, 'ada%')).limit(1)

  const all = [...(await Promise.all([query, query])), ...(await Promise.all(later)), await query]
  expect(all.map((rows) => rows.map(({ email }) => email))).toEqual(Array(4).fill(['ada@x.org']))
  expect(new Set(sent)).toEqual(new Set([expect.stringMatching(/where "users"\."email_start" = \$1$/)]))
  eaas.close()
})

it('takes an escaped wildcard for itself, but on SQLite, where it is none', async () => {
  const eaas = createClient(createTestService())
  const { id: keyId } = await eaas.keys.create({ name: 'users' })
  const of = { name: 'users', keyId, bind: false, format: 'text', fields: { email: text() } } as const
  const model = eaas.model({ ...of, indexes: { start: { prefix: 'email', length: 3 } } })
  const users = pgTable('users', { email: column().notNull(), start: column() })
  const db = encrypted(
    drizzle(async () => ({ rows: [] })),
    [[users, model]],
  )
  expect(await db.select().from(users).where(like(users.email, 'ada\\_%'))).toEqual([])
  const ofSqlite = sqliteTable('users', { email: columnOfSqlite().notNull(), start: columnOfSqlite() })
  const sqlite = encrypted(
    drizzleOfSqlite(async () => ({ rows: [] })),
    [[ofSqlite, model]],
  )
  const search = async () => sqlite.select().from(ofSqlite).where(like(ofSqlite.email, 'ada\\_%'))
  await expect(search()).rejects.toMatchObject({ hint: expect.stringMatching('wildcards and backslashes') })
  eaas.close()
})
