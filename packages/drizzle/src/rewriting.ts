/** Rewrites each part of a Drizzle query, or checks that it names no encrypted column. */
import {
  type NamedRelation,
  type Row,
  refuseCall,
  refuseOrder,
  type SealedColumn,
  type SealedPlaces,
} from '@eaas/sdk/adapter'
import { type Column, getTableColumns, getTableName, is, SQL, Subquery, Table } from 'drizzle-orm'
import { assertNoSealed, assertOrder, assertPlain, type Rewriting, rewrite, rewriteBuilt } from './conditions.js'
import { columnsIn, knownPlaces, leavesOf, selectedBy } from './results.js'
import { isColumn, type KnownTables } from './tables.js'
import { assertNoWrite, checked, partText } from './text.js'

/** Drizzle's state of a select, which it reads when the query is executed. */
export interface SelectConfig {
  withList?: readonly unknown[]
  fields: Row
  table: unknown
  where?: unknown
  having?: unknown
  orderBy?: readonly unknown[]
  groupBy?: readonly unknown[]
  distinct?: boolean | { on: readonly unknown[] }
  joins?: { on?: unknown; table: unknown }[]
  setOperators?: SetOperator[]
  limit?: unknown
  offset?: unknown
}

export interface WriteConfig {
  withList?: readonly unknown[]
  table: unknown
  from?: unknown
  joins?: { on?: unknown; table: unknown }[]
  where?: unknown
  values?: unknown
  set?: Row
  onConflict?: unknown
  orderBy?: unknown
  returningFields?: Row
}

type SetOperator = { isAll: boolean; rightSelect: unknown; orderBy?: readonly unknown[] }

/** @param sources the tables and subqueries that its SQL can name */
export function createRewriting(tables: KnownTables, sources: readonly unknown[] = []): Rewriting {
  const none = { tables, relations: [], from: '', searches: [], changes: [], visit: () => undefined }
  return within(none, sources)
}

/** Returns the rewriting of an inner query, which can name these sources and those around it. */
export function within(rewriting: Rewriting, sources: readonly unknown[]): Rewriting {
  const relations = [...relationsOf(rewriting.tables, sources), ...rewriting.relations]
  const from = [rewriting.from, ...sources.filter((one) => is(one, SQL)).map(partText)].filter(Boolean).join(', ')
  const inner: Rewriting = {
    ...rewriting,
    relations,
    from,
    visit: (query, mayBeSealed) => visit(inner, query, mayBeSealed),
  }
  return inner
}

/** Makes the SQL of a query that needs no rewriting. @throws InvalidInputError if it does */
export function buildChecked(tables: KnownTables, config: SelectConfig | WriteConfig, build: () => unknown): unknown {
  assertFinal(tables, config)
  const built = build()
  if (is(built, SQL)) checked.add(built)
  return built
}

/** Records the changes of a query. Rewriting it twice changes nothing more. */
export function rewriteBuilder(rewriting: Rewriting, config: SelectConfig | WriteConfig): void {
  if ('fields' in config) rewriteSelect(rewriting, config)
  else rewriteWrite(rewriting, config)
}

/** Rewrites a write of a table without a model: it stores plaintext, so no encrypted column may go into it. */
function rewriteWrite(outer: Rewriting, config: WriteConfig): void {
  const rewriting = within(outer, [config.table, config.from, ...joinedTo(config)])
  const { values, set, where, onConflict, joins = [], withList = [] } = config
  for (const source of [config.from, ...withList]) visitSource(rewriting, source)
  for (const { leaf } of leavesOf(config.returningFields ?? {})) if (!isColumn(leaf)) assertPlain(rewriting, leaf)
  assertOrder(rewriting, config.orderBy)
  // `values` may be a query.
  if (!Array.isArray(values) || is(values, SQL)) rewrite(rewriting, values)
  else for (const row of values) assertPlain(rewriting, Object.values(row as Row))
  assertPlain(rewriting, Object.values(set ?? {}))
  const changed = { where: rewrite(rewriting, where), onConflict: rewriteBuilt(rewriting, onConflict) }
  const ons = joins.map((join) => rewriteJoin(rewriting, join))
  rewriting.changes.push(() => Object.assign(config, changed), ...ons)
}

function rewriteJoin(rewriting: Rewriting, join: { on?: unknown; table: unknown }): () => void {
  visitSource(rewriting, join.table)
  const on = rewrite(rewriting, join.on)
  return () => {
    join.on = on
  }
}

function joinedTo({ joins = [] }: SelectConfig | WriteConfig): unknown[] {
  return joins.map((join) => join.table)
}

