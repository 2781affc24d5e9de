/** The rights of a role that serves but does not own the tables: it reads and writes rows, and cannot alter tables. */
import type { Fragment, Queryable } from './db.js'

/** The rights on each table. `update` of one column allows locking a row that never changes. */
const GRANTS = {
  instance: ['select', 'update (id)', 'update (wrapped_former_pepper)', 'update (backed_up_at)'],
  store_keys: ['select', 'update (refused_at)'],
  schema_version: ['select', 'update (version)'], // for the commit with which /health probes the database
  tenants: ['select', 'insert', 'update'],
  heads: ['select', 'insert', 'update'],
  audit_log: ['select', 'insert'],
  audit_counts: ['select', 'insert', 'update'],
  purge_marks: ['select', 'insert'],
  keys: ['select', 'insert', 'update'],
  key_versions: ['select', 'insert', 'update'],
  api_keys: ['select', 'insert', 'update'],
  tenant_peppers: ['select', 'insert', 'update', 'delete'],
  unrecorded_calls: ['select', 'insert', 'update'],
  budget_uses: ['select', 'insert', 'update'],
  anchored_heads: ['select', 'insert', 'update', 'delete'],
  chain_alarms: ['select', 'insert', 'update', 'delete'],
} as const

export const RIGHTS = Object.entries(GRANTS).flatMap(([table, rights]) =>
  rights.map((right: string) => ({ table, right })),
)

/** Every table that a role gets rights on: a migration that creates a table adds it here. */
export const GRANTED_TABLES: readonly string[] = Object.keys(GRANTS)

type MissingRights = { role: string; missing: string[] }

/** The rights that this connection's role lacks, such as `insert on heads`. Missing tables are ignored. */
export async function findMissingRights(sql: Queryable): Promise<MissingRights> {
  const [row] = await sql<MissingRights[]>`
    select current_user::text as role, array(
      select t.granted || ' on ' || t.name
      from unnest(${RIGHTS.map(({ table }) => table)}::text[], ${RIGHTS.map(({ right }) => right)}::text[]) as t (name, granted)
      where not coalesce(
        case when t.granted like 'update (%'
          then ${mayUpdateColumn(sql, sql`current_user`)}
          else pg_catalog.has_table_privilege(pg_catalog.to_regclass(t.name)::oid, t.granted)
        end, true)
    ) as missing`
  if (!row) throw new Error('the database did not say what the role may do')
  return row
}

// Whether a role may update the column that `t.granted` names in parentheses; null in a table that lacks it.
export function mayUpdateColumn(sql: Queryable, role: Fragment) {
  return sql`(
    select pg_catalog.has_column_privilege(${role}, a.attrelid, a.attnum, 'update') from pg_catalog.pg_attribute as a
    where a.attrelid = pg_catalog.to_regclass(t.name)::oid
      and a.attname = pg_catalog.substr(t.granted, 9, pg_catalog.length(t.granted) - 9)
  )`
}

export function describeMissingRights({ role, missing }: MissingRights): string {
  return `this role lacks rights that the server needs: ${missing.join(', ')}. Run eaas migrate --role ${role} as the owner of the tables`
}
