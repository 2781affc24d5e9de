/** Conditions of Drizzle: replaces an encrypted column by its index, and refuses what no index can answer. */
import { refuseCall, refuseExpression, refuseOrder, type SealedPlaces, searchHint } from '@eaas/sdk/adapter'
import { type Column, eq, inArray, is, ne, notInArray, Param, Placeholder, SQL, StringChunk } from 'drizzle-orm'
import { isColumn, isExpression, type KnownTable, type KnownTables } from './tables.js'
import { assertOrderText, assertText, type TextScope } from './text.js'

type Refuse = (model: string, field: string) => never

/**
 * The rewriting of one query. It is synchronous: a promise that resolves to a query of Drizzle, which is thenable,
 * would run that query. So conditions get gaps, which `run` later fills with indexes.
 */
export interface Rewriting extends TextScope {
  /** The searches of encrypted columns. Each fills its gap with a condition on an index. */
  readonly searches: Search[]
  readonly changes: (() => void)[]
  /** Rewrites an inner query. @throws InvalidInputError if it selects sealed columns although `mayBeSealed` is false */
  visit(query: unknown, mayBeSealed: boolean): void
}

export interface Search {
  model: string
  field: string
  fill(): Promise<void>
}

export async function run({ searches, changes }: Rewriting): Promise<void> {
  await Promise.all(searches.map((search) => search.fill()))
  for (const change of changes) change()
}

/** Rewrites a condition, which has gaps until `run`. @throws InvalidInputError if its text names something encrypted */
export function rewrite(rewriting: Rewriting, condition: unknown): unknown {
  assertText(rewriting, condition)
  return rewriteBuilt(rewriting, condition)
}

/** The same for SQL that Drizzle wrote, whose text needs no check. */
export function rewriteBuilt(rewriting: Rewriting, condition: unknown): unknown {
  const { tables } = rewriting
  if (Array.isArray(condition)) return same(condition, rewriteAll(rewriting, condition))
  if (isColumn(condition)) {
    const known = tables.findSealed(condition)
    if (known) refuseExpression(known.sealed.name, known.keyOf(condition))
    return condition
  }
  if (is(condition, SQL.Aliased)) {
    assertNoSealed(tables, condition.sql)
    rewriteBuilt(rewriting, condition.sql)
    return condition
  }
  if (!is(condition, SQL)) {
    rewriting.visit(condition, false)
    return condition
  }
  const { queryChunks } = condition
  const [first, operator, ...rest] = queryChunks.filter((chunk) => !isBlank(chunk))
  if (isColumn(first) && is(operator, StringChunk)) {
    const known = tables.findSealed(first)
    if (known) return compare(rewriting, known, { condition, column: first, operator: textOf(operator), rest })
  }
  const rewritten = rewriteAll(rewriting, queryChunks) as typeof queryChunks
  return same(queryChunks, rewritten) === queryChunks ? condition : new SQL(rewritten)
}

function rewriteAll(rewriting: Rewriting, chunks: readonly unknown[]): unknown[] {
  return chunks.map((chunk, at) => {
    const before = chunks[at - 1]
    // `exists` reads no value, so its query may select sealed columns.
    if (!is(before, StringChunk) || !/\bexists$/.test(textOf(before)) || is(chunk, SQL))
      return rewriteBuilt(rewriting, chunk)
    rewriting.visit(chunk, true)
    return chunk
  })
}

function same<T>(before: readonly T[], after: readonly T[]): readonly T[] {
  return after.every((one, at) => one === before[at]) ? before : after
}

type Compare = (index: Column, values: string[]) => SQL

const OPERATORS: Readonly<Record<string, { many: boolean; make: Compare }>> = {
  '=': { many: false, make: (index, [value]) => eq(index, value) },
  '<>': { many: false, make: (index, [value]) => ne(index, value) },
  in: { many: true, make: inArray },
  'not in': { many: true, make: notInArray },
}

