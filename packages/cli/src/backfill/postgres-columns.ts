/** The columns of a PostgreSQL table, and which of them belong to the model. */
import { InvalidInputError } from '@eaas/sdk'
import { nearestName, readMembers, type TableColumns } from '@eaas/sdk/maintenance'
import { assertBinds, assertHoldsEnvelopes, type PostgresColumn } from './postgres-values.js'
import { isSealedCheck } from './sealed-checks.js'
import { columnNames } from './table.js'

/** Runs a statement whose only column is JSON text, and returns its parsed values. */
export type Ask = (text: string, parameters?: string[]) => Promise<unknown[]>

export type Placed = { name: string; column: PostgresColumn }

export interface FoundTable {
  /** The names of its database, its schema and itself, quoted if needed. */
  name: string
  table: string
  columns: Map<string, PostgresColumn>
  primary: string[]
  unique: string[][]
  /** The names of constraints that refuse plaintext, including those that the application's migrations added. */
  sealedChecks: string[]
}

interface Catalogue {
  name: string
  table: string
  hasChildren: boolean
  hidesRows: boolean
  columns: [string, string, string, number, boolean][]
  indexes: [boolean, string[] | null, number][] | null
  checks: [string, string][] | null
}

/** Reads the columns and the unique keys of a table. @throws InvalidInputError when there is none */
export async function readTable(ask: Ask, table: string): Promise<FoundTable> {
  const [found] = (await ask(
    `select json_build_object(
       'name', format('%I.%I.%I', current_database(), (select n.nspname from pg_catalog.pg_namespace n where n.oid = c.relnamespace), c.relname),
       'table', c.relname,
       'hasChildren', c.relkind = 'r' and exists (select from pg_catalog.pg_inherits h where h.inhparent = c.oid),
       'hidesRows', row_security_active(c.oid),
       'columns', (select json_agg(json_build_array(a.attname, format_type(a.atttypid, -1), case b.typname when 'citext' then 'citext' else format_type(b.oid, null) end, a.atttypmod, b.typtype = 'e'))
         from pg_catalog.pg_attribute a
         join lateral (with recursive of_domain(oid) as (
           select a.atttypid union all
           select t.typbasetype from of_domain join pg_catalog.pg_type t on t.oid = of_domain.oid where t.typbasetype <> 0
         ) select t.oid, t.typname, t.typtype from of_domain join pg_catalog.pg_type t on t.oid = of_domain.oid where t.typbasetype = 0) b on true
         where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped),
       'indexes', (select json_agg(json_build_array(i.indisprimary, (select json_agg(a.attname order by k.at)
           from unnest(i.indkey::int2[]) with ordinality as k(attnum, at)
           join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum and a.attnotnull
           where k.at <= i.indnkeyatts), i.indnkeyatts))
         from pg_catalog.pg_index i where i.indrelid = c.oid and i.indisunique and i.indisvalid and i.indpred is null),
       'checks', (select json_agg(json_build_array(k.conname, pg_get_constraintdef(k.oid)) order by k.conname)
         from pg_catalog.pg_constraint k where k.conrelid = c.oid and k.contype = 'c')
     )::text as r from pg_catalog.pg_class c where c.oid = to_regclass($1::text)`,
    [table],
  )) as [Catalogue?]
  if (!found) throw new InvalidInputError(`there is no table ${table}`, 'Name its schema too: "crm.users".')
  if (found.hasChildren) {
    const hint = 'Take away the inheritance meanwhile (`alter table … no inherit …`), and name each table.'
    throw new InvalidInputError(`tables inherit from ${table}, and its key does not tell their rows apart`, hint)
  }
  // Asks the catalogue: `row_security = off` must be set before a statement is parsed, which a single statement behind
  // a pooler cannot do for itself.
  if (found.hidesRows)
    throw new InvalidInputError(
      `row-level security may hide rows of ${table} from this role`,
      'Connect as the owner of the table, or as a role with `bypassrls`; with `force row level security` the owner needs that too.',
    )
  // Types are written as for casts, so `bpchar` and `"bit"`: casts to `character` and `bit` keep one character or bit.
  const columns = found.columns.map(([name, type, base, modifier, isEnum]): [string, PostgresColumn] => {
    const maxLength = base === 'character varying' && modifier > 4 ? modifier - 4 : undefined
    return [name, { name, type, base, maxLength, isEnum }]
  })
  // An index over an expression, or over a column that may be null, does not tell rows apart.
  const unique = (found.indexes ?? []).filter(([, names, count]) => names?.length === count)
  const [, primary] = unique.find(([isPrimary]) => isPrimary) ?? []
  return {
    name: found.name,
    table: found.table,
    columns: new Map(columns),
    primary: primary ?? [],
    unique: unique.map(([, names]) => names ?? []),
    sealedChecks: (found.checks ?? []).flatMap(([name, definition]) => (isSealedCheck(definition) ? [name] : [])),
  }
}

