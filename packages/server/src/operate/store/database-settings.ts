/** What doctor examines in the database: rights, encryption, clock, standbys, limits, and whether it accepts an entry. */
import { INSTALLATION_ID } from '@eaas/protocol'
import { NIL_UUID } from '../../core/store/audit.js'
import { hasTable, type Queryable, type Sql } from '../../core/store/db.js'
import { ROLLED_BACK } from '../../core/store/writability.js'

export async function isSuperuser(sql: Queryable): Promise<boolean> {
  const [row] = await sql<{ is_superuser: string }[]>`
    select pg_catalog.current_setting('is_superuser') as is_superuser`
  return row?.is_superuser === 'on'
}

export async function mayCreateTables(sql: Queryable): Promise<boolean> {
  const [row] = await sql<{ may: boolean }[]>`
    select coalesce(pg_catalog.has_schema_privilege(pg_catalog.current_schema(), 'create'), false) as may`
  return row?.may ?? false
}

interface EntryRights {
  role: string
  /** whether this role may change audit entries, or may give itself the right to, as the owner of their table */
  may_change: boolean
  may_delete: boolean // whether it may delete them, as a purge does
}

export async function findEntryRights(sql: Queryable): Promise<EntryRights> {
  const [row] = await sql<EntryRights[]>`
    select current_user::text as role, pg_catalog.has_table_privilege(oid, 'delete') as may_delete,
           pg_catalog.has_table_privilege(oid, 'update') or pg_catalog.pg_has_role(relowner, 'member') as may_change
    from pg_class where oid = pg_catalog.to_regclass('audit_log')`
  if (!row) throw new Error('the database has no table audit_log')
  return row
}

/** The version of TLS on this connection to the database, such as `TLSv1.3`; undefined without encryption. */
export async function findEncryption(sql: Queryable): Promise<string | undefined> {
  const [row] = await sql<{ version: string | null }[]>`
    select version from pg_catalog.pg_stat_ssl where pid operator(pg_catalog.=) pg_catalog.pg_backend_pid() and ssl`
  return row?.version ?? undefined
}

interface DatabaseClock {
  database_now: string
  newest_entry: string | null // the time of the newest audit entry of all tenants
  ahead: string[] // the logs whose newest entry is later than `time`, the latest first, by their tenants' names
}

/** The time of the database's clock, and the logs with entries later than `time`. */
export async function findClock(sql: Queryable, time: string): Promise<DatabaseClock> {
  const [row] = (await hasTable(sql, 'heads'))
    ? await sql<DatabaseClock[]>`
        select pg_catalog.now() as database_now, (select pg_catalog.max(created_at) from heads) as newest_entry,
               (select coalesce(pg_catalog.array_agg(l.name order by h.created_at desc), '{}')
                from heads h left join tenants t on t.tenant_id = h.tenant_id
                cross join lateral (select case when h.tenant_id = ${INSTALLATION_ID} then 'the installation''s own log'
                                                else coalesce(t.name, h.tenant_id::text) end) as l (name)
                where h.created_at > ${time}) as ahead`
    : await sql<DatabaseClock[]>`
        select pg_catalog.now() as database_now, null::timestamptz as newest_entry, '{}'::text[] as ahead`
  if (!row) throw new Error('the database did not return its time')
  return row
}

/** Returns `synchronous_standby_names` if commits wait for a standby and none is connected; otherwise undefined. */
export async function findMissingStandby(sql: Queryable): Promise<string | undefined> {
  const [row] = await sql<{ names: string; waits: boolean; connected: number }[]>`
    select pg_catalog.current_setting('synchronous_standby_names') as names,
           pg_catalog.current_setting('synchronous_commit') not in ('off', 'local') as waits,
           (select pg_catalog.count(*)::integer from pg_stat_replication) as connected`
  return row && row.names !== '' && row.waits && row.connected === 0 ? row.names : undefined
}

export async function findMissingLimits(sql: Queryable): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select name from pg_settings
    where name in ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout') and setting = '0'
    order by name`
  return rows.map(({ name }) => name)
}

/** Writes an audit entry of no tenant into table and index, and rolls it back. @throws the database's own error */
export async function tryWrite(sql: Sql): Promise<void> {
  const tried = sql.begin(async (transaction) => {
    await transaction`
      insert into audit_log (tenant_id, id, action, actor, created_at, hash, mac)
      values (${NIL_UUID}, 0, 'probe', 'system', pg_catalog.now(), '', '')`
    throw ROLLED_BACK
  })
  await tried.catch((error: unknown) => {
    if (error !== ROLLED_BACK) throw error
  })
}
