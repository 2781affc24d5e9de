/** Wraps a database of Drizzle, so that all queries pass through this adapter. */
import { type Row, refuseCall } from '@eaas/sdk/adapter'
import { and, is, SQL, type Table } from 'drizzle-orm'
import { Later, wrapBuilder, wrapWrite } from './builders.js'
import { rewrite, run } from './conditions.js'
import { openLevels, type QueryConfig, rewriteQuery, type TableConfig, tableOf, takeSearched } from './relations.js'
import { createRewriting, refuseSearch, visitSource } from './rewriting.js'
import { searchFor } from './searches.js'
import { assertSameColumns, type Database, isSync, type KnownTables, nameOf, type WriteMethod } from './tables.js'
import { assertNotNamed } from './text.js'

type Anything = (...args: unknown[]) => unknown

const SELECTS = ['select', 'selectDistinct', 'selectDistinctOn']
const WRITES = ['insert', 'update', 'delete']
/** The functions of a database, or of its session, that take SQL unchanged. */
const EXECUTES = 'execute,run,all,get,values,count,query,queryObjects,prepareQuery,prepareOneTimeQuery'.split(',')

export function wrapDatabase<D extends object>(tables: KnownTables, database: D): D {
  return new Proxy(database, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name)
      if (name === 'query' && typeof member !== 'function')
        return wrapQueries(tables, target, member as Record<string, RelationalBuilder>)
      if (name === 'session' || name === '$primary') return member && wrapDatabase(tables, member as object)
      if (name === '_') {
        // Drizzle also keeps the session in this member.
        const known = member as { session: object }
        return { ...known, session: wrapDatabase(tables, known.session) }
      }
      if (name === '$replicas') return (member as object[] | undefined)?.map((one) => wrapDatabase(tables, one))
      if (typeof member !== 'function') return member
      const call = member.bind(target) as Anything
      const isWithin = isSync(target) && 'rollback' in target
      if (SELECTS.includes(String(name))) {
        const hint = isWithin ? OUTSIDE : undefined
        return (...args: unknown[]) => wrapBuilder(tables, call(...args) as object, { hint })
      }
      if (WRITES.includes(String(name)))
        return (...args: unknown[]) => {
          const known = tables.find(args[0])
          if (!known) return wrapBuilder(tables, call(...args) as object)
          if (isWithin)
            refuseCall(`a write of ${known.sealed.name} in a transaction of a driver that cannot wait`, OUTSIDE)
          const table = args[0] as Table
          assertSameColumns(known, table)
          const on = (Reflect.get(target, '$primary') ?? target) as Database
          return wrapWrite({ tables, known, table, on, method: name as WriteMethod })
        }
      if (EXECUTES.includes(String(name)))
        return (statement: unknown, ...rest: unknown[]) => {
          assertStatement(tables, statement)
          return call(statement, ...rest)
        }
      if (name === 'with')
        return (...args: unknown[]) => {
          for (const one of args) visitSource(createRewriting(tables), one)
          return wrapDatabase(tables, call(...args) as object)
        }
      if (name === '$with') return (...args: unknown[]) => wrapWith(tables, call(...args) as With)
      if (name === '$count') return (source: unknown, filter?: unknown) => count(tables, call, source, filter)
      if (name === 'transaction')
        return (run: (inner: object) => unknown, ...rest: unknown[]) => {
          // Refused before the call, since the function would write until its first wait.
          if (isSync(target) && run.constructor.name === 'AsyncFunction') refuseWaiting()
          return call(
            (inner: object) => {
              const result = run(wrapDatabase(tables, inner))
              if (isSync(target) && typeof (result as { then?: unknown } | undefined)?.then === 'function')
                refuseWaiting()
              return result
            },
            ...rest,
          )
        }
      return call
    },
  })
}

