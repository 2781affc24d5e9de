/** What the text of SQL names, beside the objects of Drizzle in it. */
import { findTableInStatement, quoteName, refuseCall } from '@eaas/sdk/adapter'
import { Column, getTableName, is, Name, SQL, StringChunk, Table } from 'drizzle-orm'
import type { KnownTables } from './tables.js'

const HINT =
  'Use the methods of Drizzle, or execute it on the database that was passed to `encrypted`, which sees what is stored.'

/** @throws InvalidInputError for a statement that writes one of these tables, or names such a column */
export function assertNotNamed(statement: unknown, names: KnownTables['names']): void {
  const table = findTableInStatement(sqlText(statement), names)
  if (table !== undefined) refuseCall(`SQL as text that names the table ${table}`, HINT)
}

/** Refuses text that writes a table with encrypted columns, in SQL whose selection is read by its columns. */
export function assertNoWrite(tables: KnownTables, statement: SQL): void {
  assertNotNamed(
    statement,
    tables.names.map(([table]) => [table, () => false]),
  )
}

/** The text of a statement, or of one that Drizzle has built, with `?` for its values and for the queries inside. */
export function sqlText(part: unknown): string {
  if (typeof part === 'string') return part
  if (Array.isArray(part)) return part.map(sqlText).join('')
  if (is(part, SQL))
    return part.queryChunks.map((chunk) => (typeof chunk === 'string' ? ' ? ' : sqlText(chunk))).join('')
  if (is(part, StringChunk)) return part.value.join('')
  if (is(part, Name)) return quoteName(part.value)
  if (is(part, Table)) return quoteName(getTableName(part))
  if (is(part, Column)) return `${sqlText(part.table)}.${quoteName(part.name)}`
  const { sql } = (part ?? {}) as { sql?: unknown }
  return typeof sql === 'string' ? sql : ' ? '
}
