// Describes our tables, and anything else that acts on them, as lines. The same migrations give the same lines in every
// database. Reads only the catalogs, and locks no table.
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { areTablesSpread, type Queryable, type Sql, type Transaction } from '../../core/store/db.js'
import { GRANTED_TABLES } from '../../core/store/grants.js'
import { findRemedies, findWrongFormats, type WrongFormat } from '../../core/store/text-formats.js'

/** In the folder of the migrations: the lines of a database that this version migrated. A test compares it with one. */
const EXPECTED = 'schema.txt'

export interface SchemaDifferences {
  missing: string[] // lines that the migrations make and the database lacks
  added: string[] // lines about our tables that no migration makes, and that may change answers or entries
  refusing: string[] // lines about our tables that no migration makes, and that can refuse writes but nothing else
  // lines about additions that can do neither; renamed indexes; after `MISSING_INDEX`, dropped indexes that are not unique
  harmless: string[]
  beside: string[] // other objects, which are not part of our tables but can reach them
  settings: string[] // settings of the session, which are no difference of the schema, so no operator can accept them
  /** of `missing`, `added` and `refusing`, with the definitions and functions of additions; '' if there are none */
  digest: string
}

/** The operators that our statements use without a schema; a test compares the list. They call no others. */
export const USED_OPERATORS = ['*', '+', '-', '/', '<', '<=', '<>', '=', '>', '>=', '||', '~~']
const TABLES = ['schema_version', 'instance', 'heads', 'audit_log']

/** Objects that do not exist in a database that was only migrated. */
const BESIDE = /^(?:function|event trigger|relation beside) /
/** A unique key over all machines, which a database that spans machines cannot have (operate/store/distribute.ts). */
const UNDISTRIBUTED = /\btenants_name_key\b/
const SETTING = /^setting / // a setting of the session, with the statement that resets it
/** The subject of a line: lines that name the same column or constraint have the same subject. */
const SUBJECT = /^(?:column|constraint) \S+/
const INDEX_NAME = /^(CREATE INDEX )(\S+)/
/** Precedes the line of a dropped index whose absence only makes calls slow. */
export const MISSING_INDEX = 'dropped, which only makes calls slow: '

/** The effect that an addition to our tables can have: nothing, refused writes, or anything (null). */
type Effect = 'none' | 'refuses' | null

/** They call only the functions and operators that they name, and input and output of PostgreSQL's own types. */
const PURE_NODES = [
  ...['VAR', 'CONST', 'FUNCEXPR', 'OPEXPR', 'SCALARARRAYOPEXPR', 'BOOLEXPR', 'NULLTEST', 'BOOLEANTEST', 'RELABELTYPE'],
  ...['ARRAY', 'ARRAYEXPR', 'COALESCE', 'COALESCEEXPR', 'CASE', 'CASEEXPR', 'WHEN', 'CASEWHEN', 'MINMAX', 'MINMAXEXPR'],
]
/** Columns whose values may be longer than an index accepts. */
const LONG_COLUMNS = ['metadata', 'allowed_ips', 'permissions']

interface SchemaLine {
  line: string
  effect: Effect
  catalog: string | null // the object's catalog, and its id there; null for a setting
  object: number | null
}

/** The caller must know that the schema is of this version. */
export function compareTables(sql: Sql, migrations: URL): Promise<SchemaDifferences> {
  return sql.begin('read only', (transaction) => compareTablesIn(transaction, migrations)) as Promise<SchemaDifferences>
}

