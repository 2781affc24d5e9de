/** Opens the rows that Drizzle returns, wherever a selection has put their columns. */
import type { Row } from '@eaas/sdk/adapter'
import { type Column, is, SQL, Subquery, Table } from 'drizzle-orm'
import { assertNoSealed } from './conditions.js'
import { isColumn, type KnownTable, type KnownTables, nameOf } from './tables.js'

/** Adds the columns by which rows are filtered; `filter` of `readSelection` finds their values. */
export function withFiltered(fields: Row, columns: readonly Column[]): Row {
  return { ...fields, ...Object.fromEntries(columns.map((column, at) => [filteredKey(at), column])) }
}

export function filteredKey(at: number): string {
  return `${BOUND}filter_${at}`
}

/** Begins the names of the columns that are added at the end of a selection. */
const BOUND = 'eaas_bound_'

/**
 * Adds the columns that encrypted ones are bound to, if a selection leaves them out; `readSelection` removes them from
 * the rows. `sources` are those of the query: a subquery has only the columns that it selects.
 */
export function withBound(tables: KnownTables, fields: Row, sources: readonly unknown[] = []): Row {
  const out = { ...fields }
  for (const { known, places, from } of selectedTables(tables, fields).values()) {
    const subquery = sources.find((one) => is(one, Subquery) && one._.alias === aliasOf(from)) as Subquery | undefined
    for (const [at, key] of known.sealed.readsToo(places.map((place) => place.key)).entries()) {
      const column = subquery ? columnOf(tables, known, subquery, key) : (from.table as unknown as Row)[key]
      if (column) out[`${BOUND}${Object.keys(out).length}_${at}`] = column
    }
  }
  return out
}

function columnOf(tables: KnownTables, known: KnownTable, subquery: Subquery, key: string): unknown {
  const found = leavesOf(selectedBy(subquery)).find(({ leaf, path }) => {
    return isColumn(leaf) && path.length === 1 && tables.find(leaf.table) === known && known.keyOf(leaf) === key
  })
  return found && (subquery as unknown as Row)[found.path[0] ?? '']
}

/** A table of a selection, by the alias under which it is selected, and the paths of its columns in a result. */
type Selected = { known: KnownTable; from: Column; places: { key: string; path: Path }[] }

/**
 * Makes the function that opens the rows of a selection, and returns what `filter` leaves of them. @throws
 * InvalidInputError for an encrypted column in an expression, or without the columns that it is bound to
 */
export function readSelection(
  tables: KnownTables,
  fields: Row,
  filter = (rows: readonly Row[]) => rows,
): (rows: readonly Row[]) => Promise<readonly Row[]> {
  const selected = selectedTables(tables, fields)
  for (const { leaf } of leavesOf(fields)) {
    if (isColumn(leaf)) continue
    if (is(leaf, Subquery)) assertNoSealed(tables, columnsIn(selectedBy(leaf)))
    else assertNoSealed(tables, leaf)
  }
  for (const { known, places } of selected.values()) known.sealed.assertReadable(places.map(({ key }) => key))
  const sealed = [...selected.values()].filter(({ known, places }) =>
    places.some(({ key }) => known.sealed.isSealed(key)),
  )
  const added = Object.keys(fields).filter((key) => key.startsWith(BOUND))
  return async (rows) => {
    if (sealed.length > 0 && Array.isArray(rows)) await Promise.all(sealed.map((one) => openSelected(one, rows)))
    const right = filter(rows)
    if (added.length > 0) for (const row of right) for (const key of added) delete row[key]
    return right
  }
}

function selectedTables(tables: KnownTables, fields: Row): Map<string, Selected> {
  const selected = new Map<string, Selected>()
  for (const { leaf, path } of leavesOf(fields)) if (isColumn(leaf)) addColumn(tables, leaf, path, selected)
  return selected
}

function addColumn(tables: KnownTables, column: Column, path: Path, selected: Map<string, Selected>): void {
  const known = tables.find(column.table)
  if (!known) return
  // A subquery has one alias for the columns of all tables in it.
  const name = JSON.stringify([aliasOf(column), nameOf(known.table)])
  const one = selected.get(name) ?? { known, from: column, places: [] }
  one.places.push({ key: known.keyOf(column), path })
  selected.set(name, one)
}

function aliasOf({ table }: Column): string {
  return String((table as unknown as Record<symbol, unknown>)[Symbol.for('drizzle:Name')])
}

async function openSelected({ known, places }: Selected, rows: readonly Row[]): Promise<void> {
  // Null in place of a whole object means that an outer join found no row.
  const storedIn = (row: Row) => {
    const values = places.map(({ key, path }) => [key, getAt(row, path)] as const)
    return Object.fromEntries(values.filter(([, value]) => value !== undefined))
  }
  const opened = await known.sealed.openRows(rows.map(storedIn))
  for (const [at, row] of rows.entries()) {
    for (const { key, path } of places) {
      const parent = getAt(row, path.slice(0, -1))
      if (isObject(parent) && known.sealed.isSealed(key)) parent[path.at(-1) ?? ''] = opened[at]?.[key]
    }
  }
}

function getAt(row: Row, path: Path): unknown {
  return path.reduce<unknown>(
    (value, name) => (isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined),
    row,
  )
}

function isObject(value: unknown): value is Row {
  return typeof value === 'object' && value !== null
}

export type Path = readonly string[]

/** A column or an expression, and the path of its value in a row. */
export type Leaf = { leaf: unknown; path: Path }

export function leavesOf(fields: Row, at: Path = []): Leaf[] {
  return Object.keys(fields).flatMap((name) => {
    const field = fields[name]
    const path = [...at, name]
    if (isColumn(field) || is(field, SQL) || is(field, SQL.Aliased) || is(field, Subquery))
      return [{ leaf: field, path }]
    if (is(field, Table)) return leavesOf(columnsOf(field), path)
    return typeof field === 'object' && field !== null ? leavesOf(field as Row, path) : []
  })
}

export function columnsIn(fields: Row): Column[] {
  return leavesOf(fields).flatMap(({ leaf }) => (isColumn(leaf) ? [leaf] : []))
}

export function knownPlaces(tables: KnownTables, fields: Row): [path: Path, table: string, key: string][] {
  return leavesOf(fields).flatMap(({ leaf, path }) => {
    const known = isColumn(leaf) ? tables.find(leaf.table) : undefined
    return known && isColumn(leaf) ? [[path, nameOf(known.table), known.keyOf(leaf)]] : []
  })
}

/** Returns what a subquery selects. Reading it in Drizzle's way throws for expressions without a name. */
export function selectedBy(subquery: Subquery): Row {
  const state: Subquery['_'] = Object.getOwnPropertyDescriptor(subquery, '_')?.value ?? subquery._
  return state.selectedFields as Row
}

function columnsOf(table: Table): Row {
  return (table as unknown as Record<symbol, Row>)[Symbol.for('drizzle:Columns')] ?? {}
}
