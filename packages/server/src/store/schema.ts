/**
 * What the schema is, as lines of text: one for each table, column, constraint, index, trigger, rule and policy of ours, and for what else
 * acts on our tables. Two databases that were migrated alike have the same lines. Read from the catalogs alone, without a lock on a table.
 */
import { readFile } from 'node:fs/promises'
import type { Sql, Transaction } from './db.js'
import { GRANTED_TABLES } from './grants.js'
import { findRemedies, findWrongFormats, type WrongFormat } from './text-formats.js'

/** The lines of a database that this version migrated, in the folder of the migrations; a test compares it with one. */
const EXPECTED = 'schema.txt'

/** How the schema differs from what the migrations make. */
export interface SchemaDifferences {
  /** lines that the migrations make and the database lacks */
  missing: string[]
  /** lines about our tables that no migration makes */
  added: string[]
  /** what else is in our schema, or acts on the whole database: no table of ours, but able to reach them */
  beside: string[]
}

/** What is in the database, and is not there in one that was only migrated. */
const BESIDE = /^(?:function|event trigger|relation beside) /

/** Compares the schema with what the migrations in a folder make; the caller knows that it is of this version. */
export function compareTables(sql: Sql, migrations: URL): Promise<SchemaDifferences> {
  return sql.begin('read only', (transaction) => compareTablesIn(transaction, migrations)) as Promise<SchemaDifferences>
}

/** Compares as `compareTables` does, with what names lead to in a transaction, which does nothing else afterwards. */
export async function compareTablesIn(transaction: Transaction, migrations: URL): Promise<SchemaDifferences> {
  const expected = (await readFile(new URL(EXPECTED, migrations), 'utf8')).split('\n').filter((line) => line !== '')
  const found = await describeSchema(transaction)
  const [all, known] = [new Set(found), new Set(expected)]
  const unknown = found.filter((line) => !known.has(line))
  return {
    missing: expected.filter((line) => !all.has(line)),
    added: unknown.filter((line) => !BESIDE.test(line)),
    beside: unknown.filter((line) => BESIDE.test(line)),
  }
}

/**
 * Describes the schema that names without a schema lead to, in the order of its lines. A view, a temporary table or one of another schema
 * in the place of a table of ours makes other lines, and so does a search path that has anything before PostgreSQL's own catalog.
 *
 * Nothing of the database's owner is executed: the first statement names everything with its schema, and after it names lead to PostgreSQL's
 * catalog alone, until the transaction ends.
 */
