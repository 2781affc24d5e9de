/** What a query of Drizzle selects: columns and expressions, in objects of the same shape as the rows of the result. */

import type { Row } from '@eaas/sdk/adapter'
import { type Column, is, SQL, Subquery, Table } from 'drizzle-orm'
import { isColumn, type KnownTables, nameOf } from './tables.js'

/** The members that lead to a value in a row. */
export type Path = readonly string[]

/** A column or an expression, and the path of its value in a row. */
export interface Leaf {
  leaf: unknown
  path: Path
}

/** Lists all that is selected, in order. */
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

/** Lists the columns that are selected by themselves. */
export function columnsIn(fields: Row): Column[] {
  return leavesOf(fields).flatMap(({ leaf }) => (isColumn(leaf) ? [leaf] : []))
}

/** Lists the columns of tables with a model, and their paths. */
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
