/** TypeORM's query builders, extended: they seal values, search by indexes, open rows, or refuse a statement. */
import {
  assertSqlOrder,
  type IdMaker,
  MOST_PARAMETERS,
  namesInSql,
  type Row,
  refuseCall,
  refuseOrder,
  refuseParameters,
  rememberCaller,
  runFor,
  type SealedPlaces,
  searchHint,
} from '@eaas/sdk/adapter'
import type { EntityMetadata } from 'typeorm'
import { type Located, rewriteCondition } from './conditions.js'
import { type Alias, type Builder, type ColumnMetadata, type Condition, kindOf, MAKERS } from './internals.js'
import { filtersIn, type RowFilter } from './pending.js'
import { assertReadable, type Run } from './results.js'
import type { KnownTable, KnownTables } from './tables.js'
import { assertBuilt, assertRaw, MARK, marked, namesOf, relationsOf, withoutMarks } from './text.js'
import type { Prepare } from './writes.js'

export interface Context {
  tables: KnownTables
  prepare: Prepare
  ids: IdMaker
  /** The queries that builders are about to send, by their lists of parameters. */
  runs: WeakMap<object, Run>
}

interface State {
  run?: Run | undefined
  /** Whether it is part of another builder's query: TypeORM pages through joins with a query around a clone. */
  isInner?: boolean
  isPaging?: boolean
  /** Whether it is a step of a write that is undone if it fails. */
  isStep?: boolean
  /** The rows that an update changes, if already read. */
  rows?: readonly Row[] | undefined
  /** Set while an update reads its rows instead: the columns to read, and the order in which the rows are locked. */
  finding?: { columns: string; order: string } | undefined
  /** The entities of aliases that the conditions of `find` join. */
  entities: Map<string, EntityMetadata>
}

const states = new WeakMap<object, State>()

export function stateOf(builder: object): State {
  const state = states.get(builder) ?? { entities: new Map() }
  states.set(builder, state)
  return state
}

/** Finds the table that a builder writes, if it has a model. */
export function findMain({ tables }: Context, { expressionMap: { mainAlias } }: Builder): KnownTable | undefined {
  return mainAlias?.hasMetadata ? tables.find(mainAlias.metadata) : undefined
}

export type Constructor<B> = new (...args: never[]) => B

export type Adopt = <B extends object>(builder: B) => B

export function extendBuilder(Base: Constructor<Builder>, context: Context, adopt: Adopt): Constructor<Builder> {
  class Extended extends Base {
    override getQuery(): string {
      const sql = super.getQuery()
      const { run, isInner } = stateOf(this)
      return run || isInner ? sql : withoutMarks(sql)
    }

    override getQueryAndParameters(): [string, unknown[]] {
      const { run } = stateOf(this)
      if (run) run.outputs.length = 0
      const [sql, parameters] = super.getQueryAndParameters()
      if (run) {
        assertOrder(context, this, run)
        assertCommonTables(context, this)
        assertBuilt(context.tables, sql, this.expressionMap.aliases)
        run.filters = filtersIn(parameters)
        assertFiltered(run, sql)
        assertCount(this, parameters)
        const sealed = run.outputs.find(({ known, name }) => known.sealed.isSealed(name))
        if (this.expressionMap.selectDistinct && sealed) refuseOrder(sealed.known.sealed.name, sealed.name)
        assertReadable(run.outputs)
        context.runs.set(parameters, run)
      }
      return [sql, parameters]
    }

    override getWherePredicateCondition(path: string, value: unknown): Condition {
      const located = locate(context, this, path)
      if (!located?.known.sealed.isSealed(located.name)) return super.getWherePredicateCondition(path, value)
      try {
        return rewriteCondition(this, located, value)
      } catch (error) {
        throw rememberCaller()(error)
      }
    }

    override createReturningExpression(type: string): string {
      const text = super.createReturningExpression(type)
      const known = findMain(context, this)
      const { run } = stateOf(this)
      return known && run && text !== '' ? noteReturning(this, known, run, text) : text
    }

    override execute(): Promise<unknown> {
      const state = stateOf(this)
      state.run = { outputs: [], opens: true, isStep: state.isStep ?? false }
      return runFor(rememberCaller(), () => super.execute()).finally(() => {
        state.run = undefined
      })
    }
  }
  for (const name of MAKERS) {
    const make = (Base.prototype as Builder)[name]
    Extended.prototype[name] = function (...args) {
      return adopt(make.apply(this, args))
    }
  }
  return Extended
}

/** Finds the column at the path of a condition, such as `user.email`. */
function findColumn(builder: Builder, path: string) {
  const { aliases, mainAlias, joinAttributes, aliasNamePrefixingEnabled: isPrefixed } = builder.expressionMap
  const dot = isPrefixed ? path.indexOf('.') : -1
  const alias = isPrefixed ? path.slice(0, dot) : (mainAlias?.name ?? '')
  const own = [mainAlias, ...aliases, ...joinAttributes.map((join) => join.alias)]
  const found = own.find((one) => one?.name === alias && one.hasMetadata)?.metadata
  const metadata = found ?? stateOf(builder).entities.get(alias)
  const column = metadata?.columns.find(({ propertyPath }) => propertyPath === path.slice(dot + 1))
  return { alias, isPrefixed, metadata, column }
}