function rewriteSelect(outer: Rewriting, config: SelectConfig): void {
  const rewriting = within(outer, [config.table, ...joinedTo(config)])
  const { tables } = rewriting
  const places = placesOf(tables, config.fields)
  for (const { leaf } of leavesOf(config.fields)) if (!isColumn(leaf)) assertPlain(rewriting, leaf)
  for (const part of [config.orderBy, config.groupBy]) assertOrder(rewriting, part, places)
  for (const part of [config.limit, config.offset]) assertPlain(rewriting, part)
  if (typeof config.distinct === 'object') assertOrder(rewriting, config.distinct.on, places)
  else if (config.distinct) assertNoSealed(tables, columnsIn(config.fields), refuseOrder)
  for (const source of [config.table, ...(config.withList ?? [])]) visitSource(rewriting, source)
  const where = rewrite(rewriting, config.where)
  const having = rewrite(rewriting, config.having)
  const ons = (config.joins ?? []).map((join) => rewriteJoin(rewriting, join))
  for (const operator of config.setOperators ?? []) visitOperator(rewriting, config, operator)
  rewriting.changes.push(() => Object.assign(config, { where, having }), ...ons)
}

export function visitSource(rewriting: Rewriting, source: unknown): void {
  if (is(source, SQL)) assertPlain(rewriting, source)
  else rewriting.visit(source, true)
}

const COMPARED = 'Their rows are compared: do so once they are decrypted.'

/** Checks a union and the like: both sides are opened as the columns of the left side. */
function visitOperator(
  rewriting: Rewriting,
  { fields }: SelectConfig,
  { isAll, rightSelect, orderBy }: SetOperator,
): void {
  const { tables } = rewriting
  assertOrder(rewriting, orderBy, placesOf(tables, fields))
  rewriting.visit(rightSelect, true)
  const right = isSelect(rightSelect as object) ? (rightSelect as { config: SelectConfig }).config.fields : {}
  const places = [fields, right].map((one) => JSON.stringify(knownPlaces(tables, one)))
  const isSealed = [fields, right].some((one) => columnsIn(one).some((column) => tables.findSealed(column)))
  if (!isSealed) return
  if (!isAll) refuseCall('a union without `all`, an intersection or a difference', COMPARED)
  if (places[0] !== places[1])
    refuseCall('a union of other columns on its right side', 'Select the same columns of the same table on both sides.')
}

function visit(rewriting: Rewriting, query: unknown, mayBeSealed: boolean): void {
  if (typeof query !== 'object' || query === null) return
  if (is(query, Subquery)) {
    assertSubquery(rewriting.tables, query)
    if (!mayBeSealed) assertNoSealed(rewriting.tables, columnsIn(selectedBy(query)))
  } else if (isSelect(query)) {
    if (!mayBeSealed) assertNoSealed(rewriting.tables, columnsIn(query.config.fields))
    rewriteSelect(rewriting, query.config)
  } else if ('then' in query && typeof query.then === 'function')
    refuseCall('a query inside of another one', 'Only a select can be a part of a query.')
}

function isSelect(query: object): query is { config: SelectConfig } {
  if (!('config' in query)) return false
  const { config } = query
  return typeof config === 'object' && config !== null && 'fields' in config
}

/** Checks a subquery that another builder made. Ours were checked when they were made. */
function assertSubquery(tables: KnownTables, subquery: Subquery): void {
  const { sql } = subquery._
  if (checked.has(sql)) return
  assertFinal(tables, sql)
  assertNoWrite(tables, sql)
  for (const { leaf } of leavesOf(selectedBy(subquery))) if (!isColumn(leaf)) assertNoSealed(tables, leaf, refuseSearch)
}

/** Refuses a query that searches by an encrypted column but is sent unchanged. */
export function assertFinal(tables: KnownTables, query: SQL | SelectConfig | WriteConfig): void {
  const dry = createRewriting(tables)
  if (is(query, SQL)) rewriteBuilt(dry, query)
  else rewriteBuilder(dry, query)
  const [search] = dry.searches
  if (search) refuseSearch(search.model, search.field)
}

export function refuseSearch(model: string, field: string): never {
  const hint = 'Search by the column of its index, with the value that `index` of the model makes.'
  refuseCall(`a subquery that searches by ${model}.${field}`, hint)
}

function relationsOf(tables: KnownTables, sources: readonly unknown[]): NamedRelation[] {
  return sources.flatMap((source): NamedRelation[] => {
    if (is(source, Subquery))
      return [{ alias: source._.alias, sealed: columnsIn(selectedBy(source)).flatMap((one) => namesOf(tables, one)) }]
    if (!is(source, Table)) return []
    const columns = Object.values(getTableColumns(source))
    const plain = columns.filter((one) => !tables.findSealed(one)).map(({ name }) => name)
    return [{ alias: getTableName(source), sealed: columns.flatMap((one) => namesOf(tables, one)), plain }]
  })
}

function placesOf(tables: KnownTables, fields: Row): SealedPlaces {
  return { places: leavesOf(fields).map(({ leaf }) => (isColumn(leaf) ? namesOf(tables, leaf) : [])) }
}

/** Returns the names of an encrypted column: its key, and the name that Drizzle's `casing` may have made. */
export function namesOf(tables: KnownTables, column: Column): SealedColumn[] {
  const known = tables.findSealed(column)
  if (!known) return []
  const field = known.keyOf(column)
  return [column.name, known.nameIn(field)].map((name) => ({ name, model: known.sealed.name, field }))
}
