/** A dialect of Kysely whose connections encrypt what a query writes, and decrypt what it reads. */

import { type AtCaller, type Row, rememberCaller, runFor } from '@eaas/sdk/adapter'
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  MssqlAdapter,
  PostgresAdapter,
  type QueryCompiler,
  type QueryResult,
} from 'kysely'
import type { ColumnTypes } from './column-types.js'
import { isNode, type Node } from './nodes.js'
import { assertDistinct, assertReadable, openRows } from './results.js'
import { rewriteStatement } from './rewrite.js'
import type { Output } from './scope.js'
import { createSpellings, type Spellings } from './spellings.js'
import type { Models } from './tables.js'

/**
 * Who compiled a query: the application is on the stack then, but not when Kysely has a connection for it.
 */
type Callers = WeakMap<object, AtCaller>

/** What all connections of a dialect share. */
interface Context {
  models: Models
  callers: Callers
  compiler: QueryCompiler
  /** Makes what spells the ids of one query, by a function that runs others before it. */
  spellingsBy(run: (query: Node) => Promise<Row[]>): Spellings
}

export function wrapDialect(dialect: Dialect, models: Models): Dialect {
  const adapter = dialect.createAdapter()
  const database = {
    isPostgres: adapter instanceof PostgresAdapter,
    isSqlServer: adapter instanceof MssqlAdapter,
    known: new Map<string, ColumnTypes>(),
  }
  const callers: Callers = new WeakMap()
  const context = () => ({
    models,
    callers,
    compiler: dialect.createQueryCompiler(),
    spellingsBy: (run: (query: Node) => Promise<Row[]>) => createSpellings(database, run),
  })
  return {
    createAdapter: () => dialect.createAdapter(),
    createQueryCompiler: () => wrapCompiler(dialect.createQueryCompiler(), callers),
    createIntrospector: (database) => dialect.createIntrospector(database),
    createDriver: () => wrapDriver(dialect.createDriver(), context()),
  }
}

function wrapCompiler(compiler: QueryCompiler, callers: Callers): QueryCompiler {
  return {
    compileQuery(...args) {
      const compiled = compiler.compileQuery(...args)
      callers.set(compiled, rememberCaller())
      return compiled
    },
  }
}

function wrapDriver(driver: Driver, context: Context): Driver {
  /** The driver knows its own connections only. */
  const inner = new WeakMap<object, DatabaseConnection>()
  const outer = new WeakMap<DatabaseConnection, DatabaseConnection>()
  return new Proxy(driver, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name)
      if (typeof member !== 'function') return member
      if (name === 'acquireConnection') {
        return async (...options: []) => {
          const connection = await target.acquireConnection(...options)
          const wrapped = outer.get(connection) ?? wrapConnection(connection, context)
          outer.set(connection, wrapped)
          inner.set(wrapped, connection)
          return wrapped
        }
      }
      return (first: object | undefined, ...rest: unknown[]) =>
        member.call(target, (first && inner.get(first)) ?? first, ...rest) as unknown
    },
  })
}

interface Translated {
  compiled: CompiledQuery
  outputs: readonly Output[]
}

function wrapConnection(
  connection: DatabaseConnection,
  { models, callers, compiler, spellingsBy }: Context,
): DatabaseConnection {
  const callerOf = (query: CompiledQuery) => callers.get(query) ?? rememberCaller()
  const translate = async (given: CompiledQuery): Promise<Translated> => {
    if (!isNode(given.query)) return { compiled: given, outputs: [] }
    const run = async (query: Node) => {
      const { rows } = await connection.executeQuery(compiler.compileQuery(query as never, given.queryId))
      return rows as Row[]
    }
    const { node, outputs } = await rewriteStatement(models, spellingsBy(run), given.query)
    assertDistinct(outputs)
    assertReadable(outputs)
    if (node === given.query) return { compiled: given, outputs }
    return { compiled: compiler.compileQuery(node as never, given.queryId), outputs }
  }
  const wrapped: DatabaseConnection = {
    executeQuery<R>(given: CompiledQuery, ...options: []): Promise<QueryResult<R>> {
      return runFor(callerOf(given), async () => {
        const { compiled, outputs } = await translate(given)
        const result = await connection.executeQuery<R>(compiled, ...options)
        await openRows(outputs, result.rows as Row[])
        return result
      })
    },
    async *streamQuery<R>(given: CompiledQuery, ...options: [chunkSize: number]) {
      const { compiled, outputs } = await runFor(callerOf(given), () => translate(given))
      for await (const result of connection.streamQuery<R>(compiled, ...options)) {
        await runFor(callerOf(given), () => openRows(outputs, result.rows as Row[]))
        yield result
      }
    },
  }
  // What else a connection can do concerns no rows, such as to cancel a query. Kysely replaces members of it,
  // so it is no proxy.
  for (const name of OTHERS) {
    const member: unknown = Reflect.get(connection, name)
    if (typeof member === 'function') Reflect.set(wrapped, name, member.bind(connection))
  }
  return wrapped
}

const OTHERS = ['cancelQuery', 'collectSessionInfo', 'killSession']
