/** Reads the types of the columns that values are bound to, which Kysely does not know, from PostgreSQL or SQLite. */
import { quoteName, type Row, spellAs } from '@eaas/sdk/adapter'
import { type Node, rawNode, valueNode } from './nodes.js'

/** Runs a query on the connection of the rewritten query. */
export type Run = (query: Node) => Promise<Row[]>

export interface ColumnType {
  /** The type, or that of a domain, as PostgreSQL names it. */
  type: string
  /** `S` for text, `E` for an enum: the column `typcategory` of `pg_type`. */
  category: string
  /** Whether different values are never equal: false where a collation ignores case. */
  isDeterministic: boolean
}

export type ColumnTypes = ReadonlyMap<string, ColumnType>

const QUERY = `select a.attname as name, b.typcategory as category,
  coalesce(c.collisdeterministic, true) as is_deterministic,
  format_type(b.oid, case t.typbasetype when 0 then a.atttypmod else t.typtypmod end) as type
from pg_catalog.pg_attribute a
join pg_catalog.pg_type t on t.oid = a.atttypid
join pg_catalog.pg_type b on b.oid = case t.typbasetype when 0 then t.oid else t.typbasetype end
left join pg_catalog.pg_collation c on c.oid = a.attcollation
where a.attnum > 0 and not a.attisdropped and a.attrelid = to_regclass(`

/** @param table the node of a table */
export async function readColumnTypes(run: Run, table: Node): Promise<ColumnTypes> {
  const rows = await run(rawNode([QUERY, ')'], [valueNode(pathOf(table))]))
  const types = rows as unknown as (Omit<ColumnType, 'isDeterministic'> & { name: string; is_deterministic: boolean })[]
  return new Map(
    types.map(({ name, is_deterministic: isDeterministic, ...type }) => [name, { ...type, isDeterministic }]),
  )
}

/** The columns of SQLite that hold text; for others, a type says too little. SQLite does not report their collation. */
const QUERY_OF_SQLITE = `select name from pragma_table_info(`
const HOLD_TEXT = `) where type not like '%int%' and (type like '%char%' or type like '%clob%' or type like '%text%')`

/** @param table the node of a table of SQLite */
export async function readTextColumns(run: Run, table: Node): Promise<ColumnTypes> {
  const { schema, identifier } = namesIn(table)
  const names = [identifier, schema].flatMap((one) => (one ? valueNode(one.name) : []))
  const rows = await run(rawNode([QUERY_OF_SQLITE, ...names.slice(1).map(() => ', '), HOLD_TEXT], names))
  return new Map(rows.map(({ name }) => [String(name), { type: 'text', category: 'S', isDeterministic: false }]))
}

function namesIn(table: Node): Partial<Record<'schema' | 'identifier', { name: string }>> {
  return table.table as object
}

/** The quoted name of a table, with its schema if it has one. */
export function pathOf(table: Node): string {
  const { schema, identifier } = namesIn(table)
  return identifier ? quoteName(identifier.name, schema?.name) : ''
}

const WHOLE = /^(smallint|integer|bigint|numeric(\(\d+,0\))?)$/
const EXACT_TEXT = /^(text|name|character( varying)?(\(\d+\))?)$/

/** Tells whether a column finds values in one spelling only, once they are spelled. */
export function isExact(column: ColumnType | undefined): boolean {
  if (!column?.isDeterministic) return false
  return column.type === 'uuid' || WHOLE.test(column.type) || EXACT_TEXT.test(column.type) || column.category === 'E'
}

/** Spells a value as its column returns it, or returns undefined if that is unknown. */
export function spellFor(column: ColumnType, value: string | number | bigint) {
  const { type, category } = column
  return spellAs(WHOLE.test(type) ? 'bigint' : type, value, category === 'S' || category === 'E')
}
