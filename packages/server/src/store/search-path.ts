/**
 * Where names without a schema lead. Each session begins with one schema, that of our tables, after PostgreSQL's own catalog and before temporary
 * tables, whatever the role or the database is set to; a pooler in transaction mode passes no such setting on. A function that runs in a session
 * of ours can change it there (session-watch.ts).
 *
 * The statement here names everything with its schema, and uses no operator of another.
 */
import type { Queryable } from './db.js'

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
