/**
 * Updates and upserts whose statement does not determine the rows that its values are bound to. One transaction finds
 * and locks the rows, and changes each with values sealed to it.
 */
import {
  assertFoundAgain,
  type Bracket,
  bracketed,
  changeFound,
  type Row,
  refuseCall,
  savepoint,
  tellsRow,
  upsertEach,
} from '@eaas/sdk/adapter'
import type { EntityMetadata, QueryRunner } from 'typeorm'
import { type Context, nameInRow, stateOf } from './builders.js'
import { pinnedBy } from './conditions.js'
import { columnNamed, findLacking, isMissing, nameByColumn, withIds } from './ids.js'
import { type Builder, type ColumnMetadata, type InsertBuilder, kindOf, type UpdateBuilder } from './internals.js'
import { filtersIn } from './pending.js'
import type { KnownTable } from './tables.js'
import { madeColumns, readRow, type Target } from './writes.js'

type Result = { raw: unknown; affected?: number | null; generatedMaps: unknown[]; identifiers?: unknown[] }

const UNIQUE_VIOLATION = '23505'
const NOT_FILLED = { identifiers: [], generatedMaps: [] }
const OF_FOUND = 'a write whose rows must be read before'

interface Failing {
  /** Restores the application's objects, which the write filled. */
  undo?: () => void
  /** Whether it is tried once more if another transaction inserted a row meanwhile. */
  isRetried?: boolean
}

/** Tells whether a common table expression may write: it would write again with each statement. */
export function hasOtherWrites({ expressionMap }: Builder): boolean {
  return expressionMap.commonTableExpressions.some((one) => kindOf(one.queryBuilder) !== 'SelectQueryBuilder')
}

const TRANSACTION: Bracket<QueryRunner> = {
  begin: (runner) => runner.startTransaction(),
  keep: (runner) => runner.commitTransaction(),
  takeBack: (runner) => runner.rollbackTransaction(),
}
/** Not TypeORM's own savepoint: at its end, subscribers would be told that the application's transaction has ended. */
const SAVEPOINT = savepoint((runner: QueryRunner, sql) => runner.query(sql))

/** Runs a change with the builder's query runner: in a new transaction or, within one, behind a savepoint. */
async function within<T>(
  builder: InsertBuilder | UpdateBuilder,
  change: (runner: QueryRunner) => Promise<T>,
  { undo, isRetried = false }: Failing = {},
): Promise<T> {
  if (hasOtherWrites(builder))
    refuseCall(`another write, or SQL as text, in \`with\` of ${OF_FOUND}`, 'Run it by itself.')
  const runner = builder.queryRunner ?? builder.dataSource.createQueryRunner('master')
  const bracket = runner.isTransactionActive ? SAVEPOINT : TRANSACTION
  const attempt = () =>
    bracketed(bracket, runner, () => change(runner)).catch((error: unknown) => {
      undo?.()
      throw error
    })
  try {
    return await attempt().catch((error: { code?: unknown }) => {
      if (isRetried && error.code === UNIQUE_VIOLATION) return attempt()
      throw error
    })
  } finally {
    if (runner !== builder.queryRunner) await runner.release()
  }
}

/** Tells whether an update must read its rows first. */
export function isByFoundRows(context: Context, builder: UpdateBuilder, target: Target): boolean {
  if (stateOf(builder).rows) return false
  const { known, metadata } = target
  return known.sealed.needsRow(readRow(known, metadata, builder.getValueSet()), pinnedIn(context, builder))
}

export function pinnedIn(context: Context, builder: UpdateBuilder): Row {
  return pinnedBy(builder.expressionMap.wheres, builder.getParameters(), (path) => nameInRow(context, builder, path))
}

export function updateFound(context: Context, builder: UpdateBuilder, target: Target): Promise<unknown> {
  const { commonTableExpressions } = builder.expressionMap
  if (commonTableExpressions.some(({ alias }) => alias === target.metadata.tableName)) {
    // The update would change the table, but our select would read the common table expression.
    refuseCall(`a common table expression of the name of the table in ${OF_FOUND}`, 'Give it another name.')
  }
  return within(builder, async (runner) => {
    const results = await changeFound(target.known.sealed, await findRows(context, builder, target, runner), {
      takesMany: true,
      countOf,
      change: (rows) => updateRows(builder, target, { rows, runner }),
    })
    return merge(results)
  })
}

const countOf = ({ affected }: Result) => affected

function cloneFor<B extends Builder>(builder: B, runner: QueryRunner): B {
  const step = builder.clone().setQueryRunner(runner) as B
  stateOf(step).isStep = true
  return step
}