/** Compares the tables to which names lead in a transaction, which must do nothing else afterwards. */
export async function compareTablesIn(transaction: Transaction, migrations: URL): Promise<SchemaDifferences> {
  const lines = (await readFile(new URL(EXPECTED, migrations), 'utf8')).split('\n').filter((line) => line !== '')
  const expected = (await areTablesSpread(transaction)) ? lines.filter((line) => !UNDISTRIBUTED.test(line)) : lines
  const found = await describeSchema(transaction)
  const [all, known] = [new Set(found.map(({ line }) => line)), new Set(expected)]
  const absent = expected.filter((line) => !all.has(line))
  const unknown = found.filter(({ line }) => !known.has(line))
  const ours = new Set(expected.map((line) => SUBJECT.exec(line)?.[0]))
  // An altered column or constraint may look harmless, such as nullable without a default, but is not an addition.
  const effectOf = ({ line, effect }: SchemaLine) => (ours.has(SUBJECT.exec(line)?.[0] ?? '') ? null : effect)
  const renamed = findRenamed(absent, unknown)
  const left = unknown.filter(({ line }) => !renamed.has(line))
  const isOfTables = ({ line }: SchemaLine) => !BESIDE.test(line) && !SETTING.test(line)
  const gone = absent.filter((line) => ![...renamed.values()].includes(line))
  // Without an index that only finds rows, statements give the same answers, but more slowly.
  const unindexed = gone.filter((line) => INDEX_NAME.test(line))
  const missing = gone.filter((line) => !INDEX_NAME.test(line))
  const tables = left.filter(isOfTables)
  const added = tables.filter((one) => effectOf(one) === null)
  const refusing = tables.filter((one) => effectOf(one) === 'refuses')
  const texts = (lines: readonly SchemaLine[]) => lines.map(({ line }) => line)
  return {
    missing,
    added: texts(added),
    refusing: texts(refusing),
    harmless: [
      ...unindexed.map((line) => `${MISSING_INDEX}${line}`),
      ...texts(tables.filter((one) => effectOf(one) === 'none')),
      ...[...renamed].map(([line, was]) => `${line}, named ${INDEX_NAME.exec(was)?.[2]} by eaas`),
    ],
    beside: left.filter(({ line }) => BESIDE.test(line)).map(({ line }) => line),
    settings: texts(left.filter(({ line }) => SETTING.test(line))),
    digest: await digestAlarms(transaction, missing, [...added, ...refusing]),
  }
}

/** Maps indexes that differ only in their name to the migrations' lines: nothing refers to them by name. */
function findRenamed(absent: readonly string[], unknown: readonly SchemaLine[]): Map<string, string> {
  const nameless = (line: string) => (INDEX_NAME.test(line) ? line.replace(INDEX_NAME, '$1') : undefined)
  const renamed = new Map<string, string>()
  for (const { line, effect } of unknown) {
    const text = effect === null ? undefined : nameless(line)
    const was = absent.find((other) => text !== undefined && nameless(other) === text)
    if (was !== undefined && ![...renamed.values()].includes(was)) renamed.set(line, was)
  }
  return renamed
}

// A trigger's line does not change when its function or condition is replaced, so the digest includes definitions.
async function digestAlarms(
  transaction: Transaction,
  missing: readonly string[],
  added: readonly SchemaLine[],
): Promise<string> {
  if (missing.length + added.length === 0) return ''
  const definitions = await findDefinitions(transaction, added)
  const parts = [...missing.map((line) => ['missing', line]), ...added.map(({ line }, at) => [line, definitions[at]])]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex')
}

