// What the adapter does otherwise by the kind of the database. What is of SQLite alone is in sqlite.test.ts.
import { createClient, text } from '@eaas/sdk'
import { createTestService } from '@eaas/sdk/testing'
import {
  type Generated,
  Kysely,
  MssqlAdapter,
  MssqlQueryCompiler,
  MysqlAdapter,
  MysqlQueryCompiler,
  PostgresAdapter,
  PostgresQueryCompiler,
  type SelectQueryBuilder,
  SqliteAdapter,
  SqliteQueryCompiler,
} from 'kysely'
import { afterAll, describe, expect, it } from 'vitest'
import { recordDialect } from '../../../test/orm/recording-dialect.js'
import { encrypted } from './index.js'

const SECRET = 'ada@secret.example'

interface Database {
  users: { id: number; email: string; email_index: Generated<string>; city: string | null }
}
interface Logs {
  logs: { id: number; fault: string; start: Generated<string> }
}
type Search = SelectQueryBuilder<Logs, 'logs', object>

const eaas = createClient(createTestService())
afterAll(() => eaas.close())
const indexes = { start: { prefix: 'fault', length: 3 } } as const
const logs = eaas.model({
  name: 'logs',
  key: 'logs',
  bind: ['id'],
  format: 'text',
  warn: false,
  fields: { fault: text() },
  indexes,
})

describe('Kysely', () => {
  it.each<[string, (query: Search) => Search]>([
    ['fetch', (query) => query.fetch(1)],
    ['top', (query) => query.top(1)],
  ])('refuses %s, which would cut rows off before they are filtered', async (name, cut) => {
    const { dialect, sent } = recordDialect()
    const db = new Kysely<Logs>({ dialect: encrypted(dialect, { logs }) })
    const search = db.selectFrom('logs').select(['id', 'fault']).where('fault', 'like', 'Pump%').orderBy('id')
    await expect(cut(search).execute()).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      message: `${name} of a search that finds more rows than match is not supported where fields are encrypted`,
    })
    expect(sent).toEqual([])
  })
  it.each([
    [PostgresAdapter, true],
    [MysqlAdapter, true],
    [SqliteAdapter, false],
    [MssqlAdapter, false],
  ])('takes an escaped wildcard for itself where the database does: %o, %s', async (Adapter, escapes) => {
    const { dialect, sent } = recordDialect(Adapter)
    const db = new Kysely<Logs>({ dialect: encrypted(dialect, { logs }) })
    const search = db.selectFrom('logs').select(['id', 'fault']).where('fault', 'like', 'Pump\\_%').execute()
    if (escapes) expect(await search).toEqual([])
    else await expect(search).rejects.toMatchObject({ hint: expect.stringMatching('wildcards and backslashes') })
    expect(sent).toHaveLength(escapes ? 1 : 0)
  })
  it.each([
    [PostgresAdapter, PostgresQueryCompiler, 'insert into "notes" ("id", "note") values ($1, $2), ($3, $4)'],
    [MysqlAdapter, MysqlQueryCompiler, 'insert into `notes` (`id`, `note`) values (?, ?), (?, ?)'],
    [SqliteAdapter, SqliteQueryCompiler, 'insert into "notes" ("id", "note") values (?, ?), (?, ?)'],
    [MssqlAdapter, MssqlQueryCompiler, 'insert into "notes" ("id", "note") values (@1, @2), (@3, @4)'],
  ])('writes null for an absent field by %o, which the database would fill', async (Adapter, Compiler, expected) => {
    const fields = { note: text().optional() }
    const notes = eaas.model({ name: 'notes', key: 'notes', bind: false as const, format: 'text', fields })
    const { dialect, sent } = recordDialect(Adapter, Compiler)
    const db = new Kysely<{ notes: { id: number; note?: string } }>({ dialect: encrypted(dialect, { notes }) })
    await db
      .insertInto('notes')
      .values([{ id: 7 }, { id: 8, note: 'x' }])
      .execute()
    expect(sent.map((one) => JSON.parse(one) as unknown)).toEqual([
      [expected, [7, null, 8, expect.stringMatching(/^eaas\.2\./)]],
    ])
  })
  it('sends JSON as text to MySQL, whose drivers write an object otherwise', async () => {
    const fields = { note: text().nullable(), 'profile.email': text() }
    const notes = eaas.model({ name: 'notes', key: 'notes', bind: ['id'], warn: false, fields })
    const { dialect, sent } = recordDialect(MysqlAdapter, MysqlQueryCompiler)
    type Notes = { notes: { id: number; note: string | null; profile: { email: string; city?: string } } }
    const db = new Kysely<Notes>({ dialect: encrypted(dialect, { notes: notes as never }) })
    const profile = { email: SECRET, city: 'Rome' }
    await db.insertInto('notes').values({ id: 7, note: SECRET, profile }).execute()
    await db.updateTable('notes').set({ note: SECRET, profile }).where('id', '=', 7).execute()
    await db.updateTable('notes').set({ note: null }).where('id', '=', 7).execute()
    const envelope = expect.objectContaining({ ciphertext: expect.any(String) })
    const written = { note: envelope, profile: { city: 'Rome', email: envelope } }
    const values = (at: number, from: number) =>
      ((JSON.parse(sent[at] ?? '') as [string, string[]])[1].slice(from, from + 2) as string[]).map((one) =>
        JSON.parse(one),
      )
    expect(values(0, 1)).toEqual(Object.values(written))
    const at = sent.findIndex((one) => one.includes('update'))
    expect(values(at, 0)).toEqual(Object.values(written))
    expect(JSON.parse(sent.at(-1) ?? '')).toEqual(['update `notes` set `note` = ? where `id` = ?', [null, 7]])
  })
  it('locks what it reads on SQL Server, and changes of many rows as many as `top` says', async () => {
    const fields = { email: text({ index: 'email_index' }) }
    const users = eaas.model({ name: 'users', key: 'users', bind: ['id'], warn: false, fields })
    const { dialect, sent, rows } = recordDialect(MssqlAdapter, MssqlQueryCompiler)
    rows.push({ id: 7 })
    const db = new Kysely<Database>({ dialect: encrypted(dialect, { users: users as never }) })
    const change = (on: Kysely<Database>) =>
      on.updateTable('users').top(1).set({ email: SECRET }).where('city', '=', 'London').execute()
    const statements = () => sent.splice(0).map((one) => (JSON.parse(one) as string[])[0])
    await change(db)
    const expected = [
      'select top(1) "users"."id" from "users" as "users" with (updlock) where "city" = @1 order by "users"."id"',
      'update "users" set "email" = @1, "email_index" = @2 where "users"."id" = @3',
    ]
    expect(statements()).toEqual(expected)
    await db.transaction().execute(change)
    expect(statements()).toEqual(['save transaction eaas_write', ...expected])
  })
})
