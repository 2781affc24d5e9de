/** Relational queries of Drizzle, `db.query`: rewrites the conditions and opens the rows of every level. */
import { pageOf, type Row } from '@eaas/sdk/adapter'
import { type Column, getOperators, getOrderByOperators, type Table } from 'drizzle-orm'
import { assertOrder, assertPlain, type Rewriting, rewrite } from './conditions.js'
import { namesOf, within } from './rewriting.js'
import { areRight, assertNoWindow, numberOf, withoutSearches } from './searches.js'
import type { KnownTable, KnownTables } from './tables.js'

export type TableConfig = { columns: Record<string, Column>; relations: Record<string, { referencedTable: Table }> }

/** A part of a relational query: its own options, and those of its relations. */
export interface QueryConfig {
  columns?: Readonly<Record<string, boolean | undefined>>
  where?: unknown
  orderBy?: unknown
  extras?: unknown
  with?: Record<string, boolean | QueryConfig | undefined>
  [option: string]: unknown
}

export type FindConfig = (table: Table) => TableConfig | undefined

/** Rewrites a query, whose conditions have gaps until `run`. */
export function rewriteQuery(outer: Rewriting, of: TableConfig, config: QueryConfig, find: FindConfig): QueryConfig {
  const { where, orderBy, extras } = config
  const rewriting = within(outer, [tableOf(of)])
  const selected = selectedColumns(of, config).flatMap((key) => namesOf(outer.tables, of.columns[key] as Column))
  const call = (given: unknown, operators: unknown) =>
    typeof given === 'function' ? given(of.columns, operators) : given
  const out = withColumns(config, lackingColumns(rewriting.tables, of, config))
  if (where !== undefined) {
    const searches = rewriting.searches.length
    const rewritten = rewrite(rewriting, call(where, getOperators()))
    // Drizzle puts its own aliases into conditions that are not functions, but not into subqueries in them.
    const isSame = typeof where === 'function' && rewriting.searches.length === searches
    out.where = isSame ? where : rewritten
  }
  assertOrder(rewriting, [call(orderBy, getOrderByOperators())].flat(), { places: [], later: selected })
  assertPlain(rewriting, Object.values(call(extras, getOperators()) ?? {}))
  if (config.with) {
    const inner = Object.entries(config.with).map(([name, one]) => {
      const next = findNext(of, name, find)
      return [name, next && typeof one === 'object' ? rewriteQuery(rewriting, next, one, find) : one] as const
    })
    out.with = Object.fromEntries(inner)
  }
  return out
}

type Level = { of: TableConfig; config: QueryConfig; rows: readonly Row[] }

/** Opens the rows of a relational query in place, level by level. */
export async function openLevels(tables: KnownTables, level: Level, find: FindConfig): Promise<void> {
  const { of, config, rows } = level
  // Awaits all together: a second rejection that nothing awaits would end the process.
  await Promise.all([openOwn(tables, of, rows), ...openInner(tables, level, find)])
  const hidden = lackingColumns(tables, of, config)
  if (hidden.length > 0) for (const row of rows) for (const key of hidden) delete row[key]
}

function openInner(tables: KnownTables, { of, config, rows }: Level, find: FindConfig): Promise<void>[] {
  return Object.keys(of.relations).flatMap((name) => {
    const next = findNext(of, name, find)
    const found = rows.flatMap((row) => row[name] ?? []) as Row[]
    const inner = config.with?.[name]
    const level = next && { of: next, config: typeof inner === 'object' ? inner : {}, rows: found }
    return level && found.length > 0 ? [openLevels(tables, level, find)] : []
  })
}

function lackingColumns(tables: KnownTables, of: TableConfig, config: QueryConfig): string[] {
  return findKnown(tables, of)?.sealed.readsToo(selectedColumns(of, config)) ?? []
}

function withColumns(config: QueryConfig, lacking: readonly string[]): QueryConfig {
  if (lacking.length === 0) return { ...config }
  const { columns = {} } = config
  const isPositive = Object.values(columns).includes(true)
  const kept = Object.entries(columns).filter(([key]) => !lacking.includes(key))
  const more = isPositive ? lacking.map((key) => [key, true]) : []
  const { columns: _, ...others } = config
  const all = [...kept, ...more]
  return all.length === 0 ? others : { ...config, columns: Object.fromEntries(all) }
}

async function openOwn(tables: KnownTables, of: TableConfig, rows: readonly Row[]): Promise<void> {
  const known = findKnown(tables, of)
  if (!known) return
  const storedIn = (row: Row) =>
    Object.fromEntries(Object.entries(row).filter(([key]) => Object.hasOwn(of.columns, key)))
  const opened = await known.sealed.openRows(rows.map(storedIn))
  for (const [at, row] of rows.entries()) Object.assign(row, opened[at])
}

function findKnown(tables: KnownTables, { columns }: TableConfig): KnownTable | undefined {
  const [column] = Object.values(columns)
  return column && tables.find(column.table)
}

/** Lists the columns that Drizzle reads: those set to true or, if none is, all that are not named. */
function selectedColumns(of: TableConfig, { columns = {} }: QueryConfig): string[] {
  const all = Object.keys(of.columns)
  const isPositive = all.some((name) => columns[name] === true)
  return all.filter((name) => (isPositive ? columns[name] === true : columns[name] === undefined))
}

function findNext(of: TableConfig, relation: string, find: FindConfig): TableConfig | undefined {
  const table = of.relations[relation]?.referencedTable
  return table && find(table)
}

export function tableOf({ columns }: TableConfig): Table {
  return Object.values(columns)[0]?.table as Table
}

/** Removes the searches from the outermost condition; undefined if it has none. */
export function takeSearched(tables: KnownTables, of: TableConfig, config: QueryConfig) {
  const { where: given, limit, offset, ...others } = config
  const call = (part: unknown): unknown => (typeof part === 'function' ? part(of.columns, getOperators()) : part)
  const { rest, asked } = withoutSearches(tables, call(given))
  if (asked.length === 0) return undefined
  assertNoWindow(Object.values(call(config.extras) ?? {}))
  const page = { skip: numberOf(offset, 'offset'), take: numberOf(limit, 'limit') }
  const fields = asked.map(({ known, column }) => known.keyOf(column))
  const selected = selectedColumns(of, config)
  const hidden = fields.filter((field) => !selected.includes(field))
  return {
    /** The query without its searches and its page, with the searched columns. */
    config: { ...withColumns(others, hidden), where: rest },
    asked,
    /** Returns the matching ones of the opened rows, in the page and with the columns of the query. */
    filter(rows: Row[]) {
      const right = pageOf(rows, (row) => areRight(asked, (at) => row[fields[at] ?? '']), page)
      for (const row of right) for (const field of hidden) delete row[field]
      return right
    },
  }
}
