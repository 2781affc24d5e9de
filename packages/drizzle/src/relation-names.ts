/** The names by which SQL text can name the encrypted columns of a query. */
import type { NamedRelation, Row, SealedColumn, SealedPlaces } from '@eaas/sdk/adapter'
import { type Column, getTableColumns, getTableName, is, Subquery, Table } from 'drizzle-orm'
import { columnsIn, leavesOf, selectedBy } from './selections.js'
import { isColumn, type KnownTables } from './tables.js'

/** Names the tables and subqueries that a query reads. */
export function relationsOf(tables: KnownTables, sources: readonly unknown[]): NamedRelation[] {
  return sources.flatMap((source): NamedRelation[] => {
    if (is(source, Subquery)) {
      return [{ alias: source._.alias, sealed: columnsIn(selectedBy(source)).flatMap((one) => namesOf(tables, one)) }]
    }
    if (!is(source, Table)) return []
    const columns = Object.values(getTableColumns(source))
    const plain = columns.filter((one) => !tables.findSealed(one)).map(({ name }) => name)
    return [{ alias: getTableName(source), sealed: columns.flatMap((one) => namesOf(tables, one)), plain }]
  })
}

/** Tells at which places of a result encrypted columns are. */
export function placesOf(tables: KnownTables, fields: Row): SealedPlaces {
  return { places: leavesOf(fields).map(({ leaf }) => (isColumn(leaf) ? namesOf(tables, leaf) : [])) }
}

/** Returns the names of an encrypted column: `casing` of Drizzle may have made another. */
export function namesOf(tables: KnownTables, column: Column): SealedColumn[] {
  const known = tables.findSealed(column)
  if (!known) return []
  const field = known.keyOf(column)
  return [column.name, known.nameIn(field)].map((name) => ({ name, model: known.sealed.name, field }))
}
