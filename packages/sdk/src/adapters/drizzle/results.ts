/** Opens the rows that Drizzle returns, wherever a selection has put their columns. */
import { type Column, is, SQL, Table } from 'drizzle-orm'
import type { Row } from '../../input.js'
import { getAt, type Path, putAt } from '../../records/paths.js'
import { isRecord } from '../../records/plain-rows.js'
import { refuseExpression } from '../refusals.js'
import { assertNoSealed } from './conditions.js'
import { isColumn, type KnownTable, type KnownTables } from './tables.js'

/** A table of a selection, by the alias under which it is selected, and where its columns are in a result. */
interface Selected {
  known: KnownTable
  places: { key: string; path: Path }[]
}

/** Makes the function that opens the rows of a selection. @throws InvalidInputError for an encrypted column in an expression */
export function readSelection(tables: KnownTables, fields: Row): (rows: readonly Row[]) => Promise<readonly Row[]> {
  const selected = new Map<string, Selected>()
  collect(tables, fields, [], selected)
  const sealed = [...selected.values()].filter(({ known, places }) =>
    places.some(({ key }) => known.sealed.isSealed(key)),
  )
  return async (rows) => {
    if (sealed.length > 0 && Array.isArray(rows)) await Promise.all(sealed.map((one) => openSelected(one, rows)))
    return rows
  }
}

function collect(tables: KnownTables, fields: Row, at: Path, selected: Map<string, Selected>): void {
  for (const name of Object.keys(fields)) {
    const field = fields[name]
    const path = [...at, name]
    if (isColumn(field)) addColumn(tables, field, path, selected)
    else if (is(field, SQL) || is(field, SQL.Aliased)) assertNoSealed(tables, field, refuseExpression)
    else if (is(field, Table)) collect(tables, columnsIn(field), path, selected)
    else if (typeof field === 'object' && field !== null) collect(tables, field as Row, path, selected)
  }
}

function addColumn(tables: KnownTables, column: Column, path: Path, selected: Map<string, Selected>): void {
  const known = tables.find(column.table)
  if (!known) return
  const alias = String((column.table as unknown as Record<symbol, unknown>)[Symbol.for('drizzle:Name')])
  const one = selected.get(alias) ?? { known, places: [] }
  one.places.push({ key: known.keyOf(column), path })
  selected.set(alias, one)
}

function columnsIn(table: Table): Row {
  return (table as unknown as Record<symbol, Row>)[Symbol.for('drizzle:Columns')] ?? {}
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