/** `searches.ts` has already removed the searches that may find more rows than match. */
const SEARCH_HINT = searchHint(
  'Search so in the `where` of a select, alone or within `and`, by an index of parts or of buckets, and count the rows.',
)

const WORDS: Readonly<Record<string, string>> = {
  '>': 'gt',
  '>=': 'gte',
  '<': 'lt',
  '<=': 'lte',
  '=': 'eq',
  '<>': 'ne',
}

/** Returns the name of Drizzle's function for an SQL operator. */
export function wordOf(operator: string): string {
  return WORDS[operator] ?? operator.replaceAll(/ (.)/g, (_, first: string) => first.toUpperCase())
}

type Comparison = { condition: SQL; column: Column; operator: string; rest: readonly unknown[] }

function compare({ searches }: Rewriting, known: KnownTable, { condition, column, operator, rest }: Comparison): SQL {
  const { sealed } = known
  const key = known.keyOf(column)
  // Null is stored as null, so comparisons with it need no index.
  if (/^is( not)? null$/.test(operator) && rest.length === 0) return condition
  const how = OPERATORS[operator]
  const [value] = rest
  if (!how || rest.length !== 1 || how.many !== Array.isArray(value))
    return sealed.searches.refuse(key, wordOf(operator), SEARCH_HINT)
  const values = (how.many ? (value as readonly unknown[]) : [value]).map((one) => valueIn(known, key, one))
  const gap = new SQL([])
  const fill = async () => {
    const found = await sealed.findEqual(key, operator, values)
    gap.append(how.make(indexBeside(known, column, found.column), found.values))
  }
  searches.push({ model: sealed.name, field: key, fill })
  return gap
}

/** Returns the index column under the same alias or subquery as its field. */
export function indexBeside({ columns }: KnownTable, { table }: Column, name: string): Column {
  const index = (table as unknown as Record<string, Column>)[name] ?? columns[name]
  if (!index) throw new Error(`${name} is not a column of the table`)
  return index
}

function valueIn({ sealed }: KnownTable, key: string, value: unknown): unknown {
  if (is(value, Param)) return value.value
  if (is(value, Placeholder)) {
    const hint = 'Give the value itself: its index is computed before the query is sent.'
    refuseCall(`a placeholder for ${sealed.name}.${key}`, hint)
  }
  // Anything else of Drizzle's is an expression: another column, a query.
  if (isExpression(value)) return refuseExpression(sealed.name, key)
  return value
}

/** Refuses an encrypted column in an expression, and rewrites the queries inside of it. */
export function assertPlain(rewriting: Rewriting, part: unknown): void {
  assertNoSealed(rewriting.tables, part)
  assertText(rewriting, part)
  rewriteBuilt(rewriting, part)
}

/** Refuses to sort or group rows by an encrypted column, named or by its position in the result. */
export function assertOrder(rewriting: Rewriting, part: unknown, places: SealedPlaces = { places: [] }): void {
  assertNoSealed(rewriting.tables, part, refuseOrder)
  assertOrderText(rewriting, part, places)
  rewriteBuilt(rewriting, part)
}

export function assertNoSealed(tables: KnownTables, part: unknown, refuse: Refuse = refuseExpression): void {
  if (Array.isArray(part)) for (const one of part) assertNoSealed(tables, one, refuse)
  else if (isColumn(part)) {
    const known = tables.findSealed(part)
    if (known) refuse(known.sealed.name, known.keyOf(part))
  } else if (is(part, SQL)) assertNoSealed(tables, part.queryChunks, refuse)
  else if (is(part, SQL.Aliased)) assertNoSealed(tables, part.sql, refuse)
}

export function textOf(chunk: StringChunk): string {
  return chunk.value.join('').trim().toLowerCase()
}

export function isBlank(chunk: unknown): boolean {
  return chunk === undefined || (is(chunk, StringChunk) && textOf(chunk) === '')
}
