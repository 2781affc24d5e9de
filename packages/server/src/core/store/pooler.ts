/**
 * How PostgreSQL is reached: whether a pooler is in between, where our tables are, and in which encoding it stores
 * text.
 */
import { connect } from './db.js'
import type { Login } from './login.js'
import { ownPath } from './search-path.js'

/** How a database is reached. */
interface Reached {
  /** through a pooler, such as pgbouncer */
  isPooled: boolean
  /** the search path by which sessions find or make our tables; undefined if the role's leads to no schema */
  searchPath: string | undefined
  /** the encoding in which the database stores text, such as `UTF8`; it was chosen when the database was created */
  encoding: string | undefined
}

/**
 * Detects a pooler, where our tables are and how text is stored. PostgreSQL sends each client the id of its
 * back end when it connects, for cancel requests; a pooler sends an id of its own, because the back end
 * changes. Connects once.
 *
 * @throws the database's own error
 */
export async function findReached(login: Login): Promise<Reached> {
  const sql = connect({ ...login, max: 1, isPooled: true })
  try {
    const { 0: row, state } = await sql<{ pid: number; path: string | null; encoding: string }[]>`
      select pg_catalog.pg_backend_pid() as pid, ${ownPath(sql)} as path,
             pg_catalog.current_setting('server_encoding') as encoding`
    return { isPooled: row?.pid !== state.pid, searchPath: row?.path ?? undefined, encoding: row?.encoding }
  } finally {
    await sql.end({ timeout: 1 })
  }
}
