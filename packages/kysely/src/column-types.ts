/**
 * Reads the types of the columns that values are bound to, which Kysely does not know, from PostgreSQL or SQLite,
 * once for each table.
 */

import { isSpelledUuid, isSpelledWhole, type Row, spellUuid, spellWhole } from '@eaas/sdk/adapter'
import { RawNode, ValueNode } from 'kysely'
import type { Node } from './nodes.js'

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
  const query = RawNode.create([QUERY, ')'], [ValueNode.create(pathOf(table))])
  const rows = (await run(query as unknown as Node)) as {
    name: string
    type: string
    category: string
    is_deterministic: boolean
  }[]
  return new Map(
    rows.map(({ name, is_deterministic, ...type }) => [name, { ...type, isDeterministic: is_deterministic }]),
  )
}

/**
 * The columns of SQLite that hold text; for the others, a type says too little. SQLite does not report their
 * collation.
 */
const QUERY_OF_SQLITE = `select name from pragma_table_info(`
const HOLD_TEXT = `) where type not like '%int%' and (type like '%char%' or type like '%clob%' or type like '%text%')`

/** @param table the node of a table of SQLite */
export async function readTextColumns(run: Run, table: Node): Promise<ColumnTypes> {
  const { schema, identifier } = table.table as { schema?: { name: string }; identifier: { name: string } }
  const names = [identifier.name, ...(schema ? [schema.name] : [])].map((name) => ValueNode.create(name))
  const query = RawNode.create([QUERY_OF_SQLITE, ...names.slice(1).map(() => ', '), HOLD_TEXT], names)
  const rows = (await run(query as unknown as Node)) as { name: string }[]
  return new Map(rows.map(({ name }) => [name, { type: 'text', category: 'S', isDeterministic: false }]))
}

/** The quoted name of a table, with its schema if it has one. */
export function pathOf(table: Node): string {
  const { schema, identifier } = table.table as Partial<Record<'schema' | 'identifier', { name: string }>>
  return [schema, identifier].flatMap((one) => (one ? [`"${one.name.replaceAll('"', '""')}"`] : [])).join('.')
}

const WHOLE = /^(smallint|integer|bigint|numeric(\(\d+,0\))?)$/
const EXACT_TEXT = /^(text|name|character( varying)?(\(\d+\))?)$/

/** Tells whether a column finds values in one spelling only, once they are spelled. */
export function isExact(column: ColumnType | undefined): boolean {
  if (!column?.isDeterministic) return false
  return column.type === 'uuid' || WHOLE.test(column.type) || EXACT_TEXT.test(column.type) || column.category === 'E'
}

/** Spells a value as its column returns it, or returns undefined if that is unknown. */
export function spellFor(column: ColumnType, value: string | number | bigint): unknown {
  const { type, category } = column
  if (type === 'uuid') return isSpelledUuid(spellUuid(value)) ? spellUuid(value) : undefined
  if (WHOLE.test(type)) return isSpelledWhole(spellWhole(value)) ? spellWhole(value) : undefined
  const [, padded] = /^character(?:\((\d+)\))?$/.exec(type) ?? []
  if (type.startsWith('character(') || type === 'character') {
    return String(value).length === Number(padded ?? 1) ? value : undefined // PostgreSQL fills it with spaces
  }
  if (type.startsWith('character varying')) return String(value).endsWith(' ') ? undefined : value // or cuts them
  return category === 'S' || category === 'E' ? String(value) : undefined // a driver of SQLite would turn 7 into 7.0
}
