/** The builder that reads rows. */

import { type Row, refuseCall, rememberCaller, runFor } from '@eaas/sdk/adapter'
import type { EntityMetadata, QueryRunner } from 'typeorm'
import { assertOrder, type Constructor, type Context, type Run, stateOf } from './builders.js'
import type { Builder, SelectBuilder, Selection } from './internals.js'
import { Pending } from './pending.js'
import { openRows } from './results.js'
import { assertBuilt, MARK, marked } from './text.js'

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
          return [path, known.nameOf(column) ?? column.propertyPath]
        }),
      )
      return selections.map((one) => {
        const name = names.get(one.selection)
        if (name === undefined || one.aliasName === undefined) return one
        run?.outputs.push({ known, alias, name, output: one.aliasName })
        if (!known.sealed.isSealed(name)) return one
        const column = this.escape(known.columnOf(metadata, name).databaseName)
        return { ...one, selection: `${this.escape(alias)}.${marked(column)}`, aliasName: MARK + one.aliasName }
      })
    }

    override buildWhere(where: unknown, metadata: EntityMetadata, alias: string, prefix?: string): string {
      stateOf(this).entities.set(alias, metadata)
      return super.buildWhere(where, metadata, alias, prefix)
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
        loading = super.loadRawResults(runner) // makes its SQL before it waits
      } finally {
        state.run = undefined
      }
      const rows = (await loading).map((row) => ({ ...row }))
      await openRows(run.outputs, rows)
      return rows
    }

    override executeEntitiesAndRawResults(runner: QueryRunner): Promise<unknown> {
      return runFor(rememberCaller(), async () => {
        assertNotCached(this)
        assertOrder(context, this)
        const state = stateOf(this)
        state.isPaging = true
        try {
          return super.executeEntitiesAndRawResults(pagingThrough(context, this, runner)) // clones itself before it waits
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

/**
 * The runner of a query for a page: the query for its ids is made by a builder of TypeORM's own, around a
 * marked one.
 */
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

/**
 * Refuses to cache a query of which the parameters are not known yet: all searches would be one entry of the
 * cache.
 */
function assertNotCached({ dataSource, expressionMap, getParameters }: Builder): void {
  const { cache } = dataSource.options
  const isCached =
    typeof cache === 'object' && cache.alwaysEnabled ? expressionMap.cache !== false : expressionMap.cache
  const parameters = Object.values(getParameters.call({ expressionMap } as Builder))
  if (!isCached || !parameters.some((one) => one instanceof Pending)) return
  refuseCall('the cache of a search by an encrypted column', 'Call `cache(false)`, or search by another column.')
}
