/**
 * Where names without a schema lead. Each session begins with one schema, that of our tables, after PostgreSQL's own catalog and before temporary
 * tables, whatever the role or the database is set to; a pooler in transaction mode passes no such setting on. A function that runs in a session
 * of ours, as a trigger does, can change it there, so it is looked at again and again.
 *
 * The statements here name everything with its schema, and use no operator of another.
 */
import type { Queryable, Sql } from './db.js'

/** For a session whose role has a search path of its own: an expression for the path that leads to our tables; null if it leads nowhere. */
export function ownPath(sql: Queryable) {
  return sql`(
    select pg_catalog.concat(pg_catalog.quote_ident(coalesce(
      (select n.nspname from pg_catalog.pg_class as c join pg_catalog.pg_namespace as n on n.oid operator(pg_catalog.=) c.relnamespace
       where c.oid operator(pg_catalog.=) pg_catalog.to_regclass('schema_version')::pg_catalog.oid),
      pg_catalog.current_schema()
    )::pg_catalog.text), ', pg_temp')
    where pg_catalog.current_schema() is not null
  )`
}

/** The path of the embedded database, whose tables are in one schema. */
export const EMBEDDED_PATH = 'public, pg_temp'

/** Thrown when names lead elsewhere than when the process began. */
export class ChangedSearchPathError extends Error {
  override readonly name = 'ChangedSearchPathError'
}

/** How many sessions one check looks at: all that a process has. */
const MOST_SESSIONS = 10

/**
 * Creates the check that sessions have the search path that the first one had. A changed session is ended, or repaired if the database has only
 * one. @throws ChangedSearchPathError
 */
export function createSearchPathWatch({ sql, isEmbedded }: { sql: Sql; isEmbedded: boolean }): () => Promise<void> {
  let first: string | undefined
  return async () => {
    const changed = new Map<number, string>()
    for (const { pid, path } of await findSessions(sql, isEmbedded ? 1 : MOST_SESSIONS)) {
      first ??= path
      if (path !== first) changed.set(pid, path)
    }
    for (const pid of changed.keys()) {
      if (isEmbedded) await sql`select pg_catalog.set_config('search_path', ${EMBEDDED_PATH}, false)`
      // Fails if it is sent on that session.
      else await sql`select pg_catalog.pg_terminate_backend(${pid})`.catch(() => undefined)
    }
    const [path] = changed.values()
    if (path === undefined) return
    throw new ChangedSearchPathError(`names lead to ${path} in a session of the server, and not to ${first}`)
  }
}

interface Session {
  pid: number
  /** the schemas that names lead to, in order */
  path: string
}

/** The idle sessions of this process. The driver uses its idle connections in turn, so the one that comes again was the first. */
async function findSessions(sql: Sql, limit: number): Promise<Session[]> {
  const sessions = new Map<number, Session>()
  while (sessions.size < limit) {
    const [session] = await sql<{ pid: number; schemas: string[] }[]>`
      select pg_catalog.pg_backend_pid() as pid, pg_catalog.current_schemas(true)::pg_catalog.text[] as schemas`
    if (!session || sessions.has(session.pid)) break
    sessions.set(session.pid, { pid: session.pid, path: withoutTemporary(session.schemas).join(', ') })
  }
  return [...sessions.values()]
}

/** Temporary tables at the end of a path hide nothing. */
function withoutTemporary(schemas: readonly string[]): readonly string[] {
  return schemas.at(-1)?.startsWith('pg_temp_') ? schemas.slice(0, -1) : schemas
}