/** The definitions of catalog objects, and of the functions that each names, but not of functions that these call. */
async function findDefinitions(transaction: Transaction, objects: readonly SchemaLine[]): Promise<string[]> {
  const rows = await transaction<{ definition: string }[]>`
    select pg_catalog.concat_ws(E'\\n',
      case o.catalog when 'pg_trigger' then pg_catalog.pg_get_triggerdef(o.id) || (select tgenabled::text from pg_trigger where oid = o.id)
                     when 'pg_rewrite' then pg_catalog.pg_get_ruledef(o.id)
                     when 'pg_constraint' then pg_catalog.pg_get_constraintdef(o.id)
                     when 'pg_proc' then (select pg_catalog.pg_get_functiondef(oid) from pg_proc where oid = o.id and prokind in ('f', 'p'))
                     when 'pg_policy' then (
                       select pg_catalog.concat_ws(' ', p.polcmd, p.polpermissive, p.polroles::regrole[]::text,
                                                   pg_catalog.pg_get_expr(p.polqual, p.polrelid), pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid))
                       from pg_policy as p where p.oid = o.id) end,
      (select pg_catalog.string_agg(pg_catalog.pg_get_functiondef(p.oid), E'\\n' order by p.oid::regprocedure::text collate "C")
       from pg_depend as d join pg_proc as p on p.oid = d.refobjid and p.prokind in ('f', 'p')
       where d.classid = o.catalog::regclass and d.objid = o.id and d.refclassid = 'pg_proc'::regclass)) as definition
    from unnest(${objects.map(({ catalog }) => catalog)}::text[], ${objects.map(({ object }) => object)}::bigint[]) with ordinality as a (catalog, id, at),
    lateral (select a.catalog, a.id::oid as id) as o
    order by a.at`
  return rows.map(({ definition }) => definition)
}

/**
 * Describes, as sorted lines, what unqualified names lead to. So a view or a temporary table in place of ours gives
 * other lines, and so does a search path with anything before PostgreSQL's catalog. Executes nothing of the database's
 * owner: the first statement names everything with its schema, and then names lead only to the catalog.
 */