/** Encrypting is asynchronous, and such a transaction does not wait. */
const OUTSIDE =
  'Await the query outside of it. To write in one, encrypt the rows before, by `encrypt` of the model, and use a transaction of the database that was passed to `encrypted`; or use a driver that waits, such as libsql.'

function refuseWaiting(): never {
  refuseCall('a transaction that waits, by a driver that cannot,', OUTSIDE)
}

interface With {
  as(query: unknown): unknown
}

/** Also wraps the builder that Drizzle passes to a function, and checks SQL given in place of a query. */
function wrapWith(tables: KnownTables, { as }: With): With {
  const checked = (query: unknown) => {
    if (is(query, SQL)) assertStatement(tables, query)
    return query
  }
  return {
    as(query) {
      if (typeof query !== 'function') return as(checked(query))
      return as((builder: object) => checked(query(wrapDatabase(tables, builder))))
    },
  }
}

class LaterQuery extends Later {
  prepare(): never {
    refuseCall('prepare() of a relational query', 'Await the query itself.')
  }

  toSQL(): never {
    refuseCall('toSQL() of a relational query', 'Await the query itself.')
  }
}

/** Wraps a count, which can be awaited, or used as a part of SQL. */
function count(tables: KnownTables, call: Anything, source: unknown, filter: unknown): unknown {
  const later = new Later(async () => {
    const rewriting = createRewriting(tables, [source])
    visitSource(rewriting, source)
    const rewritten = rewrite(rewriting, filter)
    await run(rewriting)
    return await call(source, rewritten)
  })
  return new Proxy(call(source, filter) as object, {
    get: (target, name) => {
      if (!['then', 'catch', 'finally'].includes(String(name))) return Reflect.get(target, name)
      return (later[name as 'then'] as Anything).bind(later)
    },
  })
}

interface RelationalBuilder {
  findMany(config?: QueryConfig): Promise<unknown>
  findFirst(config?: QueryConfig): Promise<unknown>
}

function wrapQueries(tables: KnownTables, database: object, queries: Record<string, RelationalBuilder>): unknown {
  const { schema = {} } = (database as { _: { schema?: Record<string, TableConfig> } })._
  const byName = new Map(Object.values(schema).map((config) => [nameOf(tableOf(config)), config]))
  const find = (table: Table) => byName.get(nameOf(table))
  return Object.fromEntries(
    Object.entries(queries).map(([table, builder]) => {
      const of = schema[table]
      const awaited =
        (method: 'findMany' | 'findFirst') =>
        (config: QueryConfig = {}) =>
          new LaterQuery(async () => {
            if (!of) return builder[method](config)
            const searched = takeSearched(tables, of, config)
            const asked = searched?.config ?? config
            const rewriting = createRewriting(tables)
            const rewritten = rewriteQuery(rewriting, of, asked, find)
            if (searched)
              rewritten.where = and(rewritten.where as SQL | undefined, searchFor(rewriting, searched.asked))
            await run(rewriting)
            const result = await builder[searched ? 'findMany' : method](rewritten)
            const rows = [result ?? []].flat() as Row[]
            await openLevels(tables, { of, config: asked, rows }, find)
            if (!searched) return result
            const right = searched.filter(rows)
            return method === 'findMany' ? right : right[0]
          })
      return [table, { findMany: awaited('findMany'), findFirst: awaited('findFirst') }]
    }),
  )
}

/** Checks SQL passed to `execute`, or used as a common table expression. */
function assertStatement(tables: KnownTables, statement: unknown): void {
  const dry = createRewriting(tables)
  for (const query of queriesIn(statement)) dry.visit(query, true)
  if (dry.searches[0]) refuseSearch(dry.searches[0].model, dry.searches[0].field)
  assertNotNamed(statement, tables.names)
}

function queriesIn(part: unknown): unknown[] {
  if (Array.isArray(part)) return part.flatMap(queriesIn)
  return is(part, SQL) ? part.queryChunks.flatMap(queriesIn) : [part]
}
