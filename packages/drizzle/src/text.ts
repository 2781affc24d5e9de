/** The names in SQL text between Drizzle's objects. */
import {
  assertSqlOrder,
  assertSqlPart,
  assertStatement,
  type NamedRelations,
  namesInSql,
  quoteName,
  type SealedPlaces,
} from '@eaas/sdk/adapter'
import { Column, getTableName, is, Name, SQL, StringChunk, Table } from 'drizzle-orm'
import type { KnownTables } from './tables.js'

const HINT =
  'Use the methods of Drizzle, or execute it on the database that was passed to `encrypted`, which sees what is stored.'

/** @throws InvalidInputError for a statement that writes one of these tables, or names an encrypted column */
export function assertNotNamed(statement: unknown, names: KnownTables['names']): void {
  assertStatement(sqlText(statement), names, HINT)
}

/** Refuses text that writes a table with encrypted columns, in SQL whose results are opened by their columns. */
export function assertNoWrite(tables: KnownTables, statement: SQL): void {
  assertNotNamed(
    statement,
    tables.names.map(([table]) => [table, () => false]),
  )
}

/** Checks the SQL text in a part of a query, but not the column objects in it. */
export function assertText(within: TextScope, part: unknown): void {
  for (const text of textsOf(within, part)) assertSqlPart(text, within.relations, { hint: HINT })
}

/** The same for `order by` and `group by`, where a number may be a position in the result. */
export function assertOrderText(within: TextScope, part: unknown, places: SealedPlaces): void {
  for (const text of textsOf(within, part)) assertSqlOrder(text, within.relations, places)
}

export interface TextScope {
  tables: KnownTables
  relations: NamedRelations
  /** The SQL in the place of a table, if any. */
  from: string
}

/** Lists the SQL texts in a part. @throws InvalidInputError if one contains a query of a table with a model */
function textsOf(within: TextScope, part: unknown): string[] {
  if (Array.isArray(part)) return part.flatMap((one) => textsOf(within, one))
  const { tables, from } = within
  const sql = is(part, SQL.Aliased) && !isOfSubquery(part) ? part.sql : part
  if (!is(sql, SQL)) return []
  const text = partText(sql)
  const isNamed = namesInSql(text).some(
    ({ name, isQualifier }) => !isQualifier && tables.names.some(([table]) => table.toLowerCase() === name),
  )
  if (isNamed) assertNotNamed(text, tables.names)
  if (from !== '') assertNotNamed(`select ${text} from ${from}`, tables.names)
  return [text]
}

/** Tells whether a named expression comes from a subquery, where its text was already checked. */
function isOfSubquery(named: object): boolean {
  return (named as { isSelectionField?: boolean }).isSelectionField === true
}

/** SQL of subqueries that was checked before it was built: the built SQL contains the selected columns. */
export const checked = new WeakSet<object>()

/** The text of a part, with `?` for its columns, for most of its values and for the queries inside. */
export function partText(part: unknown): string {
  if (is(part, Column) || checked.has(part as object)) return ' ? '
  return chunkText(part, partText)
}

function sqlText(part: unknown): string {
  if (typeof part === 'string') return part
  if (is(part, Column)) return `${sqlText(part.table)}.${quoteName(part.name)}`
  const { sql } = (part ?? {}) as { sql?: unknown }
  return typeof sql === 'string'
    ? sql
    : chunkText(part, (chunk) => (typeof chunk === 'string' ? ' ? ' : sqlText(chunk)))
}

function chunkText(part: unknown, textOf: (chunk: unknown) => string): string {
  if (typeof part === 'number') return String(part) // a driver may inline a number, which may then be a position
  if (Array.isArray(part)) return part.map(textOf).join('')
  if (is(part, SQL)) return part.queryChunks.map(textOf).join('')
  if (is(part, StringChunk)) return part.value.join('')
  if (is(part, Name)) return quoteName(part.value)
  return is(part, Table) ? quoteName(getTableName(part)) : ' ? '
}
