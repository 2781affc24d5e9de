/** Who holds the locks that a session waits for: for the operator, who ends or awaits them. */
import type { Sql } from './db.js'

/** Between two looks, in milliseconds: several while a lock is waited for. */
const LOOK_MS = 50

/** A session that holds a lock. */
export interface LockHolder {
  pid: number
  application_name: string
  role: string | null
  /** when its transaction began; null if this role may not know */
  since: string | null
}

export interface HolderWatch {
  /** Begins to look who holds what this session waits for. */
  watch(pid: number): void
  isWatching(): boolean
  /** Those of the last look that found any. */
  found(): readonly LockHolder[]
  stop(): void
}

/** Creates a watch that uses another connection than the session that waits. */
export function watchHolders(sql: Sql): HolderWatch {
  let timer: NodeJS.Timeout | undefined
  let isWatching = false
  let isStopped = false
  let last: readonly LockHolder[] = []
  const look = async (pid: number) => {
    // Only who is to be ended would not be named: that must not end the migration.
    const holders = await findHolders(sql, pid).catch(() => [])
    if (holders.length > 0) last = holders
    if (!isStopped) timer = setTimeout(look, LOOK_MS, pid)
  }
  return {
    watch(pid) {
      isWatching = true
      timer = setTimeout(look, LOOK_MS, pid)
    },
    isWatching: () => isWatching,
    found: () => last,
    stop() {
      isStopped = true
      clearTimeout(timer)
    },
  }
}

/** The sessions that hold, or wait before it for, the lock that a session waits for. */
async function findHolders(sql: Sql, pid: number): Promise<LockHolder[]> {
  return sql<LockHolder[]>`
    select a.pid, a.application_name, a.usename::text as role, a.xact_start as since
    from pg_catalog.unnest(pg_catalog.pg_blocking_pids(${pid})) as b (pid) join pg_stat_activity as a on a.pid = b.pid`
}

/** Names them in a sentence. */
export function describeHolders(holders: readonly LockHolder[]): string {
  if (holders.length === 0) return 'a session that could not be determined (see pg_locks)'
  return holders
    .map(({ pid, application_name, role, since }) => {
      const parts = [application_name, role && `role ${role}`, since && `in a transaction since ${since}`]
      return `process ${pid} (${parts.filter((part) => part).join(', ') || 'of which this role may know nothing'})`
    })
    .join(', ')
}
