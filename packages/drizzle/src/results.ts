/** Opens the rows that Drizzle returns, wherever a selection has put their columns. */

import { type Row, refuseExpression } from '@eaas/sdk/adapter'
import { type Column, is, Subquery } from 'drizzle-orm'
import { assertNoSealed } from './conditions.js'
import { columnsIn, leavesOf, type Path, selectedBy } from './selections.js'
import { isColumn, type KnownTable, type KnownTables, nameOf } from './tables.js'

/** A table of a selection, by the alias under which it is selected, and where its columns are in a result. */
interface Selected {
  known: KnownTable
  places: { key: string; path: Path }[]
}

/**
 * Makes the function that opens the rows of a selection.
 *
 * @throws InvalidInputError for an encrypted column in an expression, or without those that it is bound to
 */
export function readSelection(tables: KnownTables, fields: Row): (rows: readonly Row[]) => Promise<readonly Row[]> {
  const selected = new Map<string, Selected>()
  for (const { leaf, path } of leavesOf(fields)) {
    if (isColumn(leaf)) addColumn(tables, leaf, path, selected)
    else if (is(leaf, Subquery)) assertNoSealed(tables, columnsIn(selectedBy(leaf)), refuseExpression)
    else assertNoSealed(tables, leaf, refuseExpression)
  }
  for (const { known, places } of selected.values()) known.sealed.assertReadable(places.map(({ key }) => key))
  const sealed = [...selected.values()].filter(({ known, places }) =>
    places.some(({ key }) => known.sealed.isSealed(key)),
  )
  return async (rows) => {
    if (sealed.length > 0 && Array.isArray(rows)) await Promise.all(sealed.map((one) => openSelected(one, rows)))
    return rows
  }
}

function addColumn(tables: KnownTables, column: Column, path: Path, selected: Map<string, Selected>): void {
  const known = tables.find(column.table)
  if (!known) return
  const alias = String((column.table as unknown as Record<symbol, unknown>)[Symbol.for('drizzle:Name')])
  // A subquery has one alias for the columns of all tables in it.
  const from = JSON.stringify([alias, nameOf(known.table)])
  const one = selected.get(from) ?? { known, places: [] }
  one.places.push({ key: known.keyOf(column), path })
  selected.set(from, one)
}

async function openSelected({ known, places }: Selected, rows: readonly Row[]): Promise<void> {
  // Null in place of a whole object is a row that an outer join did not find.
  const stored = rows.map((row) =>
    Object.fromEntries(
      places.map(({ key, path }) => [key, getAt(row, path)] as const).filter(([, value]) => value !== undefined),
    ),
  )
  const opened = await known.sealed.openRows(stored)
  for (const [at, row] of rows.entries()) {
    for (const { key, path } of places) {
      const parent = getAt(row, path.slice(0, -1))
      if (isObject(parent) && known.sealed.isSealed(key)) parent[path.at(-1) ?? ''] = opened[at]?.[key]
    }
  }
}

/** Returns the value at a path, or undefined where the path ends early. */
function getAt(row: Row, path: Path): unknown {
  return path.reduce<unknown>(
    (value, name) => (isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined),
    row,
  )
}

function isObject(value: unknown): value is Row {
  return typeof value === 'object' && value !== null
}