async function updateRows(
  builder: UpdateBuilder,
  { known, metadata }: Target,
  { rows, runner }: { rows: readonly Row[]; runner: QueryRunner },
): Promise<Result> {
  const own = cloneFor(builder, runner)
  // For several rows, `write-builders.ts` makes the condition.
  own.where(boundTo(known, rows[0] as Row, (name) => known.columnOf(metadata, name).propertyPath))
  own.expressionMap.extraReturningColumns = builder.expressionMap.extraReturningColumns
  stateOf(own).rows = rows
  return (await own.execute()) as Result
}

function boundTo({ sealed }: KnownTable, row: Row, nameOf: (name: string) => string): Row {
  return Object.fromEntries(sealed.bind.map((name) => [nameOf(name), row[name]]))
}

/** Finds and locks the rows of an update, with its own condition. */
async function findRows(
  { runs }: Context,
  builder: UpdateBuilder,
  { known, metadata }: Target,
  runner: QueryRunner,
): Promise<Row[]> {
  assertFoundAgain(known.sealed)
  const columns = metadata.columns.filter((column) => isRead(known, column))
  const state = stateOf(builder)
  const namesOf = (list: readonly ColumnMetadata[]) => list.map((one) => builder.escape(one.databaseName)).join(', ')
  // A fixed order, so that of two such writes one waits for the other.
  const order = namesOf(known.sealed.bind.map((name) => known.columnOf(metadata, name)))
  state.finding = { columns: namesOf(columns), order }
  try {
    const [sql, parameters] = builder.getQueryAndParameters()
    if (filtersIn(parameters).length > 0)
      refuseCall('an update by a search that finds more rows than match', 'Read the ids, and update by them.')
    runs.set(parameters, { outputs: [], opens: false })
    const { records } = (await runner.query(sql, parameters, true)) as { records: Row[] }
    const named = columns.map((column) => [known.nameInRow(column), column.databaseName] as const)
    return records.map((row) => Object.fromEntries(named.map(([name, column]) => [name, row[column]])))
  } finally {
    state.finding = undefined
  }
}

/** Tells whether values are bound to a column, or it may determine a row's key. */
function isRead({ sealed, nameOf }: KnownTable, column: ColumnMetadata): boolean {
  const name = nameOf(column)
  return name === undefined ? sealed.keyByRow : sealed.bind.includes(name)
}

/** Returns the columns by which an upsert finds the existing row; undefined if the new row determines it. */
export function findConflict(builder: InsertBuilder, { known, metadata }: Target): string[] | undefined {
  const { conflict, overwrite } = builder.expressionMap.onUpdate ?? {}
  if (!overwrite || !Array.isArray(conflict)) return undefined
  const { sealed } = known
  const targets = conflict.map((column) => nameByColumn({ known, metadata }, column))
  const changes = overwrite.filter((column) => sealed.isSealed(nameByColumn({ known, metadata }, column)))
  if (targets.some((name) => sealed.isSealed(name))) return targets
  return tellsRow(sealed, targets) || changes.length === 0 ? undefined : targets
}

export function upsertFound(
  context: Context,
  builder: InsertBuilder,
  target: Target,
  targets: readonly string[],
): Promise<unknown> {
  const { known, metadata } = target
  assertSteps(builder)
  const entities = builder.getValueSets()
  const upsertAll = async (runner: QueryRunner) => {
    const given = entities.map((entity) => readRow(known, metadata, entity))
    // Fills the conflict's columns with the values that they would get by default.
    const whole = await withIds(target, findLacking(target, given, targets), (sql) => runner.query(sql))
    const upserts = entities.map(async (values, at): Promise<Upsert> => {
      const found = await known.sealed.findTarget(whole[at] ?? {}, targets)
      return { into: target, target: found, values, runner }
    })
    const all = await Promise.all(upserts)
    const find = (upsert: Upsert) => findExisting(context, upsert)
    const results = await upsertEach(known.sealed, all, {
      targets,
      countOf,
      find,
      change: (upsert, row) => changeOne(builder, upsert, row),
      // An earlier row of the same statement may have inserted it.
      insert: async (upsert) => (upsert !== all[0] && (await find(upsert)) ? undefined : insertOne(builder, upsert)),
    })
    return merge(results)
  }
  return within(builder, upsertAll, { undo: rememberFilled(metadata, entities), isRetried: true })
}

/** The options of an upsert that the separate steps honour. */
const TAKEN: readonly unknown[] = ['overwrite', 'conflict']

/** @throws InvalidInputError for an option of an upsert that the separate steps cannot honour */
function assertSteps({ expressionMap: { onUpdate } }: InsertBuilder): void {
  const given = Object.entries(onUpdate ?? {}).filter(([name, value]) => value && !TAKEN.includes(name))
  const [other] = given.find(([, value]) => value !== 'on-conflict-do-update') ?? []
  if (other !== undefined) refuseCall(`${other} of an upsert whose row must be read before`, 'Leave it out.')
}

