import { openReturned, type Row, refuseCall, rememberCaller, runFor } from '@eaas/sdk/adapter'
import type { EntityMetadata, QueryRunner } from 'typeorm'
import { assertOrder, type Constructor, type Context, stateOf } from './builders.js'
import { hasOtherWrites } from './found-rows.js'
import type { Builder, SelectBuilder, Selection } from './internals.js'
import { filtersIn, Pending } from './pending.js'
import { filterRows, hide, openRows, type Run } from './results.js'
import type { KnownTable } from './tables.js'
import { assertBuilt, MARK, marked } from './text.js'

/** An alias of a query, with the names that its model gives its columns. */
type Selected = { alias: string; metadata: EntityMetadata; known: KnownTable; names: ReadonlyMap<string, string> }

export function extendSelect(Base: Constructor<SelectBuilder>, context: Context): Constructor<SelectBuilder> {
  return class extends Base {
    override buildEscapedEntityColumnSelects(alias: string, metadata: EntityMetadata): Selection[] {
      const selections = super.buildEscapedEntityColumnSelects(alias, metadata)
      const known = context.tables.find(metadata)
      const { run, isInner } = stateOf(this)
      if (!known || !(run || isInner)) return selections
      const names = new Map(
        metadata.columns.map((column) => {
          const path = `${this.escape(alias)}.${this.escape(column.databaseName)}`
          return [path, known.nameInRow(column)]
        }),
      )
      const more = run && !isInner ? this.boundTo(selections, { alias, metadata, known, names }) : []
      return [...selections, ...more].map((one) => {
        const name = names.get(one.selection)
        if (name === undefined || one.aliasName === undefined) return one
        run?.outputs.push({ known, alias, name, output: one.aliasName, isHidden: more.includes(one) })
        if (!known.sealed.isSealed(name)) return one
        const column = this.escape(known.columnOf(metadata, name).databaseName)
        return { ...one, selection: `${this.escape(alias)}.${marked(column)}`, aliasName: MARK + one.aliasName }
      })
    }

    /** Selects the columns that encrypted ones are bound to, if the query omits them. */
    private boundTo(selections: readonly Selection[], { alias, metadata, known, names }: Selected): Selection[] {
      const { groupBys = [], selectDistinct } = this.expressionMap
      if (groupBys.length > 0 || selectDistinct) return []
      const selected = selections.flatMap(({ selection }) => names.get(selection) ?? [])
      if (selected.length === 0) return []
      const filtered = filtersIn(Object.values(this.getParameters())).flatMap((one) =>
        one.alias === alias ? one.field : [],
      )
      const lacking = filtered.filter((field) => !selected.includes(field))
      return [...new Set([...lacking, ...known.sealed.readsToo([...selected, ...lacking])])].map((name) => {
        const { databaseName } = known.columnOf(metadata, name)
        const selection = `${this.escape(alias)}.${this.escape(databaseName)}`
        return { selection, aliasName: `eaas_bound_${alias}_${databaseName}` }
      })
    }

    override buildWhere(where: unknown, metadata: EntityMetadata, alias: string, prefix?: string): string {
      stateOf(this).entities.set(alias, metadata)
      return super.buildWhere(where, metadata, alias, prefix)
    }

    /** Omits the page from the SQL if rows are filtered: the page is counted afterwards. */
    override createLimitOffsetExpression(): string {
      const { run } = stateOf(this)
      const { skip, take, limit = take, offset = skip, joinAttributes } = this.expressionMap
      if (!run || filtersIn(Object.values(this.getParameters())).length === 0)
        return super.createLimitOffsetExpression()
      const isOfEntities = this.expressionMap.limit === undefined && this.expressionMap.offset === undefined
      if (joinAttributes.length > 0 && isOfEntities && (skip ?? take) !== undefined) {
        const hint = 'Read the ids of a page first, and then the rows with their relations.'
        refuseCall('take and skip with joins, by a search that finds more rows than match,', hint)
      }
      run.page = { skip: offset ?? 0, take: limit }
      return ''
    }

    override clone(): SelectBuilder {
      const copy = super.clone() as SelectBuilder
      if (stateOf(this).isPaging) stateOf(copy).isInner = true
      return copy
    }

    override loadRawResults(runner: QueryRunner): Promise<Row[]> {
      return runFor(rememberCaller(), () => this.loadOpened(runner))
    }

    private async loadOpened(runner: QueryRunner): Promise<Row[]> {
      assertNotCached(this)
      const state = stateOf(this)
      const run: Run = { outputs: [], opens: false }
      state.run = run
      let loading: Promise<Row[]>
      try {
        loading = super.loadRawResults(runner) // it makes its SQL before its first wait
      } finally {
        state.run = undefined
      }
      const rows = (await loading).map((row) => ({ ...row }))
      await openReturned(hasOtherWrites(this), () => openRows(run.outputs, rows))
      const right = filterRows(run, rows)
      hide(run.outputs, right)
      return right
    }

    override executeEntitiesAndRawResults(runner: QueryRunner): Promise<unknown> {
      return runFor(rememberCaller(), async () => {
        assertNotCached(this)
        assertOrder(context, this)
        const state = stateOf(this)
        state.isPaging = true
        try {
          return super.executeEntitiesAndRawResults(pagingThrough(context, this, runner)) // it clones this builder before its first wait
        } finally {
          state.isPaging = false
        }
      })
    }

    override execute(): Promise<unknown> {
      return this.getRawMany()
    }

    override stream(): Promise<unknown> {
      const known = this.expressionMap.aliases.find((one) => one.hasMetadata && context.tables.find(one.metadata))
      if (known)
        refuseCall(`stream() of ${known.metadata.name}`, 'Page through the rows by `skip` and `take`, or by a key.')
      return super.stream()
    }
  }
}

/** Makes the query runner for pages: TypeORM's own builder, not ours, makes the query for the ids of a page. */
function pagingThrough(context: Context, { expressionMap }: Builder, runner: QueryRunner): QueryRunner {
  const query = (sql: string, parameters: unknown[] = [], isStructured = false) => {
    if (sql.startsWith('SELECT DISTINCT "distinctAlias".') && !context.runs.has(parameters)) {
      assertBuilt(context.tables, sql, expressionMap.aliases)
      context.runs.set(parameters, { outputs: [], opens: false })
    }
    return runner.query(sql, parameters, isStructured as never)
  }
  return Object.create(runner, { query: { value: query } }) as QueryRunner
}

/** Refuses to cache a query with pending parameters: all such searches would share one entry of the cache. */
function assertNotCached({ dataSource, expressionMap, getParameters }: Builder): void {
  const { cache } = dataSource.options
  const isCached =
    typeof cache === 'object' && cache.alwaysEnabled ? expressionMap.cache !== false : expressionMap.cache
  const parameters = Object.values(getParameters.call({ expressionMap } as Builder))
  if (!isCached || !parameters.some((one) => one instanceof Pending)) return
  refuseCall('the cache of a search by an encrypted column', 'Call `cache(false)`, or search by another column.')
}
