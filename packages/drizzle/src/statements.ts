/** Statements of SQL as text, which Drizzle executes unchanged. */

import { is, SQL } from 'drizzle-orm'
import { createRewriting, refuseSearch } from './rewriting.js'
import type { KnownTables } from './tables.js'
import { assertNotNamed } from './text.js'

/**
 * Checks what is passed to `execute`, or is the text of a common table expression. @throws InvalidInputError when it writes a table with encrypted
 * columns, or names such a column
 */
export function assertStatement(tables: KnownTables, statement: unknown): void {
  const dry = createRewriting(tables)
  for (const query of queriesIn(statement)) dry.visit(query, true)
  if (dry.searches[0]) refuseSearch(dry.searches[0].model, dry.searches[0].field)
  assertNotNamed(statement, tables.names)
}

function queriesIn(part: unknown): unknown[] {
  if (Array.isArray(part)) return part.flatMap(queriesIn)
  return is(part, SQL) ? part.queryChunks.flatMap(queriesIn) : [part]
}
