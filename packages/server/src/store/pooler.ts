/** Whether a pooler stands between this process and PostgreSQL, and what that means for time limits. */
import { connect, type Queryable } from './db.js'

/**
 * Finds out whether the database answers by way of a pooler, such as pgbouncer. PostgreSQL tells each client the id of its back
 * end when it connects, for requests to cancel; a pooler tells an id of its own, because the back end changes. Connects once.
 *
 * @throws the database's own error
 */
export async function findPooler(url: string): Promise<boolean> {
  const sql = connect({ url, max: 1, isPooled: true })
  try {
    const { 0: row, state } = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`
    return row?.pid !== state.pid
  } finally {
    await sql.end({ timeout: 1 })
  }
}

/** The time limits that the role or the database sets by itself, by name; those without a limit only. */
export async function findMissingLimits(sql: Queryable): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select name from pg_settings
    where name in ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout') and setting = '0'
    order by name`
  return rows.map(({ name }) => name)
}
