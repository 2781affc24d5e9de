/**
 * Searches of a select by indexes that find more rows than match: `like`, ranges and truncated indexes. The rows are
 * opened, then filtered; `limit` and `offset` count only the rows that remain.
 */
import { namesInSql, type Query, readSearch, refuseCall, refuseCount, takeSearches } from '@eaas/sdk/adapter'
import { and, arrayContains, type Column, eq, inArray, is, Param, SQL, StringChunk } from 'drizzle-orm'
import { indexBeside, isBlank, type Rewriting, textOf, wordOf } from './conditions.js'
import { isColumn, type KnownTable, type KnownTables } from './tables.js'

export type Asked = { known: KnownTable; column: Column; query: Query; operator: string }

/** Removes the searches from a condition, if they are alone or joined by `and`; returns them and the rest. */
export function withoutSearches(tables: KnownTables, where: unknown): { rest: unknown; asked: readonly Asked[] } {
  const isSame = (one: Asked, other: Asked) => one.column === other.column
  const { rest, asked } = takeSearches(conjunctsOf(where), (part) => readAsked(tables, part), isSame)
  return { rest: asked.length === 0 ? where : and(...(rest as SQL[])), asked }
}

/** Returns the condition on the indexes, with gaps until `run` fills them. */
export function searchFor({ searches }: Rewriting, asked: readonly Asked[]): SQL | undefined {
  return and(
    ...asked.map(({ known, column, query, operator }) => {
      const { sealed } = known
      const field = known.keyOf(column)
      const gap = new SQL([])
      const fill = async () => {
        const found = await sealed.searches.find(field, query, wordOf(operator))
        gap.append(conditionOn(known, column, found))
      }
      searches.push({ model: sealed.name, field, fill })
      return gap
    }),
  )
}

function conditionOn(known: KnownTable, beside: Column, found: { column: string; by: string; values: string[] }): SQL {
  const index = indexBeside(known, beside, found.column)
  if (found.by === 'equal') return eq(index, found.values[0])
  return found.by === 'in' ? inArray(index, found.values) : arrayContains(index, found.values)
}

/** Tells whether an opened row matches. `valueAt` returns the value of the nth searched column. */
export function areRight(asked: readonly Asked[], valueAt: (at: number) => unknown): boolean {
  return asked.every(({ known, column, query }, at) => {
    const field = known.keyOf(column)
    return known.sealed.searches.matches({ [field]: valueAt(at) }, [{ field, query }])
  })
}

/** Reads the number of a `limit` or an `offset`. @throws InvalidInputError for SQL, or a placeholder */
export function numberOf(value: unknown, name: string): number | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'number') return value
  return refuseCall(`${name} other than a number, of a search that finds more rows than match,`, 'Pass a number.')
}

/** Refuses window functions, which would count rows that are filtered out. @throws InvalidInputError */
export function assertNoWindow(parts: readonly unknown[]): void {
  for (const part of parts) {
    if (is(part, SQL.Aliased)) assertNoWindow([part.sql])
    else if (is(part, SQL)) assertNoWindow(part.queryChunks)
    else if (is(part, StringChunk) && namesInSql(textOf(part)).some(({ name }) => name === 'over')) refuseCount()
  }
}

function chunksOf(part: unknown): unknown[] {
  return is(part, SQL) ? part.queryChunks.filter((chunk) => !isBlank(chunk)) : []
}

const isText = (chunk: unknown, text: string) => is(chunk, StringChunk) && textOf(chunk) === text

function conjunctsOf(part: unknown): unknown[] {
  if (part === undefined) return []
  const chunks = chunksOf(part)
  const [first, inner, last] = chunks
  if (chunks.length === 1 && is(first, SQL)) return conjunctsOf(first)
  if (chunks.length !== 3 || !isText(first, '(') || !isText(last, ')') || !is(inner, SQL)) return [part]
  const isAnd = inner.queryChunks.every((chunk, at) => at % 2 === 0 || isText(chunk, 'and'))
  return isAnd ? inner.queryChunks.filter((_, at) => at % 2 === 0).flatMap(conjunctsOf) : [part]
}

/** Reads a value in a comparison: `like` holds it bare, other operators as a parameter. */
function readValue(chunk: unknown): { value: unknown } | undefined {
  if (is(chunk, Param)) return chunk
  return typeof chunk === 'string' || typeof chunk === 'number' || chunk instanceof Date ? { value: chunk } : undefined
}

/** The columns of databases where a backslash escapes the wildcards of `like`; in SQLite it does not. */
const ESCAPE = /^(Pg|MySql|SingleStore)/

function readAsked(tables: KnownTables, part: unknown): Asked | undefined {
  const [column, word, given, then, last, ...more] = chunksOf(part)
  const [value, end] = [readValue(given), readValue(last)]
  if (!isColumn(column) || !is(word, StringChunk) || more.length > 0) return undefined
  const known = tables.findSealed(column)
  const operator = textOf(word)
  const isWhole = operator === 'between' ? isText(then, 'and') && end : then === undefined
  if (!known || !value || !isWhole) return undefined
  const values = [value.value, end?.value]
  const escapes = ESCAPE.test(column.columnType)
  const query = readSearch(known.sealed, known.keyOf(column), { operator, values, escapes })
  return query && { known, column, query, operator }
}