export async function describeSchema(transaction: Transaction): Promise<string[]> {
  const [path] = await transaction<{ schemas: string[] }[]>`
    select pg_catalog.current_schemas(true)::pg_catalog.text[] as schemas`
  const schemas = path?.schemas ?? []
  await transaction`set local search_path = pg_catalog, pg_temp`
  // Operators of a schema before it would be called in the place of PostgreSQL's.
  if (schemas[0] !== 'pg_catalog') return [`search path ${schemas.join(', ')}`]
  const rows = await transaction<{ line: string }[]>`
    with path as (
      select n.oid, s.at
      from pg_catalog.unnest(${schemas}::text[]) with ordinality as s (name, at) join pg_namespace as n on n.nspname = s.name
      where n.nspname <> 'pg_catalog'
    ), ours as (
      select t.name, c.oid, c.relkind, c.relpersistence, c.relnamespace, c.relrowsecurity, c.relforcerowsecurity, c.relispartition
      from pg_catalog.unnest(${[...GRANTED_TABLES]}::text[]) as t (name), lateral (
        select c.* from pg_class as c join path on path.oid = c.relnamespace where c.relname = t.name order by path.at limit 1
      ) as c
    ), home as (
      select relnamespace as oid, ' ON ' || pg_catalog.quote_ident(nspname) || '.' as prefix
      from ours join pg_namespace as n on n.oid = relnamespace
      where ours.name = 'schema_version'
    ), functions as materialized ( -- or PostgreSQL looks up the names of its own 3,000 first, for two thirds of the time of it all
      select p.* from pg_proc as p join path on p.pronamespace = path.oid
    ), lines (line) as (
      select case relkind when 'r' then 'table' when 'v' then 'view' when 'p' then 'partitioned table' when 'f' then 'foreign table'
                          else 'relation of kind ' || relkind::text end || ' ' || name
             || case relpersistence when 'p' then '' when 'u' then ' unlogged' else ' temporary' end
             || case when relispartition then ' partition' else '' end
             || case when relnamespace = (select oid from home) then '' else ' in schema ' || relnamespace::regnamespace::text end
      from ours
      union all
      select 'column ' || ours.name || '.' || a.attname || ' ' || pg_catalog.format_type(a.atttypid, a.atttypmod)
             || case when a.attnotnull then ' not null' else '' end
             || case when a.attcollation = t.typcollation then '' else ' collate ' || a.attcollation::regcollation::text end
             || case when a.attidentity = '' then '' else ' identity' end
             || case when d.adbin is null then ''
                     else case a.attgenerated when '' then ' default ' else ' generated ' end
                          || pg_catalog.pg_get_expr(d.adbin, d.adrelid) end
      from ours join pg_attribute as a on a.attrelid = ours.oid and a.attnum > 0 and not a.attisdropped
      join pg_type as t on t.oid = a.atttypid left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
      union all
      select 'constraint ' || ours.name || '.' || c.conname || ' ' || pg_catalog.pg_get_constraintdef(c.oid)
      from ours join pg_constraint as c on c.conrelid = ours.oid and c.contype <> 'n'
      union all
      select pg_catalog.replace(pg_catalog.pg_get_indexdef(i.indexrelid), (select prefix from home), ' ON ')
             || case when i.indisvalid and i.indisready and i.indislive and i.indimmediate then '' else ' invalid' end
      from ours join pg_index as i on i.indrelid = ours.oid
      union all
      select 'trigger ' || t.tgname || ' on ' || ours.name || case t.tgenabled when 'D' then ' disabled' else '' end
      from ours join pg_trigger as t on t.tgrelid = ours.oid and (not t.tgisinternal or t.tgfoid >= 16384)
      union all
      select 'rule ' || r.rulename || ' on ' || ours.name from ours join pg_rewrite as r on r.ev_class = ours.oid
      union all
      select 'policy ' || p.polname || ' on ' || ours.name from ours join pg_policy as p on p.polrelid = ours.oid
      union all
      select 'row level security of ' || name from ours where relrowsecurity or relforcerowsecurity
      union all
      select 'inheritance of ' || i.inhrelid::regclass::text || ' from ' || i.inhparent::regclass::text
      from pg_inherits as i where i.inhparent in (select oid from ours) or i.inhrelid in (select oid from ours)
      union all
      -- One of a name that PostgreSQL has too may be called in its place, because its arguments fit better; not if they are the same. Whoever
      -- owns the database can make any function a member of an extension.
      select case when own.has_name then 'overloading ' else '' end || 'function ' || p.oid::regprocedure::text
      from functions as p, lateral (
        select pg_catalog.count(*) > 0 as has_name, coalesce(pg_catalog.bool_or(o.proargtypes = p.proargtypes), false) as has_arguments
        from pg_proc as o where o.pronamespace = 'pg_catalog'::regnamespace and o.proname = p.proname
      ) as own
      where (own.has_name and not (own.has_arguments and p.provariadic = 0 and p.pronargdefaults = 0))
        or not exists (select from pg_depend as d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
      union all
      -- initdb makes everything below the first normal oid; only a superuser adds a function to the catalog.
      select 'function pg_catalog.' || p.oid::regprocedure::text
      from pg_proc as p where p.pronamespace = 'pg_catalog'::regnamespace and p.oid >= 16384
      union all
      -- A call with one argument that no function fits exactly, as none fits a literal, is a cast to a type of its name.
      select 'overloading type ' || t.oid::regtype::text
      from pg_type as t join path on t.typnamespace = path.oid
      where t.typrelid not in (select oid from ours)
        and exists (select from pg_proc as o where o.pronamespace = 'pg_catalog'::regnamespace and o.proname = t.typname)
      union all
      select 'operator ' || o.oid::regoperator::text from pg_operator as o join path on o.oprnamespace = path.oid
      where exists (select from pg_operator as c where c.oprnamespace = 'pg_catalog'::regnamespace and c.oprname = o.oprname)
        or not exists (select from pg_depend as d where d.classid = 'pg_operator'::regclass and d.objid = o.oid and d.deptype = 'e')
      union all
      -- A superuser can have PostgreSQL's own operators and casts call another function.
      select 'operator pg_catalog.' || o.oid::regoperator::text from pg_operator as o
      where o.oprnamespace = 'pg_catalog'::regnamespace and (o.oid >= 16384 or o.oprcode::oid >= 16384)
      union all
      -- A cast needs no schema.
      select 'cast from ' || c.castsource::regtype::text || ' to ' || c.casttarget::regtype::text
      from pg_cast as c join pg_type as s on s.oid = c.castsource join pg_type as t on t.oid = c.casttarget
      where (c.oid >= 16384 or c.castfunc >= 16384) and s.typnamespace = 'pg_catalog'::regnamespace and t.typnamespace = 'pg_catalog'::regnamespace
      union all
      -- A row of ours that is deleted has such a table's rows looked for, deleted or updated, with all triggers of that table.
      select 'foreign key ' || pg_catalog.quote_ident(c.conname) || ' of ' || c.conrelid::regclass::text || ' to ' || ours.name
      from pg_constraint as c join ours on ours.oid = c.confrelid
      where c.contype = 'f' and c.conrelid not in (select oid from ours)
      union all
      select 'trigger ' || t.tgname || ' on ' || t.tgrelid::regclass::text || case t.tgenabled when 'D' then ' disabled' else '' end
      from pg_trigger as t
      where (not t.tgisinternal or t.tgfoid >= 16384) and t.tgrelid in (select conrelid from pg_constraint where confrelid in (select oid from ours))
        and t.tgrelid not in (select oid from ours)
      union all
      select 'rule ' || r.rulename || ' on ' || r.ev_class::regclass::text
      from pg_rewrite as r
      where r.ev_class in (select conrelid from pg_constraint where confrelid in (select oid from ours))
        and r.ev_class not in (select oid from ours)
      union all
      select 'relation beside ' || c.oid::regclass::text
      from pg_class as c join path on c.relnamespace = path.oid
      where c.relname = any(${[...GRANTED_TABLES]}::text[]) and c.oid not in (select oid from ours)
      union all
      select 'event trigger ' || evtname || ' on ' || evtevent from pg_event_trigger where evtenabled <> 'D'
    )
    select line from lines order by line collate "C"`
  const settings = [...(await findChangedSettings(transaction)), ...(await findWrongFormats(transaction))]
  return [
    ...rows.map(({ line }) => line),
    ...settings.map(({ name, value, remedy }) => `setting ${name} ${value} (${remedy})`),
  ]
}

/** Finds the settings that change how statements are read, or which triggers run. */
async function findChangedSettings(transaction: Transaction): Promise<WrongFormat[]> {
  const changed = await transaction<{ name: string; value: string }[]>`
    select name, setting as value from pg_settings
    where name in ('session_replication_role', 'transform_null_equals') and setting <> boot_val`
  return changed.length === 0 ? [] : findRemedies(transaction, changed)
}
