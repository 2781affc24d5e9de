/**
 * Where unqualified names lead. Each session begins with one schema, that of our tables, after PostgreSQL's own catalog
 * and before temporary tables, whatever the settings of the role or the database. A pooler in transaction mode does not
 * pass that on. A function that runs in our session can change it there (session-watch.ts).
 *
 * The statements here name everything with its schema, and use no operator of another schema.
 */
import type { Queryable } from './db.js'

/** The path that leads to our tables in a session whose role has one of its own; null if it leads nowhere. */
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

export const EMBEDDED_PATH = 'public, pg_temp'

/** The operators that our statements use without a schema, as a test compares: others are never called. */
export const USED_OPERATORS = ['*', '+', '-', '/', '<', '<=', '<>', '=', '>', '>=', '||', '~~']

/** Tables that every version of an installation has. */
const TABLES = ['schema_version', 'instance', 'heads', 'audit_log']

/** Schemas, quoted as in SQL: where names lead, if anywhere, and the others that have tables of ours too. */
type Schemas = { own: string | null; others: string[] }

/** Says where the tables are if a session's path leads past them; undefined if no other schema has any. */
export function describeElsewhere({ own, others }: Schemas): string | undefined {
  if (others.length === 0) return undefined
  return (
    `this role's search path leads to ${own === null ? 'no schema' : `the schema ${own}`}, and the tables of eaas are in ${others.join(', ')}: somebody set ` +
    'search_path for the role or the database. Undo that (alter role … reset search_path, alter database … reset search_path), or name that schema there'
  )
}

/** Finds where a server would find an installation, if its role's search path led there. Reads the catalog alone. */
export async function findSchemas(sql: Queryable): Promise<Schemas> {
  const [row] = await sql<Schemas[]>`
    with home as (
      select coalesce(
        (select c.relnamespace from pg_catalog.pg_class as c
         where c.oid operator(pg_catalog.=) pg_catalog.to_regclass('schema_version')::pg_catalog.oid),
        (select n.oid from pg_catalog.pg_namespace as n where n.nspname operator(pg_catalog.=) pg_catalog.current_schema())
      ) as oid
    ), others as (
      select pg_catalog.quote_ident(n.nspname::pg_catalog.text) as name
      from pg_catalog.pg_namespace as n
      where n.oid operator(pg_catalog.<>) all (select h.oid from home as h where h.oid is not null)
        and (select pg_catalog.count(*) from pg_catalog.pg_class as c
             where c.relnamespace operator(pg_catalog.=) n.oid and c.relname::pg_catalog.text operator(pg_catalog.=) any (${TABLES}::pg_catalog.text[])
               and c.relkind operator(pg_catalog.=) any ('{r,p,v,m,f}'::pg_catalog."char"[])) operator(pg_catalog.=) ${TABLES.length}
    )
    select (select pg_catalog.quote_ident(n.nspname::pg_catalog.text) from pg_catalog.pg_namespace as n, home as h
            where n.oid operator(pg_catalog.=) h.oid) as own,
           coalesce((select pg_catalog.array_agg(o.name order by o.name using operator(pg_catalog.<)) from others as o), '{}') as others`
  if (!row) throw new Error('the database did not say which schemas it has')
  return row
}