export function getColumn({ columns }: Pick<FoundTable, 'columns'>, name: string): PostgresColumn {
  const column = columns.get(name)
  if (column) return column
  const near = nearestName(name, [...columns.keys()])
  const meant = near === undefined ? '' : `: did you mean ${JSON.stringify(near)}?`
  const message = `the table has no column ${JSON.stringify(name)}${meant}`
  throw new InvalidInputError(message, 'Name it in `columns`.', { option: 'columns' })
}

export interface Places {
  key: PostgresColumn[]
  /** The columns of envelopes, or of their shared header. */
  envelopes: PostgresColumn[]
  columns: Placed[]
}

/** Finds the model's columns. @throws InvalidInputError naming one that is missing or cannot hold its values */
export function placeColumns(
  wanted: TableColumns,
  { columns, primary, unique }: FoundTable,
  {
    key = primary,
    renamed,
    readColumns,
  }: { key?: readonly string[] | undefined; renamed: Readonly<Record<string, string>>; readColumns: readonly string[] },
): Places {
  const names = readMembers('columns', renamed, [...columnNames(wanted), ...readColumns])
  const get = (name: string) => getColumn({ columns }, name)
  const placed = (name: string): Placed => ({ name, column: get(names[name] ?? name) })
  const { fields, indexes, bind, header } = wanted
  const hasHeader =
    header.required ||
    ['json', 'jsonb', 'text'].includes(columns.get(names[header.column] ?? header.column)?.base ?? '')
  const sealed = [...fields, ...(hasHeader ? [header.column] : [])].map(placed)
  const envelopes = sealed.map(({ column }) => column)
  for (const column of envelopes) assertHoldsEnvelopes(column)
  for (const { column: name, list } of indexes) {
    const { base } = placed(name).column
    const fitting = list ? ['text[]', 'json', 'jsonb'] : ['text', 'character varying', 'citext']
    if (!fitting.includes(base)) {
      const hint = `Give it the type ${fitting[0]}.`
      throw new InvalidInputError(`the column of the index ${JSON.stringify(name)} is of type ${base}`, hint)
    }
  }
  for (const name of bind) assertBinds(placed(name).column)
  const own = new Map(
    [...sealed, ...indexes.map(({ column }) => placed(column)), ...bind.map(placed)].map((one) => [one.name, one]),
  )
  const others = readColumns.filter((name) => !own.has(name)).map(placed)
  for (const { column } of others) assertBinds(column, '`readColumns` names')
  if (key.length === 0 || !unique.some((one) => one.every((name) => key.includes(name)))) {
    const hint = 'Name columns of a unique index, none of which may be null, in `key`.'
    throw new InvalidInputError('the rows have no unique key', hint, { option: 'key' })
  }
  return { key: key.map(get), envelopes, columns: [...own.values(), ...others] }
}
