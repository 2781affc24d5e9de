// Erases what destroyed keys leave in the database's files: earlier versions of rows, which stay in the tables until a
// vacuum, and in the write-ahead log until its files are removed.
import { setTimeout as sleep } from 'node:timers/promises'
import { INSTALLATION_ID } from '@eaas/protocol'
import { type Queryable, type Sql, withoutLimits } from '../../core/store/db.js'

const TABLES = ['keys', 'key_versions', 'store_keys']

const COUNTED_MS = 2_000 // in milliseconds, how long after a vacuum its counts may come

export interface Erasure {
  // `unchanged`: nothing was destroyed since this process's last erasure; `held`: an older session may still read
  // earlier versions of rows, or another one vacuums
  outcome: 'erased' | 'unchanged' | 'not permitted' | 'held'
  versions: number // how many key versions and store keys are destroyed
}

/** For a role that may not vacuum the tables: the fault, and what to do. */
export const MAY_NOT_VACUUM =
  'this role may not vacuum keys, key_versions and store_keys, where destroyed keys leave their sealed secrets until that is done. Have the owner of the ' +
  'tables run regularly: vacuum keys, key_versions, store_keys'

export const HELD =
  'the tables may still hold what destroyed keys left, because a transaction that began before is open (pg_stat_activity, pg_prepared_xacts, ' +
  'pg_replication_slots) or another process vacuums them; it is tried again every minute'

/** Call it periodically. */
export type Erase = () => Promise<Erasure>

/** The first call also erases after a crash between a destruction and its erasure. */
export function createErasure({ sql, isEmbedded }: { sql: Sql; isEmbedded: boolean }): Erase {
  let erased = '0 0'
  return async () => {
    const { versions, gone } = await countDestroyed(sql) // before the work, so that the next call erases a key that is destroyed meanwhile
    const found = `${versions} ${gone}`
    if (found === erased) return { outcome: 'unchanged', versions }
    if (!isEmbedded) {
      const outcome = await vacuum(sql)
      if (outcome !== 'erased') return { outcome, versions }
    } else {
      await rewrite(sql)
    }
    erased = found
    return { outcome: 'erased', versions }
  }
}

export async function mayVacuum(sql: Queryable): Promise<boolean> {
  const [row] = await sql<{ may: boolean }[]>`
    select coalesce(pg_catalog.bool_and(
      pg_catalog.pg_has_role(c.relowner, 'usage') or pg_catalog.pg_has_role(d.datdba, 'usage')
      or case when pg_catalog.current_setting('server_version_num')::integer >= 170000
           then pg_catalog.has_table_privilege(c.oid, 'maintain') else false end), false) as may
    from pg_catalog.pg_class c cross join pg_catalog.pg_database d
    where c.oid in (select pg_catalog.to_regclass(name) from pg_catalog.unnest(${TABLES}::text[]) as t (name))
      and d.datname = pg_catalog.current_database()`
  return row?.may ?? false
}

/** Whether the tables of keys were vacuumed, and have no earlier versions of rows since, according to PostgreSQL's counts. */
export async function isVacuumed(sql: Queryable): Promise<boolean> {
  const { least, dead } = await findVacuums(sql)
  return least > 0 && dead === 0
}

/** `gone`: the tenants that were deleted with all their rows. */
async function countDestroyed(sql: Queryable): Promise<{ versions: number; gone: number }> {
  const [row] = await sql<{ versions: number }[]>`
    select (select pg_catalog.count(*) from key_versions where wrapped_kek is null)::integer
         + (select coalesce(pg_catalog.min(number), 1) - 1 from store_keys) as versions`
  const [counted] = await sql<{ gone: number }[]>`
    select coalesce(pg_catalog.sum(entries), 0)::integer as gone from audit_counts
    where tenant_id = ${INSTALLATION_ID} and action = 'installation.tenant_gone'`
  if (!row || !counted) throw new Error('the destroyed key versions could not be counted')
  return { ...row, ...counted }
}

// VACUUM FULL would lock the tables against every call. The bytes that this one frees are overwritten, but not at once.
async function vacuum(sql: Sql): Promise<Erasure['outcome']> {
  if (!(await mayVacuum(sql))) return 'not permitted'
  const before = await findVacuums(sql)
  await withoutLimits(
    sql,
    '"set statement_timeout = 0" and "vacuum keys, key_versions, store_keys"',
    (session) => session`vacuum (skip_locked, truncate false) keys, key_versions, store_keys`,
  )
  const after = await untilCounted(sql, before.least)
  return after.least > before.least && after.dead === 0 ? 'erased' : 'held'
}

/** Before PostgreSQL 15, another process counts half a second later, and never counts a table that was skipped as locked. */
async function untilCounted(sql: Queryable, least: number): Promise<{ least: number; dead: number }> {
  const until = performance.now() + COUNTED_MS
  for (;;) {
    const found = await findVacuums(sql)
    if (found.least > least || !found.is_late || performance.now() >= until) return found
    await sleep(COUNTED_MS / 20)
  }
}

/** How often the least vacuumed table was vacuumed, and how many earlier versions of rows are left. */
async function findVacuums(sql: Queryable): Promise<{ least: number; dead: number; is_late: boolean }> {
  const [row] = await sql<{ least: number; dead: number; is_late: boolean }[]>`
    select coalesce(pg_catalog.min(vacuum_count), 0)::bigint as least, coalesce(pg_catalog.sum(n_dead_tup), 0)::bigint as dead,
           pg_catalog.current_setting('server_version_num')::integer < 150000 as is_late
    from pg_catalog.pg_stat_all_tables
    where relid in (select pg_catalog.to_regclass(name) from pg_catalog.unnest(${TABLES}::text[]) as t (name))`
  if (!row) throw new Error('the statistics of the tables could not be read')
  return row
}

// New files get the present rows, and the checkpoint removes the old files. A plain VACUUM would leave bytes in the
// free space of a page. Servers before migration 13 left samples of secrets in `pg_statistic`.
async function rewrite(sql: Sql): Promise<void> {
  // Separately: calls run between two statements, and wait while one runs.
  await sql`vacuum full key_versions`
  await sql`vacuum full keys`
  await sql`vacuum full store_keys`
  await sql`vacuum full pg_catalog.pg_statistic`
  // Overwrites the log files after the current one, which an earlier server kept for recycling.
  while (await isLogLonger(sql)) await sql`select pg_catalog.pg_switch_wal()`
  await sql`select pg_catalog.pg_switch_wal()`
  await sql`checkpoint` // removes all log files before the one that the switch began, because wal_recycle is off (database.ts)
}

/** Whether the write-ahead log has files after the current one. First writes a record into that one. */
async function isLogLonger(sql: Sql): Promise<boolean> {
  await sql`select pg_catalog.pg_logical_emit_message(false, 'eaas', 'erasure')`
  const [row] = await sql<{ found: boolean }[]>`
    select exists (
      select 1 from pg_catalog.pg_ls_waldir()
      where pg_catalog.length(name) = 24 and name > pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn())
    ) as found`
  return row?.found ?? false
}
