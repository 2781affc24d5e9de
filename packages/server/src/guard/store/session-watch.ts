// Checks periodically that sessions are still as they began. A function that runs in one, such as a trigger's, can change
// where names lead, whose rights are used or which triggers run, and replace the driver's prepared statements by others of
// the same names. So the check is no prepared statement, names everything with its schema, and uses no operator.
import type { Sql } from '../../core/store/db.js'
import { EMBEDDED_PATH } from '../../core/store/text-formats.js'

export class ChangedSessionError extends Error {
  override readonly name = 'ChangedSessionError'
}

const MOST_SESSIONS = 10 // the most sessions of one check: at least all that a process has

/** Ends a changed session, or repairs it if the database has only one. @throws ChangedSessionError */
export function createSessionWatch({ sql, isEmbedded }: { sql: Sql; isEmbedded: boolean }): () => Promise<void> {
  let first: string | undefined
  return async () => {
    const changed = new Map<number, string>()
    for (const { pid, state, hasPrepared } of await findSessions(sql, isEmbedded ? 1 : MOST_SESSIONS)) {
      first ??= state
      if (state !== first) changed.set(pid, `${state} in a session of the server, and not ${first}`)
      else if (hasPrepared) changed.set(pid, 'SQL prepared statements in a session of the server')
    }
    for (const pid of changed.keys()) {
      if (isEmbedded) await repair(sql)
      else await end(sql, pid).catch(() => undefined) // fails if that session itself sends it
    }
    const [change] = changed.values()
    if (change !== undefined) throw new ChangedSessionError(change)
  }
}

/** Uses the original rights of the session that sends this. */
async function end(sql: Sql, pid: number): Promise<void> {
  await sql`select pg_catalog.set_config('role', 'none', false), pg_catalog.pg_terminate_backend(${pid})`
}

/** Undoes the changes that `findSessions` sees; the driver prepares its statements again. */
async function repair(sql: Sql): Promise<void> {
  await sql`deallocate all; reset role; reset session_replication_role`.simple()
  await sql`select pg_catalog.set_config('search_path', ${EMBEDDED_PATH}, false)`
}

type Session = { pid: number; state: string; hasPrepared: boolean }

/** The driver uses idle connections in turn, so all were seen when the first one comes again. */
async function findSessions(sql: Sql, limit: number): Promise<Session[]> {
  const sessions = new Map<number, Session>()
  while (sessions.size < limit) {
    const [session] = await sql<
      { pid: number; schemas: string[]; role: string; replication: string; has_prepared: boolean }[]
    >`
      select pg_catalog.pg_backend_pid() as pid, pg_catalog.current_schemas(true)::pg_catalog.text[] as schemas, current_user as role,
             pg_catalog.current_setting('session_replication_role') as replication,
             exists (select from pg_catalog.pg_prepared_statements where from_sql) as has_prepared`.simple()
    if (!session || sessions.has(session.pid)) break
    const { pid, schemas, role, replication, has_prepared: hasPrepared } = session
    const path = withoutTemporary(schemas).join(', ')
    const state = `names lead to ${path}, with rights of ${role} and triggers of ${replication}`
    sessions.set(pid, { pid, state, hasPrepared })
  }
  return [...sessions.values()]
}

/** Temporary tables at the end of a path hide nothing. */
function withoutTemporary(schemas: readonly string[]): readonly string[] {
  return schemas.at(-1)?.startsWith('pg_temp_') ? schemas.slice(0, -1) : schemas
}
