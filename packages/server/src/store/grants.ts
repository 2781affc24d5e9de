/** The rights of a role that serves but does not own the tables: it reads and writes rows, and alters nothing. */
import type { Sql, Transaction } from './db.js'

/** The rights on each table. `update` of one column allows a row lock on a row that never changes. */
const GRANTS = {
  instance: ['select', 'update (id)'],
  schema_version: ['select', 'update (version)'], // for the commit that /health probes the database with
  tenants: ['select', 'insert', 'update'],
  heads: ['select', 'insert', 'update'],
  audit_log: ['select', 'insert'],
  audit_counts: ['select', 'insert', 'update'],
  purge_marks: ['select', 'insert'],
  keys: ['select', 'insert', 'update'],
  key_versions: ['select', 'insert', 'update'],
  api_keys: ['select', 'insert', 'update'],
  unrecorded_calls: ['select', 'insert', 'update'],
  anchored_heads: ['select', 'insert', 'update', 'delete'],
  chain_alarms: ['select', 'insert', 'update', 'delete'],
} as const

/** Every table that a role gets rights on: a migration that creates a table adds it here. */
export const GRANTED_TABLES: readonly string[] = Object.keys(GRANTS)

/** Thrown when a role cannot be granted the rights of a serving role. */
export class RoleError extends Error {
  override readonly name = 'RoleError'
}

/** What a role may still do after `grantServing`. */
export interface Granted {
  /** whether the role may still create tables in the schema, as PUBLIC may by default before PostgreSQL 15 */
  may_create: boolean
}

/**
 * Grants a role the rights that serving needs, and revokes every other right on our tables. To be run by the owner of the tables;
 * running it again changes nothing. With `mayPurge` the role may also delete audit entries; it may never update one.
 *
 * @throws RoleError if the role does not exist, is a superuser, or owns the tables
 */
export async function grantServing(sql: Sql, role: string, { mayPurge }: { mayPurge: boolean }): Promise<Granted> {
  return sql.begin(async (transaction) => {
    await transaction`select version from schema_version where id = 1 for update` // migrations and grants take turns
    await assertServingRole(transaction, role)
    for (const statement of await findStatements(transaction, role, mayPurge)) await transaction.unsafe(statement)
    const [row] = await transaction<Granted[]>`
      select pg_catalog.has_schema_privilege(${role}::name, pg_catalog.current_schema(), 'create') as may_create`
    if (!row) throw new Error('the database did not say what the role may do')
    return row
  })
}

async function assertServingRole(sql: Transaction, role: string): Promise<void> {
  const [found] = await sql<{ is_superuser: boolean; is_owner: boolean }[]>`
    select r.rolsuper as is_superuser,
           exists (
             select 1 from pg_catalog.unnest(${[...GRANTED_TABLES]}::text[]) as t (name) join pg_class c on c.oid = pg_catalog.to_regclass(t.name)
             where pg_catalog.pg_has_role(r.oid, c.relowner, 'member')
           ) as is_owner
    from pg_roles r where r.rolname::text = ${role}`
  if (!found) {
    throw new RoleError(
      `There is no role ${JSON.stringify(role)} in this database. Create it first: create role … login`,
    )
  }
  if (found.is_superuser)
    throw new RoleError(`${JSON.stringify(role)} is a superuser, whose rights no grant can limit.`)
  if (found.is_owner) {
    throw new RoleError(
      `${JSON.stringify(role)} owns the tables, or is a member of the role that does. Create a role of its own for the servers.`,
    )
  }
}

// The database quotes the names. A right that the role has already, such as usage of the schema, is not granted again: the schema may belong
// to another owner.
async function findStatements(sql: Transaction, role: string, mayPurge: boolean): Promise<string[]> {
  const grants = Object.entries(GRANTS).map(([table, rights]) => ({
    table,
    rights: [...rights, ...(mayPurge && table === 'audit_log' ? ['delete'] : [])].join(', '),
  }))
  const rows = await sql<{ statement: string }[]>`
    select pg_catalog.format(s.form, s.object, ${role}::text) as statement
    from (
      select 0, 'grant connect on database %s to %I', pg_catalog.quote_ident(pg_catalog.current_database())
      where not pg_catalog.has_database_privilege(${role}::name, pg_catalog.current_database(), 'connect')
      union all
      select 1, 'grant usage on schema %s to %I', pg_catalog.quote_ident(pg_catalog.current_schema())
      where not pg_catalog.has_schema_privilege(${role}::name, pg_catalog.current_schema(), 'usage')
      union all
      select 2, 'revoke all on %s from %I', pg_catalog.to_regclass(t.name)::text from pg_catalog.unnest(${[...GRANTED_TABLES]}::text[]) as t (name)
      union all
      select 3, 'grant ' || t.rights || ' on %s to %I', pg_catalog.to_regclass(t.name)::text
      from unnest(${grants.map(({ table }) => table)}::text[], ${grants.map(({ rights }) => rights)}::text[]) as t (name, rights)
    ) as s (position, form, object)
    order by s.position`
  return rows.map(({ statement }) => statement)
}
