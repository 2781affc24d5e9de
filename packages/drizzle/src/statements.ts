/** Statements of SQL as text, which Drizzle executes unchanged. */

import { findTableInStatement, refuseCall } from '@eaas/sdk/adapter'
import { Column, getTableName, is, Name, SQL, StringChunk, Table } from 'drizzle-orm'
import { createRewriting, refuseSearch } from './rewriting.js'
import type { KnownTables } from './tables.js'

/**
 * Checks what is passed to `execute`. @throws InvalidInputError when it writes a table with encrypted
 * columns, or names such a column
 */
export function assertStatement(tables: KnownTables, statement: unknown): void {
  const dry = createRewriting(tables)
  for (const query of queriesIn(statement)) dry.visit(query, true)
  if (dry.searches[0]) refuseSearch(dry.searches[0].model, dry.searches[0].field)
  const table = findTableInStatement(textOf(statement), tables.names)
  if (table === undefined) return
  const hint =
    'Use the methods of Drizzle, or execute it on the database that was passed to `encrypted`, which sees what is stored.'
  refuseCall(`SQL as text that names the table ${table}`, hint)
}

function queriesIn(part: unknown): unknown[] {
  if (Array.isArray(part)) return part.flatMap(queriesIn)
  return is(part, SQL) ? part.queryChunks.flatMap(queriesIn) : [part]
}

/** The text of a statement, with `?` for its values and for the queries inside. */
function textOf(part: unknown): string {
  if (typeof part === 'string') return part
  if (Array.isArray(part)) return part.map(textOf).join('')
  if (is(part, SQL))
    return part.queryChunks.map((chunk) => (typeof chunk === 'string' ? ' ? ' : textOf(chunk))).join('')
  if (is(part, StringChunk)) return part.value.join('')
  if (is(part, Name)) return `"${part.value}"`
  if (is(part, Table)) return `"${getTableName(part)}"`
  return is(part, Column) ? `${textOf(part.table)}."${part.name}"` : ' ? '
}
