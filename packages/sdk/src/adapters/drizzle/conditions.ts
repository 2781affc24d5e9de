/** Conditions of Drizzle: puts the index in place of an encrypted column, and refuses what no index can answer. */
import { type Column, eq, inArray, is, ne, notInArray, Param, SQL, StringChunk } from 'drizzle-orm'
import type { Row } from '../../input.js'
import { refuseExpression, refuseOperator } from '../refusals.js'
import { isColumn, type KnownTable, type KnownTables } from './tables.js'

/** Drizzle's state of a select, which it reads when the query is executed. */
export interface SelectConfig {
  fields: Row
  table: unknown
  where?: unknown
  having?: unknown
  orderBy?: readonly unknown[]
  groupBy?: readonly unknown[]
  distinct?: unknown
  joins?: { on?: unknown; table: unknown }[]
  setOperators?: { rightSelect: unknown; orderBy?: readonly unknown[] }[]
}

/** Rewrites a condition. `visit` is called for each query inside it. */
export async function rewrite(
  tables: KnownTables,
  condition: unknown,
  visit: (query: unknown) => Promise<void>,
): Promise<unknown> {
  if (Array.isArray(condition)) return Promise.all(condition.map((one) => rewrite(tables, one, visit)))
  if (isColumn(condition)) {
    const known = tables.findSealed(condition)
    if (known) refuseExpression(known.sealed.name, known.keyOf(condition))
    return condition
  }
  if (!is(condition, SQL)) {
    await visit(condition)
    return condition
  }
  const chunks = condition.queryChunks.filter((chunk) => !isBlank(chunk))
  const [first, operator, ...rest] = chunks
  if (isColumn(first) && is(operator, StringChunk)) {
    const known = tables.findSealed(first)
    if (known) return compare(known, first, textOf(operator), rest)
  }
  const rewritten = await Promise.all(condition.queryChunks.map((chunk) => rewrite(tables, chunk, visit)))
  if (rewritten.every((chunk, at) => chunk === condition.queryChunks[at])) return condition
  return new SQL(rewritten as typeof condition.queryChunks)
}

const OPERATORS: Readonly<Record<string, { many: boolean; negated: boolean }>> = {
  '=': { many: false, negated: false },
  '<>': { many: false, negated: true },
  in: { many: true, negated: false },
  'not in': { many: true, negated: true },
}

async function compare(known: KnownTable, column: Column, operator: string, rest: readonly unknown[]): Promise<SQL> {
  const { sealed } = known
  const key = known.keyOf(column)
  // Null is stored as null, so that these two need no index.
  if (/^is( not)? null$/.test(operator) && rest.length === 0) return new SQL([column, new StringChunk(` ${operator}`)])
  const how = OPERATORS[operator]
  const [value] = rest
  if (!how || rest.length !== 1 || how.many !== Array.isArray(value)) return refuseOperator(sealed.name, key, operator)
  const values = (how.many ? (value as readonly unknown[]) : [value]).map((one) => valueIn(known, key, one))
  const { column: name, values: indexes } = await sealed.findEqual(key, operator, values)
  const index = (column.table as unknown as Record<string, Column>)[name] ?? known.columns[name]
  if (!index) throw new Error(`${name} is not a column of the table`)
  if (how.many) return how.negated ? notInArray(index, indexes) : inArray(index, indexes)
  return how.negated ? ne(index, indexes[0]) : eq(index, indexes[0])
}

function valueIn({ sealed }: KnownTable, key: string, value: unknown): unknown {
  if (is(value, Param)) return value.value
  // Anything else that Drizzle knows is an expression: another column, a query, a placeholder.
  if (typeof value === 'object' && value !== null && 'getSQL' in value) return refuseExpression(sealed.name, key)
  return value
}

/** Refuses an encrypted column anywhere in a part of a query. */
export function assertNoSealed(
  tables: KnownTables,
  part: unknown,
  refuse: (model: string, field: string) => never,
): void {
  if (Array.isArray(part)) for (const one of part) assertNoSealed(tables, one, refuse)
  else if (isColumn(part)) {
    const known = tables.findSealed(part)
    if (known) refuse(known.sealed.name, known.keyOf(part))
  } else if (is(part, SQL)) assertNoSealed(tables, part.queryChunks, refuse)
  else if (is(part, SQL.Aliased)) assertNoSealed(tables, part.sql, refuse)
}

/** Finds the values that a condition says the row has in some columns, by their keys: `id = 7`, alone or joined by `and`. */
export function pinnedBy(known: KnownTable, condition: unknown): Row {
  if (!is(condition, SQL)) return {}
  const chunks = condition.queryChunks.filter((chunk) => !isBlank(chunk))
  const [first, operator, value] = chunks
  if (isColumn(first) && is(operator, StringChunk)) {
    const isEqual = chunks.length === 3 && textOf(operator) === '=' && is(value, Param)
    return isEqual && known.columns[known.keyOf(first)]?.table === first.table
      ? { [known.keyOf(first)]: value.value }
      : {}
  }
  const isJoined = chunks.every(
    (chunk) => is(chunk, SQL) || (is(chunk, StringChunk) && /^(and|\(|\))$/.test(textOf(chunk))),
  )
  return isJoined ? Object.assign({}, ...chunks.map((chunk) => pinnedBy(known, chunk))) : {}
}

export function textOf(chunk: StringChunk): string {
  return chunk.value.join('').trim().toLowerCase()
}

function isBlank(chunk: unknown): boolean {
  return chunk === undefined || (is(chunk, StringChunk) && textOf(chunk) === '')
}
