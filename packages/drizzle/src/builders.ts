/**
 * The builders of Drizzle's queries. Conditions are rewritten before a query is executed, and its rows opened
 * afterwards. The calls of a write with encrypted values are recorded, and run once it is awaited.
 */
import { isEaasError } from '@eaas/sdk'
import {
  type AtCaller,
  openReturned,
  pageOf,
  type Row,
  refuseCall,
  refuseCount,
  rememberCaller,
  runFor,
} from '@eaas/sdk/adapter'
import { and, QueryPromise, type SQL } from 'drizzle-orm'
import { run } from './conditions.js'
import { planFound } from './found-rows.js'
import { columnsIn, filteredKey, leavesOf, readSelection, withBound, withFiltered } from './results.js'
import {
  assertFinal,
  buildChecked,
  createRewriting,
  rewriteBuilder,
  type SelectConfig,
  type WriteConfig,
} from './rewriting.js'
import { areRight, assertNoWindow, numberOf, searchFor, withoutSearches } from './searches.js'
import type { Call, KnownTables, Written } from './tables.js'
import { runWrite } from './writes.js'

/** A query of Drizzle. Its functions change its state and return it. */
interface Query {
  config: SelectConfig | WriteConfig
  execute(placeholders?: Row): Promise<unknown>
}

/** Functions that run a query, or hand out its SQL, before its conditions can be rewritten. */
const AT_ONCE = ['prepare', '_prepare', 'toSQL', 'all', 'get', 'values', 'run', 'iterator']

/** The functions that continue a query begun by `select()`, `update(table)` and the like. */
const BEGIN = ['from', 'values', 'set', 'select']

interface Wrapping {
  atCaller?: AtCaller
  hint?: string | undefined
}

/** Wraps a query: a select, or a write of a table without a model. */
export function wrapBuilder<T extends object>(
  tables: KnownTables,
  builder: T,
  { atCaller = rememberCaller(), hint = 'Await the query itself.' }: Wrapping = {},
): T {
  const wrapped: T = new Proxy(builder, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name)
      if (typeof member !== 'function') return member
      if ('config' in target) {
        const query = target as unknown as Query
        if (name === 'execute')
          return (placeholders?: Row) => runFor(atCaller, () => execute(tables, query, placeholders))
        if (name === 'getSQL') return () => buildChecked(tables, query.config, () => member.call(target))
        if (AT_ONCE.includes(String(name)) && touches(tables, query))
          return () => refuseCall(`${String(name)}() of such a query`, hint)
      }
      // Called on the wrapper, so that a query that returns itself stays wrapped, and `then` finds our `execute`.
      return (...args: unknown[]) => {
        const result: unknown = member.apply(wrapped, args)
        if (result === target) return wrapped // joins and set operators are bound to the builder itself
        return BEGIN.includes(String(name)) && typeof result === 'object' && result !== null
          ? wrapBuilder(tables, result, { atCaller, hint })
          : result
      }
    },
  })
  return wrapped
}

async function execute(tables: KnownTables, query: Query, placeholders?: Row): Promise<unknown> {
  const config = copyOf(query.config)
  if ('fields' in config && takesColumns(config)) return executeSelect(tables, query, config, placeholders)
  const rewriting = createRewriting(tables)
  rewriteBuilder(rewriting, config)
  const open = readSelection(tables, selectionOf(config))
  await run(rewriting)
  const rows = (await executeWith(query, config, placeholders)) as Row[]
  return openReturned(!('fields' in config), () => open(rows))
}

/** Copies the state that is rewritten: the application may run the query again before this run has ended. */
function copyOf<C extends SelectConfig | WriteConfig>(config: C): C {
  return config.joins ? { ...config, joins: config.joins.map((join) => ({ ...join })) } : { ...config }
}

/** Runs a query with another state. Drizzle makes the SQL before its first wait, so the state is restored at once. */
function executeWith(query: Query, config: Query['config'], placeholders: Row | undefined): Promise<unknown> {
  const own = query.config
  query.config = config
  try {
    return query.execute(placeholders)
  } finally {
    query.config = own
  }
}

async function executeSelect(
  tables: KnownTables,
  query: Query,
  config: SelectConfig,
  placeholders: Row | undefined,
): Promise<unknown> {
  const { where, fields, limit, offset, table, joins = [] } = config
  const { rest, asked } = withoutSearches(tables, where)
  const isSearch = asked.length > 0
  const page = isSearch ? { skip: numberOf(offset, 'offset'), take: numberOf(limit, 'limit') } : undefined
  const rewriting = createRewriting(tables)
  config.where = rest
  rewriteBuilder(rewriting, config)
  const found = searchFor(rewriting, asked)
  const columns = asked.map(({ column }) => column)
  const selected = withBound(tables, withFiltered(fields, columns), [table, ...joins.map((join) => join.table)])
  const isRight = (row: Row) => areRight(asked, (at) => row[filteredKey(at)])
  const open = readSelection(tables, selected, page && ((rows) => pageOf(rows, isRight, page)))
  await run(rewriting)
  config.fields = selected
  if (isSearch) {
    if (columnsIn(fields).length === 0) refuseCount()
    assertNoWindow(leavesOf(fields).map(({ leaf }) => leaf))
    Object.assign(config, { where: and(config.where as SQL | undefined, found), limit: undefined, offset: undefined })
  }
  return open((await executeWith(query, config, placeholders)) as Row[])
}

function takesColumns({ distinct, groupBy = [], setOperators = [] }: SelectConfig): boolean {
  return !distinct && groupBy.length === 0 && setOperators.length === 0
}

function touches(tables: KnownTables, query: Query): boolean {
  try {
    assertFinal(tables, query.config)
  } catch (error) {
    if (isEaasError(error)) return true
    throw error
  }
  return columnsIn(selectionOf(query.config)).some((column) => tables.findSealed(column))
}

function selectionOf(config: Query['config']): Row {
  return ('fields' in config ? config.fields : config.returningFields) ?? {}
}

const REFUSED = ['select', 'prepare', 'toSQL', 'getSQL', 'as', '_prepare', 'all', 'get', 'run']

/** Records the calls on a write's builder, and repeats them later on Drizzle's own, which needs the sealed values. */
export function wrapWrite(written: Written): object {
  const calls: Call[] = []
  const waiting = new Later(() => (planFound(written, calls) ?? (() => runWrite(written, calls)))())
  const wrapped: object = new Proxy(waiting, {
    get(target, name) {
      if (typeof name === 'symbol' || name in target) return Reflect.get(target, name)
      if (REFUSED.includes(name)) return () => refuseCall(`${name}() of a write`, 'Await the query itself.')
      return (...args: unknown[]) => {
        calls.push([name, args])
        return wrapped
      }
    },
  })
  return wrapped
}

/** A query that runs when it is awaited, and whose errors name the line that made it. */
export class Later extends QueryPromise<unknown> {
  readonly execute: () => Promise<unknown>

  constructor(run: () => Promise<unknown>) {
    super()
    const atCaller = rememberCaller()
    this.execute = () => runFor(atCaller, run)
  }
}