/** Returns the rows' name for the column at a path, which may be unknown to the model. */
export function nameInRow({ tables }: Context, builder: Builder, path: string): string | undefined {
  const { metadata, column } = findColumn(builder, path)
  return column && metadata && (tables.find(metadata)?.nameInRow(column) ?? column.propertyPath)
}

function locate({ tables }: Context, builder: Builder, path: string): Located | undefined {
  const { alias, isPrefixed, metadata, column } = findColumn(builder, path)
  const known = metadata && tables.find(metadata)
  const name = column && known?.nameOf(column)
  if (!known || name === undefined) return undefined
  const before = isPrefixed ? `${builder.escape(alias)}.` : ''
  return { known, name, alias, quote: (one) => before + builder.escape(known.columnOf(metadata, one).databaseName) }
}

/** @throws InvalidInputError if rows would be sorted or grouped by an encrypted column */
export function assertOrder({ tables }: Context, { expressionMap }: Builder, run?: Run): void {
  const { aliases, allOrderBys, groupBys = [], selectDistinctOn = [] } = expressionMap
  const places = placesOf(expressionMap, run)
  for (const text of [...Object.keys(allOrderBys), ...groupBys, ...selectDistinctOn])
    assertSqlOrder(text, relationsOf(tables, aliases), places)
}

/** The columns of the main alias come first. Expressions and added columns follow, at unknown places. */
function placesOf(
  { mainAlias }: Builder['expressionMap'],
  { outputs }: Pick<Run, 'outputs'> = { outputs: [] },
): SealedPlaces {
  const named = outputs.map(({ known, name, output }) => namesOf(known, name, [output]))
  const isOfMain = outputs.map(({ alias, isHidden }) => alias === mainAlias?.name && !isHidden)
  const end = isOfMain.includes(false) ? isOfMain.indexOf(false) : named.length
  return { places: named.slice(0, end), later: named.flat() }
}

function assertCommonTables({ tables }: Context, { expressionMap }: Builder): void {
  for (const { queryBuilder } of expressionMap.commonTableExpressions) {
    if (typeof queryBuilder === 'string') assertRaw(tables, queryBuilder)
  }
}

/** Refuses an insert with encrypted columns that has too many parameters and cannot be divided. */
function assertCount({ expressionMap: { valuesSet = [] } }: Builder, { length: count }: readonly unknown[]): void {
  const [rows, most] = [[valuesSet].flat().length, MOST_PARAMETERS.postgres]
  if (count > most && rows > 0) refuseParameters('an insert', { rows, count, most })
}

function assertFiltered({ filters = [], outputs, opens }: Run, sql: string): void {
  const [first] = filters
  if (!first) return
  const isIn = ({ alias, field }: RowFilter) => outputs.some((one) => one.alias === alias && one.name === field)
  const isClear = !namesInSql(sql).some(({ name }) => ['or', 'not', 'over'].includes(name))
  if (!opens && isClear && filters.every(isIn)) return
  const hint = searchHint(
    'Search so in `find` or `getMany`, by conditions that are all joined by `and`, and count the rows.',
  )
  refuseCall(`a search of ${first.field} that finds more rows than match, where they cannot be filtered,`, hint)
}

/** Records which columns a write returns, marks the encrypted ones, and adds those that they are bound to. */
function noteReturning(builder: Builder, known: KnownTable, run: Run, text: string): string {
  const metadata = (builder.expressionMap.mainAlias as Alias).metadata
  const note = (column: ColumnMetadata, isHidden = false) => {
    run.outputs.push({ known, alias: '', name: known.nameInRow(column), output: column.databaseName, isHidden })
  }
  if (text.trim() === '*') {
    for (const column of metadata.columns) note(column)
    return `${MARK}*`
  }
  const columns = text.split(',').map((part) => {
    const name = part.trim().replaceAll(/^"|"$/g, '')
    return metadata.columns.find((one) => one.propertyPath === name || one.databaseName === name)
  })
  if (columns.includes(undefined)) return text // an expression: any encrypted column in it is refused
  const own = columns.flatMap((column) => column ?? [])
  const more = known.sealed.readsToo(own.map(known.nameInRow)).map((name) => known.columnOf(metadata, name))
  for (const column of own) note(column)
  for (const column of more) note(column, true)
  return [...own, ...more].map(({ databaseName }) => markSealed(builder, known, databaseName)).join(', ')
}

/** Quotes a column, and marks it if it is encrypted. */
export function markSealed(builder: Builder, known: KnownTable, column: string): string {
  const quoted = builder.escape(column)
  return known.sealedNames.has(column.toLowerCase()) ? marked(quoted) : quoted
}

/** Turns a builder of TypeORM into the adapter's. The builders that it makes become the adapter's too. */
export function createAdopt(
  extend: (Base: Constructor<object>, kind: string, adopt: Adopt) => Constructor<object>,
): Adopt {
  const extended = new Map<unknown, Constructor<object>>()
  const own = new Set<unknown>()
  const adopt: Adopt = (builder) => {
    const Base = builder.constructor as Constructor<object>
    if (own.has(Base)) return builder
    const Extended = extended.get(Base) ?? extend(Base, kindOf(builder) ?? '', adopt)
    extended.set(Base, Extended)
    own.add(Extended)
    return Object.setPrototypeOf(builder, Extended.prototype) as typeof builder
  }
  return adopt
}
