/**
 * Relational queries of Drizzle, `db.query`: conditions on every level are rewritten, and the rows of every
 * level opened.
 */

import { type Row, refuseExpression, refuseOrder } from '@eaas/sdk/adapter'
import { type Column, getOperators, getOrderByOperators, type Table } from 'drizzle-orm'
import { assertPlain, type Rewriting, rewrite } from './conditions.js'
import type { KnownTable, KnownTables } from './tables.js'

/** What Drizzle knows of a table and its relations. */
export interface TableConfig {
  columns: Record<string, Column>
  relations: Record<string, { referencedTable: Table }>
}

/** A part of a relational query: its own options, and those of its relations. */
export interface QueryConfig {
  columns?: Readonly<Record<string, boolean | undefined>>
  where?: unknown
  orderBy?: unknown
  extras?: unknown
  with?: Record<string, boolean | QueryConfig | undefined>
  [option: string]: unknown
}

/** Finds what Drizzle knows of a table. */
export type FindConfig = (table: Table) => TableConfig | undefined

/** Rewrites a query, whose conditions have gaps until `run`. */
export function rewriteQuery(
  rewriting: Rewriting,
  of: TableConfig,
  config: QueryConfig,
  find: FindConfig,
): QueryConfig {
  const { where, orderBy, extras } = config
  findKnown(rewriting.tables, of)?.sealed.assertReadable(selectedColumns(of, config))
  const call = (given: unknown, operators: unknown) =>
    typeof given === 'function' ? given(of.columns, operators) : given
  const out = { ...config }
  if (where !== undefined) {
    const searches = rewriting.searches.length
    const rewritten = rewrite(rewriting, call(where, getOperators()))
    // Drizzle puts its own aliases into conditions that are not functions, but not into their subqueries.
    const isSame = typeof where === 'function' && rewriting.searches.length === searches
    out.where = isSame ? where : rewritten
  }
  assertPlain(rewriting, [call(orderBy, getOrderByOperators())].flat(), refuseOrder)
  assertPlain(rewriting, Object.values(call(extras, getOperators()) ?? {}), refuseExpression)
  if (config.with) {
    const inner = Object.entries(config.with).map(([name, one]) => {
      const next = findNext(of, name, find)
      return [name, next && typeof one === 'object' ? rewriteQuery(rewriting, next, one, find) : one] as const
    })
    out.with = Object.fromEntries(inner)
  }
  return out
}

/** Opens the rows of a relational query in place, the tables of one level at once. */
export async function openLevels(
  tables: KnownTables,
  of: TableConfig,
  rows: readonly Row[],
  find: FindConfig,
): Promise<void> {
  // All are waited for at once: a second one that fails while nobody waited for it would end the process.
  await Promise.all([openOwn(tables, of, rows), ...openInner(tables, of, rows, find)])
}

function openInner(tables: KnownTables, of: TableConfig, rows: readonly Row[], find: FindConfig): Promise<void>[] {
  return Object.keys(of.relations).flatMap((name) => {
    const next = findNext(of, name, find)
    const found = rows.flatMap((row) => row[name] ?? []) as Row[]
    return next && found.length > 0 ? [openLevels(tables, next, found, find)] : []
  })
}

async function openOwn(tables: KnownTables, of: TableConfig, rows: readonly Row[]): Promise<void> {
  const known = findKnown(tables, of)
  if (!known) return
  const stored = rows.map((row) =>
    Object.fromEntries(Object.entries(row).filter(([key]) => Object.hasOwn(of.columns, key))),
  )
  const opened = await known.sealed.openRows(stored)
  for (const [at, row] of rows.entries()) Object.assign(row, opened[at])
}

function findKnown(tables: KnownTables, { columns }: TableConfig): KnownTable | undefined {
  const [column] = Object.values(columns)
  return column && tables.find(column.table)
}

/** The columns that Drizzle reads: those that are true or, where none is, those that are not named. */
function selectedColumns(of: TableConfig, { columns = {} }: QueryConfig): string[] {
  const all = Object.keys(of.columns)
  const isPositive = all.some((name) => columns[name] === true)
  return all.filter((name) => (isPositive ? columns[name] === true : columns[name] === undefined))
}

function findNext(of: TableConfig, relation: string, find: FindConfig): TableConfig | undefined {
  const table = of.relations[relation]?.referencedTable
  return table && find(table)
}
