// What the adapter does on SQLite alone: it stores text, reads JSON as text, and has transactions without locks.
import { createClient, text } from '@eaas/sdk'
import { createTestService } from '@eaas/sdk/testing'
import {
  type ExpressionBuilder,
  type Generated,
  type Insertable,
  Kysely,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  sql,
} from 'kysely'
import { jsonArrayFrom as arrayOfMysql } from 'kysely/helpers/mysql'
import { jsonArrayFrom as arrayOfSqlite, jsonObjectFrom as objectOfSqlite } from 'kysely/helpers/sqlite'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { encrypted } from './index.js'

const SECRET = 'ada@secret.example'

interface Database {
  users: { id: number; email: string; email_index: Generated<string>; city: string | null }
  contacts: { id: number; email: string; city: string | null }
}

const eaas = createClient(createTestService())
afterAll(() => eaas.close())
const fields = { email: text({ index: 'email_index' }) }
const users = eaas.model({ name: 'users', key: 'users', bind: ['id'], format: 'text', warn: false, fields })
let db: Kysely<Database>
let sent = ''

describe('Kysely on SQLite', () => {
  const calls: string[] = []
  const stored: Record<string, unknown>[] = []
  let parameters: readonly unknown[] = []
  let columns: object[] = []
  let changed = 1n
  let isBusy = false
  /** Whether the database has no savepoint any more. */
  let hasEnded = false
  const connection = {
    executeQuery: async <R>(query: { sql: string; parameters: readonly unknown[] }) => {
      if (query.sql.includes('pragma_table_info')) return { rows: columns as R[] }
      calls.push(query.sql.split(' ', 1)[0] ?? '')
      if (hasEnded && query.sql.startsWith('rollback')) throw new Error('no such savepoint')
      parameters = query.parameters
      sent = query.sql
      return query.sql.startsWith('select')
        ? { rows: structuredClone(stored) as R[] }
        : { rows: [] as R[], numAffectedRows: changed }
    },
    async *streamQuery<R>() {
      yield { rows: [] as R[] }
    },
  }
  const sqlite = {
    createAdapter: () => new SqliteAdapter(),
    createQueryCompiler: () => new SqliteQueryCompiler(),
    createIntrospector: (database: Kysely<unknown>) => new SqliteIntrospector(database),
    createDriver: () => ({
      init: async () => undefined,
      releaseConnection: async () => undefined,
      destroy: async () => undefined,
      acquireConnection: async () => connection,
      beginTransaction: async () => {
        if (isBusy) throw new Error('the database is locked')
        calls.push('begin')
      },
      commitTransaction: async () => void calls.push('commit'),
      rollbackTransaction: async () => void calls.push('rollback'),
    }),
  }
  beforeEach(() => {
    calls.length = 0
    columns = []
    stored.splice(0, stored.length, { id: 7 })
    db = new Kysely<Database>({ dialect: encrypted(sqlite, { users }) })
  })

  it('refuses a model that stores JSON', () => {
    const stored = eaas.model({ name: 'users', key: 'users', bind: ['id'], fields: { email: text() } })
    expect(() => encrypted(sqlite, { users: stored })).toThrow(
      'users.email would be stored as an object, which drivers of SQLite do not take',
    )
  })
  it.each(['007', '7D444840-9DC0-11D1-B245-5FFDCE74FAD2', 7])(
    'stores the id %s as it is in a column of text, and refuses what another column would change',
    async (id) => {
      const insert = db.insertInto('users').values({ id, email: SECRET } as never)
      if (id !== 7) await expect(insert.execute()).rejects.toThrow('users.id must have the spelling')
      columns = [{ name: 'id' }]
      await insert.execute()
      expect(parameters[0]).toBe(String(id))
    },
  )
  it('refuses an encrypted column that is named with its table', async () => {
    const named = { 'users.email': SECRET } as never
    for (const query of [
      db.updateTable('users').set(named).where('id', '=', 7),
      db.insertInto('users').values({ ...(named as object), id: 7 } as never),
    ]) {
      await expect(query.execute()).rejects.toThrow('"users.email" is not a column')
    }
    expect(calls).toEqual([])
  })
  it('opens JSON of a query inside, and takes out what is selected for it', async () => {
    const { email } = await users.encrypt({ id: 7, email: SECRET })
    const json = JSON.stringify({ email, eaas_bound_0: 7 })
    stored.splice(0, 1, { all: `[${json}]`, other: [JSON.parse(json)], one: json, none: null })
    const inner = (eb: ExpressionBuilder<Database, 'contacts'>) => eb.selectFrom('users').select('email')
    const found = await db
      .selectFrom('contacts')
      .select((eb) => [
        arrayOfSqlite(inner(eb)).as('all'),
        arrayOfMysql(inner(eb)).as('other'), // whose driver returns it as an object
        objectOfSqlite(inner(eb)).as('one'),
        objectOfSqlite(inner(eb)).as('none'),
      ])
      .execute()
    expect(found).toEqual([
      { all: [{ email: SECRET }], other: [{ email: SECRET }], one: { email: SECRET }, none: null },
    ])
    expect(sent).toContain(
      `json_group_array(json_object('email', "agg"."email", 'eaas_bound_0', "agg"."eaas_bound_0"))`,
    )
    expect(sent).toContain(`json_object('email', "obj"."email", 'eaas_bound_0', "obj"."eaas_bound_0")`)
  })

  it('rolls an update back that changed other rows than it found', async () => {
    const update = () => db.updateTable('users').set({ email: SECRET }).where('city', '=', 'London').execute()
    changed = 2n
    await expect(update()).rejects.toMatchObject({
      message: expect.stringContaining('users: 2 rows, and not 1, have'),
    })
    changed = 1n
    await update()
    expect(calls).toEqual(['begin', 'select', 'update', 'rollback', 'begin', 'select', 'update', 'commit'])
  })
  it.each([false, true])(
    'takes back what fails in a transaction that goes on, and says why also where that has ended: %s',
    async (ended) => {
      changed = 2n
      hasEnded = ended
      await db.transaction().execute(async (inner) => {
        const update = inner.updateTable('users').set({ email: SECRET }).where('city', '=', 'London')
        await expect(update.execute()).rejects.toThrow('users: 2 rows, and not 1, have')
      })
      changed = 1n
      hasEnded = false
      expect(calls).toEqual(['begin', 'savepoint', 'select', 'update', 'rollback', 'commit'])
    },
  )
  it('takes no transaction for open that could not be begun', async () => {
    isBusy = true
    await expect(db.transaction().execute(async () => undefined)).rejects.toThrow('locked')
    isBusy = false
    await db.updateTable('users').set({ email: SECRET }).where('city', '=', 'London').execute()
    expect(calls).toEqual(['begin', 'select', 'update', 'commit'])
  })
  it.each(['commit', 'end', 'rollback;', 'commit and no chain'])(
    'has a transaction of its own after %s',
    async (end) => {
      const change = (on: Kysely<Database>) =>
        on.updateTable('users').set({ email: SECRET }).where('city', '=', 'London').execute()
      await db.connection().execute(async (on) => {
        await sql`begin immediate`.execute(on)
        await change(on)
        for (const text of ['rollback to s', 'commit and chain']) await sql.raw(text).execute(on)
        calls.length = 0
        await change(on)
        await sql.raw(end).execute(on)
        await change(on)
      })
      const within = ['savepoint', 'select', 'update', 'release']
      expect(calls).toEqual([...within, end.split(' ', 1)[0], 'begin', 'select', 'update', 'commit'])
    },
  )
  it('refuses to take a default of the row that was to be inserted, for which an update has no word', async () => {
    const insert = db.insertInto('users').values({ id: 8, email: SECRET } as Insertable<Database['users']>)
    const upsert = insert.onConflict((on) =>
      on.column('email').doUpdateSet((eb) => ({ email: eb.ref('excluded.email'), city: eb.ref('excluded.city') })),
    )
    await expect(upsert.execute()).rejects.toMatchObject({
      message: expect.stringContaining('excluded.city in an upsert whose row must be read before'),
    })
    expect(calls).toEqual(['begin', 'select', 'rollback'])
  })
})