export async function describeSchema(transaction: Transaction): Promise<SchemaLine[]> {
  const [path] = await transaction<{ schemas: string[] }[]>`
    select pg_catalog.current_schemas(true)::pg_catalog.text[] as schemas`
  const schemas = path?.schemas ?? []
  await transaction`set local search_path = pg_catalog, pg_temp`
  // Operators of an earlier schema would be called instead of PostgreSQL's.
  if (schemas[0] !== 'pg_catalog') return [lineOf(`search path ${schemas.join(', ')}`)]
  const rows = await transaction<SchemaLine[]>`
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
      select relnamespace as oid, ' ON ' || pg_catalog.quote_ident(nspname) || '.' as prefix,
             ' REFERENCES ' || pg_catalog.quote_ident(nspname) || '.' as reference
      from ours join pg_namespace as n on n.oid = relnamespace
      where ours.name = 'schema_version'
    ), functions as materialized ( -- or PostgreSQL looks up the names of its own 3,000 first, for two thirds of the time of it all
      select p.* from pg_proc as p join path on p.pronamespace = path.oid
    ), trees as (
      select 'pg_class' as catalog, i.indexrelid as object, pg_catalog.concat(i.indexprs::text, i.indpred::text) as tree
      from ours join pg_index as i on i.indrelid = ours.oid
      union all
      select 'pg_constraint', c.oid, c.conbin::text from ours join pg_constraint as c on c.conrelid = ours.oid and c.contype = 'c'
    ), impure as materialized ( -- each write executes these expressions: one of anything but PostgreSQL's own immutable functions can do anything
      select t.catalog, t.object from trees as t
      where exists (
        select from pg_catalog.regexp_matches(t.tree, '\\{([A-Z]+)', 'g') as n (node) where n.node[1] <> all (${PURE_NODES}::text[])
      ) or exists (
        select from pg_catalog.regexp_matches(t.tree, ':(funcid|opno) ([0-9]+)', 'g') as c (called)
        left join pg_operator as o on c.called[1] = 'opno' and o.oid = c.called[2]::oid
        left join pg_proc as p on p.oid = case c.called[1] when 'opno' then o.oprcode::oid else c.called[2]::oid end
        where p.oid is null or p.oid >= 16384 or p.provolatile <> 'i'
      )
    ), closed as ( -- types that no value of PostgreSQL's own becomes by itself, so that no expression of ours finds what takes them
      select t.oid from pg_type as t
      where t.oid >= 16384 and t.typtype in ('b', 'c', 'e') and t.typcategory <> 'A'
        and not exists (select from pg_cast as c where c.casttarget = t.oid and c.castcontext = 'i' and c.castsource < 16384)
    ), citus as ( -- what that extension makes in PostgreSQL's own catalog, which takes a superuser
      select d.classid, d.objid from pg_depend as d join pg_extension as e on e.oid = d.refobjid and e.extname = 'citus'
      where d.refclassid = 'pg_extension'::regclass and d.deptype = 'e'
    ), lines (line, effect, catalog, object) as (
      select case relkind when 'r' then 'table' when 'v' then 'view' when 'p' then 'partitioned table' when 'f' then 'foreign table'
                          else 'relation of kind ' || relkind::text end || ' ' || name
             || case relpersistence when 'p' then '' when 'u' then ' unlogged' else ' temporary' end
             || case when relispartition then ' partition' else '' end
             || case when relnamespace = (select oid from home) then '' else ' in schema ' || relnamespace::regnamespace::text end,
             null, 'pg_class', oid
      from ours
      union all
      select 'column ' || ours.name || '.' || a.attname || ' ' || pg_catalog.format_type(a.atttypid, a.atttypmod)
             || case when a.attnotnull then ' not null' else '' end
             || case when a.attcollation = t.typcollation then '' else ' collate ' || a.attcollation::regcollation::text end
             || case when a.attidentity = '' then '' else ' identity' end
             || case when d.adbin is null then ''
                     else case a.attgenerated when '' then ' default ' else ' generated ' end
                          || pg_catalog.regexp_replace(pg_catalog.pg_get_expr(d.adbin, d.adrelid), '\\s+', ' ', 'g') end,
             case when not a.attnotnull and d.adbin is null and t.typtype = 'b' then 'none' end, -- a domain may have a condition
             'pg_attrdef', coalesce(d.oid, 0)
      from ours join pg_attribute as a on a.attrelid = ours.oid and a.attnum > 0 and not a.attisdropped
      join pg_type as t on t.oid = a.atttypid left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
      union all
      select 'constraint ' || ours.name || '.' || c.conname || ' ' || pg_catalog.replace(pg_catalog.pg_get_constraintdef(c.oid), (select reference from home), ' REFERENCES '),
             case when c.contype in ('p', 'u', 'x')
                    or (c.contype = 'c' and not exists (select from impure where catalog = 'pg_constraint' and object = c.oid)) then 'refuses' end,
             'pg_constraint', c.oid
      from ours join pg_constraint as c on c.conrelid = ours.oid and c.contype <> 'n'
      union all
      select pg_catalog.replace(pg_catalog.pg_get_indexdef(i.indexrelid), (select prefix from home), ' ON ')
             || case when i.indisvalid and i.indisready and i.indislive and i.indimmediate then '' else ' invalid' end,
             case when c.relam >= 16384 or exists (select from impure where catalog = 'pg_class' and object = i.indexrelid)
                    or exists (select from pg_catalog.unnest(i.indclass::oid[] || i.indcollation::oid[]) as u (oid) where u.oid >= 16384) then null
                  when i.indisunique or i.indisexclusion or i.indexprs is not null or i.indpred is not null
                    or exists (select from pg_attribute as a where a.attrelid = ours.oid and a.attnum = any(i.indkey) and a.attname = any(${LONG_COLUMNS}::text[]))
                    then 'refuses'
                  else 'none' end,
             'pg_class', i.indexrelid
      from ours join pg_index as i on i.indrelid = ours.oid join pg_class as c on c.oid = i.indexrelid
      union all
      select 'trigger ' || t.tgname || ' on ' || ours.name || case t.tgenabled when 'D' then ' disabled' else '' end, null, 'pg_trigger', t.oid
      from ours join pg_trigger as t on t.tgrelid = ours.oid and (not t.tgisinternal or t.tgfoid >= 16384)
      where not (t.tgisinternal and t.tgname like 'truncate_trigger_%' and t.tgfoid in (select objid from citus where classid = 'pg_proc'::regclass))
      union all
      select 'rule ' || r.rulename || ' on ' || ours.name, null, 'pg_rewrite', r.oid from ours join pg_rewrite as r on r.ev_class = ours.oid
      union all
      select 'policy ' || p.polname || ' on ' || ours.name, null, 'pg_policy', p.oid from ours join pg_policy as p on p.polrelid = ours.oid
      union all
      select 'row level security of ' || name, null, 'pg_class', oid from ours where relrowsecurity or relforcerowsecurity
      union all
      select 'inheritance of ' || i.inhrelid::regclass::text || ' from ' || i.inhparent::regclass::text, null, 'pg_class', i.inhrelid
      from pg_inherits as i where i.inhparent in (select oid from ours) or i.inhrelid in (select oid from ours)
      union all
      -- One of a name that PostgreSQL has too may be called in its place, because its arguments fit better; not if they are the same. Whoever
      -- owns the database can make any function a member of an extension.
      select case when own.has_name then 'overloading ' else '' end || 'function ' || p.oid::regprocedure::text,
             case when p.proname <> 'unnest' and exists (select from pg_catalog.unnest(p.proargtypes::oid[]) as a (type) join closed on closed.oid = a.type) then 'none' end,
             'pg_proc', p.oid
      from functions as p, lateral (
        select pg_catalog.count(*) > 0 as has_name, coalesce(pg_catalog.bool_or(o.proargtypes = p.proargtypes), false) as has_arguments
        from pg_proc as o where o.pronamespace = 'pg_catalog'::regnamespace and o.proname = p.proname
      ) as own
      where (own.has_name and not (own.has_arguments and p.provariadic = 0 and p.pronargdefaults = 0))
        or not exists (select from pg_depend as d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
      union all
      -- initdb makes everything below the first normal oid; only a superuser adds a function to the catalog.
      select 'function pg_catalog.' || p.oid::regprocedure::text, null, 'pg_proc', p.oid
      from pg_proc as p where p.pronamespace = 'pg_catalog'::regnamespace and p.oid >= 16384
        and p.oid not in (select objid from citus where classid = 'pg_proc'::regclass)
      union all
      -- A call with one argument that no function fits exactly, as none fits a literal, is a cast to a type of its name.
      select 'overloading type ' || t.oid::regtype::text, null, 'pg_type', t.oid
      from pg_type as t join path on t.typnamespace = path.oid
      where t.typrelid not in (select oid from ours)
        and exists (select from pg_proc as o where o.pronamespace = 'pg_catalog'::regnamespace and o.proname = t.typname)
      union all
      select 'operator ' || o.oid::regoperator::text,
             -- A literal of ours may become a value of a closed type, such as an enum. So what takes one beside a type of PostgreSQL's own is
             -- harmless only in C: that needs a superuser.
             case when o.oprname <> all (${[...USED_OPERATORS]}::text[])
               or (select pg_catalog.bool_and(a.type = 0 or exists (select from closed where closed.oid = a.type))
                   from (values (o.oprleft), (o.oprright)) as a (type))
               or exists (select from closed where closed.oid in (o.oprleft, o.oprright)) and exists (
                    select from pg_proc as p join pg_language as l on l.oid = p.prolang
                    where p.oid = o.oprcode and l.lanname in ('c', 'internal'))
             then 'none' end,
             'pg_operator', o.oid
      from pg_operator as o join path on o.oprnamespace = path.oid
      where exists (select from pg_operator as c where c.oprnamespace = 'pg_catalog'::regnamespace and c.oprname = o.oprname)
        or not exists (select from pg_depend as d where d.classid = 'pg_operator'::regclass and d.objid = o.oid and d.deptype = 'e')
      union all
      -- A superuser can have PostgreSQL's own operators and casts call another function.
      select 'operator pg_catalog.' || o.oid::regoperator::text, null, 'pg_operator', o.oid from pg_operator as o
      where o.oprnamespace = 'pg_catalog'::regnamespace and (o.oid >= 16384 or o.oprcode::oid >= 16384)
        and o.oid not in (select objid from citus where classid = 'pg_operator'::regclass)
      union all
      -- A cast needs no schema.
      select 'cast from ' || c.castsource::regtype::text || ' to ' || c.casttarget::regtype::text, null, 'pg_cast', c.oid
      from pg_cast as c join pg_type as s on s.oid = c.castsource join pg_type as t on t.oid = c.casttarget
      where (c.oid >= 16384 or c.castfunc >= 16384) and s.typnamespace = 'pg_catalog'::regnamespace and t.typnamespace = 'pg_catalog'::regnamespace
      union all
      -- A row of ours that is deleted has such a table's rows looked for, deleted or updated, with all triggers of that table.
      select 'foreign key ' || pg_catalog.quote_ident(c.conname) || ' of ' || c.conrelid::regclass::text || ' to ' || ours.name, null, 'pg_constraint', c.oid
      from pg_constraint as c join ours on ours.oid = c.confrelid
      where c.contype = 'f' and c.conrelid not in (select oid from ours)
      union all
      select 'trigger ' || t.tgname || ' on ' || t.tgrelid::regclass::text || case t.tgenabled when 'D' then ' disabled' else '' end, null, 'pg_trigger', t.oid
      from pg_trigger as t
      where (not t.tgisinternal or t.tgfoid >= 16384) and t.tgrelid in (select conrelid from pg_constraint where confrelid in (select oid from ours))
        and t.tgrelid not in (select oid from ours)
      union all
      select 'rule ' || r.rulename || ' on ' || r.ev_class::regclass::text, null, 'pg_rewrite', r.oid
      from pg_rewrite as r
      where r.ev_class in (select conrelid from pg_constraint where confrelid in (select oid from ours))
        and r.ev_class not in (select oid from ours)
      union all
      select 'relation beside ' || c.oid::regclass::text, null, 'pg_class', c.oid
      from pg_class as c join path on c.relnamespace = path.oid
      where c.relname = any(${[...GRANTED_TABLES]}::text[]) and c.oid not in (select oid from ours)
      union all
      select 'event trigger ' || evtname || ' on ' || evtevent, null, 'pg_event_trigger', oid from pg_event_trigger where evtenabled <> 'D'
        and oid not in (select objid from citus where classid = 'pg_event_trigger'::regclass)
    )
    select line, effect, catalog, object::bigint as object from lines order by line collate "C"`
  const settings = [...(await findChangedSettings(transaction)), ...(await findWrongFormats(transaction))]
  return [...rows, ...settings.map(({ name, value, remedy }) => lineOf(`setting ${name} ${value} (${remedy})`))]
}

function lineOf(line: string): SchemaLine {
  return { line, effect: null, catalog: null, object: null }
}

async function findChangedSettings(transaction: Transaction): Promise<WrongFormat[]> {
  const changed = await transaction<{ name: string; value: string }[]>`
    select name, setting as value from pg_settings
    where name in ('session_replication_role', 'transform_null_equals') and setting <> boot_val`
  return changed.length === 0 ? [] : findRemedies(transaction, changed)
}

/** Schemas, quoted as in SQL: the one to which names lead, if any, and the others that have tables of ours. */
type Schemas = { own: string | null; others: string[] }

/** Says where the tables are if a session's path misses them; undefined if no other schema has any. */
export function describeElsewhere({ own, others }: Schemas): string | undefined {
  if (others.length === 0) return undefined
  return (
    `this role's search path leads to ${own === null ? 'no schema' : `the schema ${own}`}, and the tables of eaas are in ${others.join(', ')}: somebody set ` +
    'search_path for the role or the database. Undo that (alter role … reset search_path, alter database … reset search_path), or name that schema there'
  )
}

/** Finds the schemas in which a server could find an installation, given a suitable search path. Reads only the catalog. */
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
