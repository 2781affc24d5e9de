// Grants a role the rights that serving needs.
import type { Sql, Transaction } from '../../core/store/db.js'
import { GRANTED_TABLES, mayUpdateColumn, RIGHTS } from '../../core/store/grants.js'

const INSUFFICIENT_PRIVILEGE = '42501'

export class RoleError extends Error {
  override readonly name = 'RoleError'
}

/** The remaining rights of a role after `grantServing`. */
export interface Granted {
  /** the schema of the tables, quoted as in SQL */
  schema: string
  /** whether the role may still create tables in the schema, as PUBLIC may by default before PostgreSQL 15 */
  may_create: boolean
  /** the statement after which names in the role's sessions lead to the schema; null if they already do */
  set_path: string | null
}

/**
 * Grants a role the rights that serving needs, and revokes every other right on our tables; needs their owner. With
 * `mayPurge`, the role may also delete audit entries; it may never update one.
 *
 * @throws RoleError if the role does not exist, is a superuser, or owns the tables, or if only another owner can grant
 * a right; nothing is granted then
 */
export async function grantServing(sql: Sql, role: string, { mayPurge }: { mayPurge: boolean }): Promise<Granted> {
  return sql.begin(async (transaction) => {
    await transaction`select version from schema_version where id = 1 for update` // migrations and grants take turns
    await assertServingRole(transaction, role)
    for (const { statement } of await findStatements(transaction, role, mayPurge)) await grant(transaction, statement)
    const missing = (await findStatements(transaction, role, mayPurge)).filter(({ is_missing }) => is_missing)
    if (missing.length > 0) {
      throw new RoleError(
        `Only the owner of the database, of its schema or of a table can grant ${JSON.stringify(role)} what it lacks. Have the owner run this, and then repeat the command: ${missing.map(({ statement }) => statement).join('; ')}`,
      )
    }
    const path = await findSearchPath(transaction, role)
    const [row] = await transaction<Granted[]>`
      with home as (
        select c.relnamespace as oid, n.nspname as name from pg_catalog.pg_class as c
        join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
        where c.oid = pg_catalog.to_regclass('schema_version')::oid
      ), led as (
        select c.relnamespace as oid from pg_catalog.unnest(${path}::text[]) with ordinality as p (name, at)
        join pg_catalog.pg_namespace as n on n.nspname::text = p.name
        join pg_catalog.pg_class as c on c.relnamespace = n.oid and c.relname = 'schema_version'
        where pg_catalog.has_schema_privilege(${role}::name, n.oid, 'usage')
        order by p.at limit 1
      )
      select pg_catalog.quote_ident(h.name::text) as schema,
             pg_catalog.has_schema_privilege(${role}::name, h.oid, 'create') as may_create,
             case when not exists (select 1 from led as l where l.oid = h.oid)
               then pg_catalog.format('alter role %I in database %I set search_path = %I', ${role}::text, pg_catalog.current_database(), h.name)
             end as set_path
      from home as h`
    if (!row) throw new Error('the database did not say what the role may do')
    return row
  })
}

// The schemas to which unqualified names lead in a session of the role, unless its URL changes them.
async function findSearchPath(sql: Transaction, role: string): Promise<string[]> {
  const [row] = await sql<{ path: string }[]>`
    select coalesce((
      select pg_catalog.substr(c.setting, 13)
      from pg_catalog.pg_db_role_setting as s cross join pg_catalog.unnest(s.setconfig) as c (setting)
      where c.setting like 'search\\_path=%'
        and (s.setdatabase = 0 or s.setdatabase = (select d.oid from pg_catalog.pg_database as d where d.datname = pg_catalog.current_database()))
        and (s.setrole = 0 or s.setrole = (select r.oid from pg_catalog.pg_roles as r where r.rolname::text = ${role}))
      order by s.setrole = 0, s.setdatabase = 0 limit 1
    ), p.boot_val) as path
    from pg_catalog.pg_settings as p where p.name = 'search_path'`
  const names = (row?.path ?? '').matchAll(/"((?:[^"]|"")*)"|([^\s,"]+)/g)
  return [...names]
    .map(([, quoted = '', plain]) => plain ?? quoted.replaceAll('""', '"'))
    .map((name) => (name === '$user' ? role : name))
}

// A role without ownership or a right to grant gets a warning or this error, depending on its other rights.
async function grant(sql: Transaction, statement: string): Promise<void> {
  await sql
    .savepoint((inner) => inner.unsafe(statement))
    .catch((error: unknown) => {
      if ((error as { code?: unknown }).code !== INSUFFICIENT_PRIVILEGE) throw error
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

/** `is_missing`: whether the role lacks the right that the statement grants */
type Statement = { statement: string; is_missing: boolean }

// The database quotes the names. A right that the role already has, such as usage of the schema, is not granted again,
// because the schema may belong to another owner.
async function findStatements(sql: Transaction, role: string, mayPurge: boolean): Promise<Statement[]> {
  const each = mayPurge ? [...RIGHTS, { table: 'audit_log', right: 'delete' }] : RIGHTS
  return sql<Statement[]>`
    select pg_catalog.format(s.form, s.object, ${role}::text) as statement, s.is_missing
    from (
      select 0, 'grant connect on database %s to %I', pg_catalog.quote_ident(pg_catalog.current_database()), true
      where not pg_catalog.has_database_privilege(${role}::name, pg_catalog.current_database(), 'connect')
      union all
      select 1, 'grant usage on schema %s to %I', pg_catalog.quote_ident(pg_catalog.current_schema()), true
      where not pg_catalog.has_schema_privilege(${role}::name, pg_catalog.current_schema(), 'usage')
      union all
      select 2, 'revoke all on %s from %I', pg_catalog.to_regclass(t.name)::text, false
      from pg_catalog.unnest(${[...GRANTED_TABLES]}::text[]) as t (name)
      union all
      select 3, 'grant ' || t.granted || ' on %s to %I', pg_catalog.to_regclass(t.name)::text,
             case when t.granted like 'update (%'
               then not ${mayUpdateColumn(sql, sql`${role}::name`)}
               else not pg_catalog.has_table_privilege(${role}::name, pg_catalog.to_regclass(t.name)::oid, t.granted)
             end
      from unnest(${each.map(({ table }) => table)}::text[], ${each.map(({ right }) => right)}::text[]) as t (name, granted)
    ) as s (position, form, object, is_missing)
    order by s.position`
}
