/** Names the sessions that hold the locks that a session waits for, so that the operator can end or await them. */
import type { Sql } from './db.js'

/** Between two look-ups: several fit into one wait for a lock. */
const LOOK_MS = 50

interface LockHolder {
  pid: number
  application_name: string
  role: string | null
  /** when its transaction began; null if this role may not see that */
  since: string | null
}

/** From `watch` to `stop`, looks up on another connection who holds the lock that a session waits for. */
export function watchHolders(sql: Sql) {
  let timer: NodeJS.Timeout | undefined
  let isStopped = false
  let last: readonly LockHolder[] | undefined
  const look = async (pid: number) => {
    // A failure loses only the holders' names, and must not end the migration.
    const holders = await findHolders(sql, pid).catch(() => [])
    if (holders.length > 0) last = holders
    if (!isStopped) timer = setTimeout(look, LOOK_MS, pid)
  }
  return {
    watch(pid: number) {
      last = []
      timer = setTimeout(look, LOOK_MS, pid)
    },
    /** The holders that the last successful look-up found; undefined before `watch`. */
    found: () => last,
    stop() {
      isStopped = true
      clearTimeout(timer)
    },
  }
}

/** The sessions that hold the lock that a session waits for, and those that wait for it ahead of that session. */
async function findHolders(sql: Sql, pid: number): Promise<LockHolder[]> {
  return sql<LockHolder[]>`
    select a.pid, a.application_name, a.usename::text as role, a.xact_start as since
    from pg_catalog.unnest(pg_catalog.pg_blocking_pids(${pid})) as b (pid) join pg_stat_activity as a on a.pid = b.pid`
}

/**
 * For when no look-up returned in time: the sessions, oldest first, that had locks on our tables before a wait of
 * `waitedMs` that has just failed. While a session waits for a table, no later one gets a lock on it.
 */
export async function findHoldersBefore(sql: Sql, waitedMs: number): Promise<LockHolder[]> {
  return sql<LockHolder[]>`
    select a.pid, a.application_name, a.usename::text as role, a.xact_start as since
    from pg_stat_activity as a
    where (a.xact_start is null or a.xact_start <= pg_catalog.clock_timestamp() - ${waitedMs} * interval '1 millisecond')
      and a.pid in (
        select l.pid from pg_catalog.pg_locks as l join pg_catalog.pg_class as c on c.oid = l.relation
        where l.granted and l.database = (select d.oid from pg_catalog.pg_database as d where d.datname = pg_catalog.current_database())
          and c.relnamespace = (select o.relnamespace from pg_catalog.pg_class as o where o.oid = pg_catalog.to_regclass('schema_version'))
      ) and a.pid <> pg_catalog.pg_backend_pid()
    order by a.xact_start`
}

export function describeHolders(holders: readonly LockHolder[]): string {
  if (holders.length === 0) return 'a session that could not be determined (see pg_locks)'
  return holders
    .map(({ pid, application_name, role, since }) => {
      const parts = [application_name, role && `role ${role}`, since && `in a transaction since ${since}`]
      return `process ${pid} (${parts.filter((part) => part).join(', ') || 'of which this role may know nothing'})`
    })
    .join(', ')
}