/** Inserts rows with several statements, since one would have too many parameters. */
export function insertParts(
  builder: InsertBuilder,
  { metadata }: Target,
  parts: readonly (readonly object[])[],
): Promise<unknown> {
  const insertAll = async (runner: QueryRunner) => {
    const results: Result[] = []
    for (const part of parts) {
      const insert = cloneFor(builder, runner)
      insert.expressionMap.valuesSet = part
      insert.expressionMap.onUpdate &&= { ...insert.expressionMap.onUpdate }
      results.push((await insert.execute()) as Result)
    }
    return merge(results)
  }
  return within(builder, insertAll, { undo: rememberFilled(metadata, parts.flat()) })
}

/** Returns a function that removes what a failed write filled into objects: their rows are not stored. */
function rememberFilled(metadata: EntityMetadata, entities: readonly object[]): () => void {
  const filled = metadata.getInsertionReturningColumns()
  const before = entities.map((entity) => filled.map((column) => column.getEntityValue(entity) as unknown))
  return () => {
    for (const [at, entity] of entities.entries()) {
      for (const [number, column] of filled.entries()) {
        const value = before[at]?.[number]
        if (column.getEntityValue(entity) !== value) column.setEntityValue(entity, value)
      }
    }
  }
}

interface Upsert {
  into: Target
  target: Row
  values: object
  runner: QueryRunner
}

async function findExisting(context: Context, { into, target, runner }: Upsert): Promise<Row | undefined> {
  if (Object.values(target).some(isMissing)) return undefined // null conflicts with no row
  const finder = runner.manager.createQueryBuilder().update(into.metadata.target) as unknown as UpdateBuilder
  const condition = Object.entries(target).map(([name, value]) => [
    columnNamed(into, name)?.propertyPath ?? name,
    value,
  ])
  finder.where(Object.fromEntries(condition))
  return (await findRows(context, finder, into, runner))[0]
}

async function insertOne(builder: InsertBuilder, { values, runner }: Upsert): Promise<Result> {
  const insert = cloneFor(builder, runner)
  insert.expressionMap.valuesSet = [values]
  insert.expressionMap.onUpdate = undefined
  return (await insert.execute()) as Result
}

async function changeOne(builder: InsertBuilder, { into: target, values, runner }: Upsert, row: Row): Promise<Result> {
  const { known, metadata } = target
  const { onUpdate } = builder.expressionMap
  const kept = [...madeColumns(known), ...known.sealed.bind]
  const columns = (onUpdate?.overwrite ?? [])
    .map((name) => metadata.findColumnWithDatabaseName(name))
    .filter((column) => column !== undefined)
    .filter((column) => !kept.includes(known.nameOf(column) ?? ''))
  const set: Row = Object.fromEntries(columns.map((column) => [column.propertyName, column.getEntityValue(values)]))
  const { returning, updateEntity, comment, callListeners } = builder.expressionMap
  if (columns.length === 0) {
    const filled = updateEntity ? { identifiers: [metadata.getEntityIdMap(values)], generatedMaps: [{}] } : NOT_FILLED
    return { raw: [], affected: 0, ...filled }
  }
  const { versionColumn } = metadata
  // An update would increment the version, and an upsert does not.
  if (versionColumn) set[versionColumn.propertyName] ??= () => builder.escape(versionColumn.databaseName)
  const update = runner.manager.createQueryBuilder().update(metadata.target).set(set) as unknown as UpdateBuilder
  Object.assign(update.expressionMap, { returning, comment, callListeners })
  if (updateEntity) update.expressionMap.extraReturningColumns = metadata.getInsertionReturningColumns()
  const result = await updateRows(update, target, { rows: [row], runner })
  if (!updateEntity) return { ...result, ...NOT_FILLED }
  const [returned] = result.raw as Row[]
  const stored = { ...boundTo(known, row, (name) => known.columnOf(metadata, name).databaseName), ...returned }
  const filled: Row = builder.dataSource.driver.createGeneratedMap(metadata, stored, 0, 1) ?? {}
  runner.manager.merge(metadata.target, values, filled)
  return { ...result, identifiers: [metadata.getEntityIdMap(values)], generatedMaps: [filled] }
}

function merge(results: readonly Result[]): Result {
  const [only] = results
  if (only && results.length === 1) return only
  const rows = results.flatMap(({ raw }) => (Array.isArray(raw) ? (raw as unknown[]) : []))
  return {
    raw: rows,
    affected: results.reduce((sum, { affected }) => sum + (affected ?? 0), 0),
    generatedMaps: results.flatMap(({ generatedMaps }) => generatedMaps),
    ...(results[0]?.identifiers ? { identifiers: results.flatMap(({ identifiers }) => identifiers) } : {}),
  }
}
