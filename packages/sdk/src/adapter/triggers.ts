/** Finds triggers of PostgreSQL that change what is written: an altered value never opens again. */
import { InvalidInputError } from '../errors.js'
import { literal, type RunSql } from './made-ids.js'
import type { SealedTable } from './sealed-table.js'
import { isName, isSign, readings, type Token } from './sql-tokens.js'

/** The triggers before the insert or update of a row, with the text of their functions. */
const QUERY = `select t.tgname::text as name, p.prosrc as source
from pg_catalog.pg_trigger t join pg_catalog.pg_proc p on p.oid = t.tgfoid
where not t.tgisinternal and t.tgenabled <> 'D' and t.tgtype & 3 = 3 and t.tgtype & 20 <> 0 and t.tgrelid = to_regclass(`

/** The tables that were asked about, by their model: it may seal one of each schema. */
const asked = new WeakMap<SealedTable, Set<string>>()

/**
 * Refuses to write a table of PostgreSQL that `assertUnchanged` refuses. Call it before each insert and update: it asks
 * once for each table.
 *
 * @param table its name in SQL, quoted, with its schema if the search path does not find it
 * @param nameIn returns the name of a column in the database
 * @throws InvalidInputError
 */
export async function assertWritable(
  run: RunSql,
  sealed: SealedTable,
  { table, nameIn = (column) => column }: { table: string; nameIn?: (column: string) => string },
): Promise<void> {
  const tables = asked.get(sealed) ?? new Set()
  if (tables.has(table)) return
  const columns = sealed.columns.filter((column) => sealed.isSealed(column)).map(nameIn)
  await assertUnchanged(run, { model: sealed.name, table, columns })
  asked.set(sealed, tables.add(table))
}

/**
 * Refuses a table on which a trigger changes an encrypted column, where the text of its function shows that.
 *
 * @param table its name in SQL, quoted, with its schema if the search path does not find it
 * @param columns the encrypted columns, as the database names them
 * @throws InvalidInputError
 */
export async function assertUnchanged(
  run: RunSql,
  { model, table, columns }: { model: string; table: string; columns: readonly string[] },
): Promise<void> {
  const names = columns.map((column) => column.toLowerCase())
  for (const { name, source } of (await run(`${QUERY}${literal(table)})`)) as {
    name: string
    source?: string
  }[]) {
    const column = findChanged(source ?? '', names)
    if (column === undefined) continue
    throw new InvalidInputError(
      `the trigger ${name} of the table of ${model} changes the column ${column}, whose values would never open again`,
      'Drop the trigger, and normalize by the model: text({ normalize: […] }).',
    )
  }
}

const BEGIN = new Set(['begin', 'then', 'else', 'loop', ';'])

/** Returns the column of these that a function in PL/pgSQL assigns, as `new.email := …` or `select … into new.email`. */
export function findChanged(source: string, columns: readonly string[]): string | undefined {
  for (const given of readings(source)) {
    const tokens = given.filter(({ kind }) => kind !== 'comment')
    const found = tokens.find((token, at) => isName(token) && columns.includes(token.text) && isAssigned(tokens, at))
    if (found) return found.text
  }
  return undefined
}

function isAssigned(tokens: readonly Token[], at: number): boolean {
  if (!isSign(tokens[at - 1], '.') || tokens[at - 2]?.text !== 'new') return false
  const [before, after, next] = [tokens[at - 3], tokens[at + 1], tokens[at + 2]]
  if (before?.text === 'into' || (isSign(after, ':') && isSign(next, '='))) return true
  return isSign(after, '=') && (!before || BEGIN.has(before.text)) // elsewhere it compares
}
