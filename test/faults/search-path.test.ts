// Where names of tables lead in a session, and what else of it somebody can change: nothing that somebody sets for the role, makes in the session
// or changes in it has a server read other tables.
import { describe, expect, it } from 'vitest'
import { ChangedSessionError, createSessionWatch } from '../../packages/server/src/guard/store/session-watch.js'
import { backend, freshDatabase, isPooled } from '../support/database/database.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { asOwner } from '../support/service/eaas-process.js'
import { startServer } from '../support/service/server.js'
import { startService } from '../support/service/service.js'

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

  it.skipIf(isPooled()).each([
    ['where names lead', 'set search_path = other, public'],
    ['whose rights it uses', 'set role pg_monitor'],
    ['which triggers run', 'set session_replication_role = replica'],
    ['what a prepared statement does', 'prepare meddle as select 1'],
  ])('is noticed when it was changed, and does not last: %s', async (_, change) => {
    const service = await startService()
    const { sql } = service.services
    await sql.unsafe(OTHER)
    const assertSessions = createSessionWatch({ sql, isEmbedded: backend() === 'embedded' })
    await assertSessions()
    const changeOne = () => sql.begin((session) => session.unsafe(`${change}; select pg_sleep(0.1)`))
    await Promise.all(Array.from({ length: backend() === 'embedded' ? 1 : 3 }, changeOne))
    await expect(assertSessions()).rejects.toThrow(ChangedSessionError)
    // A session that was just ended may fail a statement first.
    await expect.poll(() => assertSessions().then(() => 'unchanged', String)).toBe('unchanged')
    expect(
      await sql`
        select current_setting('search_path') as path, current_user = session_user as is_own,
               current_setting('session_replication_role') as triggers, (select count(*)::integer from pg_prepared_statements where from_sql) as prepared`,
    ).toEqual([{ path: 'public, pg_temp', is_own: true, triggers: 'origin', prepared: 0 }])
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
it.skipIf(backend() === 'embedded' || isPooled()).each([
  ['where names lead', "perform set_config('search_path', 'other, public', false)"],
  [
    'what a prepared statement does',
    `for name in select s.name from pg_prepared_statements as s where not from_sql limit 1 loop
       execute format('deallocate %I', name);
       execute format('prepare %I as select 1', name);
     end loop`,
  ],
])(
  'a server reports what a trigger changed in one of its sessions, after the trigger is gone: %s',
  async (_, change) => {
    const { database, api_key } = await databaseWithTenant()
    const server = await startServer({ database })
    try {
      await asOwner(database, (sql) =>
        sql.unsafe(`
        ${OTHER};
        create function meddle() returns trigger language plpgsql as $$ declare name text; begin
          ${change};
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
      await expect.poll(() => server.log).toContain('somebody changed a session of this server')
    } finally {
      await server.stop()
    }
  },
)
