// Where names of tables lead in a session: nothing that somebody sets for the role, makes in the session or changes in it has a server read other tables.
import type postgres from 'postgres'
import { describe, expect, it } from 'vitest'
import { ChangedSearchPathError, createSearchPathWatch } from '../../packages/server/src/store/search-path.js'
import { backend, freshDatabase, isPooled, type TestDatabase } from '../support/database.js'
import { connectTo, createTenantInProcess } from '../support/eaas-process.js'
import { startServer } from '../support/server.js'
import { startService } from '../support/service.js'

async function asOwner<T>(database: TestDatabase, work: (sql: postgres.Sql) => Promise<T>): Promise<T> {
  const sql = connectTo(database)
  try {
    return await work(sql)
  } finally {
    await sql.end()
  }
}

const OTHER = 'create schema other; create table other.heads (like public.heads including all)'

describe('a session of a server', () => {
  it.skipIf(isPooled())('finds its own table when a temporary one has the name', async () => {
    const service = await startService()
    await service.createTenant()
    const { sql } = service.services
    const found = sql.begin(async (session) => {
      await session`create temporary table heads (like public.heads) on commit drop`
      throw await session`select 1 from heads` // rolls back
    })
    expect(await found.catch((rows: unknown) => rows)).not.toHaveLength(0)
    await service.close()
  })

  it.skipIf(isPooled())('is noticed when it was changed, and does not last', async () => {
    const service = await startService()
    const { sql } = service.services
    await sql.unsafe(OTHER)
    const assertSearchPath = createSearchPathWatch({ sql, isEmbedded: backend() === 'embedded' })
    await assertSearchPath()
    const all = Array.from({ length: 3 }, (_, at) => at)
    const change = () =>
      sql.begin((session) => session`select set_config('search_path', 'other, public', false), pg_sleep(0.1)`)
    await Promise.all(all.map(change))
    await expect(assertSearchPath()).rejects.toThrow(ChangedSearchPathError)
    // A session that was just ended may fail a statement first.
    await expect.poll(() => assertSearchPath().then(() => 'unchanged', String)).toBe('unchanged')
    expect(await sql`select current_setting('search_path') as path`).toEqual([{ path: 'public, pg_temp' }])
    await service.close()
  })

  it.skipIf(isPooled() || backend() === 'embedded')('begins with the schema of the tables', async () => {
    const database = await freshDatabase('path', { migrated: true })
    await asOwner(database, async (sql) => {
      const [row] = await sql<{ name: string }[]>`select quote_ident(current_database()) as name`
      await sql.unsafe(`${OTHER}; alter database ${row?.name} set search_path = other, public`)
    })
    const service = await startService({ database })
    await service.createTenant()
    expect(await service.services.sql`select current_schemas(true)::text[] as schemas`).toEqual([
      { schemas: ['pg_catalog', 'public'] },
    ])
    await service.close()
  })
})

// A pooler chooses which of its sessions a server sees, and when.
it.skipIf(backend() === 'embedded' || isPooled())(
  'a server reports what a trigger changed in one of its sessions, after the trigger is gone',
  async () => {
    const database = await freshDatabase('path', { migrated: true })
    const { api_key } = await createTenantInProcess({ database }, 'acme')
    const server = await startServer({ database })
    try {
      await asOwner(database, (sql) =>
        sql.unsafe(`
        ${OTHER};
        create function meddle() returns trigger language plpgsql as $$ begin
          perform set_config('search_path', 'other, public', false);
          return new;
        end $$;
        create trigger meddle before insert on audit_log for each row execute function meddle()`),
      )
      await fetch(`${server.url}/v1/keys`, {
        method: 'POST',
        headers: { authorization: `Bearer ${api_key.secret}`, 'content-type': 'application/json' },
        body: JSON.stringify({ name: 'k' }),
      })
      await asOwner(database, (sql) => sql.unsafe('drop function meddle() cascade'))
      await expect.poll(() => server.log).toContain('where names of tables lead')
    } finally {
      await server.stop()
    }
  },
)
