/** Opens the rows that Drizzle returns, wherever a selection has put their columns. */
import { type Column, is, Subquery } from 'drizzle-orm'
import type { Row } from '../../input.js'
import { getAt, type Path, putAt } from '../../records/paths.js'
import { isRecord } from '../../records/plain-rows.js'
import { refuseExpression, refuseReturning } from '../refusals.js'
import { assertNoSealed } from './conditions.js'
import { columnsIn, leavesOf, selectedBy } from './selections.js'
import { isColumn, type KnownTable, type KnownTables, nameOf } from './tables.js'

/** A table of a selection, by the alias under which it is selected, and where its columns are in a result. */
interface Selected {
  known: KnownTable
  places: { key: string; path: Path }[]
}

/**
 * Makes the function that opens the rows of a selection.
 *
 * @param options.mustOpen whether to refuse an encrypted column without those that it is bound to now, rather than when a row is opened
 * @throws InvalidInputError for an encrypted column in an expression
 */
export function readSelection(
  tables: KnownTables,
  fields: Row,
  { mustOpen = false } = {},
): (rows: readonly Row[]) => Promise<readonly Row[]> {
  const selected = new Map<string, Selected>()
  for (const { leaf, path } of leavesOf(fields)) {
    if (isColumn(leaf)) addColumn(tables, leaf, path, selected)
    else if (is(leaf, Subquery)) assertNoSealed(tables, columnsIn(selectedBy(leaf)), refuseExpression)
    else assertNoSealed(tables, leaf, refuseExpression)
  }
  const sealed = [...selected.values()].filter(({ known, places }) =>
    places.some(({ key }) => known.sealed.isSealed(key)),
  )
  if (mustOpen) for (const one of sealed) assertBound(one)
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

function assertBound({ known: { sealed }, places }: Selected): void {
  const field = places.find(({ key }) => sealed.isSealed(key))?.key ?? ''
  const lacking = sealed.bind.find((name) => !places.some(({ key }) => key === name.split('.')[0]))
  if (lacking !== undefined) refuseReturning(sealed.name, field, lacking)
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
      if (isRecord(getAt(row, path.slice(0, -1))) && known.sealed.isSealed(key)) putAt(row, path, opened[at]?.[key])
    }
  }
}
