/** A dialect of Kysely whose connections encrypt what a query writes, and decrypt what it reads. */
import type { CompiledQuery, DatabaseConnection, Dialect, Driver, QueryCompiler, QueryResult } from 'kysely'
import type { Row } from '../../input.js'
import { isNode } from './nodes.js'
import { assertDistinct, assertReadable, openRows } from './results.js'
import { rewriteStatement } from './rewrite.js'
import type { Output } from './scope.js'
import type { Models } from './tables.js'

export function wrapDialect(dialect: Dialect, models: Models): Dialect {
  return {
    createAdapter: () => dialect.createAdapter(),
    createQueryCompiler: () => dialect.createQueryCompiler(),
    createIntrospector: (database) => dialect.createIntrospector(database),
    createDriver: () => wrapDriver(dialect.createDriver(), dialect.createQueryCompiler(), models),
  }
}

function wrapDriver(driver: Driver, compiler: QueryCompiler, models: Models): Driver {
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
          const wrapped = outer.get(connection) ?? wrapConnection(connection, compiler, models)
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

function wrapConnection(connection: DatabaseConnection, compiler: QueryCompiler, models: Models): DatabaseConnection {
  const translate = async (given: CompiledQuery): Promise<Translated> => {
    if (!isNode(given.query)) return { compiled: given, outputs: [] }
    const { node, outputs } = await rewriteStatement(models, given.query)
    assertDistinct(outputs)
    assertReadable(outputs)
    if (node === given.query) return { compiled: given, outputs }
    return { compiled: compiler.compileQuery(node as never, given.queryId), outputs }
  }
  const wrapped: DatabaseConnection = {
    async executeQuery<R>(given: CompiledQuery, ...options: []): Promise<QueryResult<R>> {
      const { compiled, outputs } = await translate(given)
      const result = await connection.executeQuery<R>(compiled, ...options)
      await openRows(outputs, result.rows as Row[])
      return result
    },
    async *streamQuery<R>(given: CompiledQuery, ...options: [chunkSize: number]) {
      const { compiled, outputs } = await translate(given)
      for await (const result of connection.streamQuery<R>(compiled, ...options)) {
        await openRows(outputs, result.rows as Row[])
        yield result
      }
    },
  }
  // What else a connection can do concerns no rows, such as to cancel a query. Kysely replaces members of it, so it is no proxy.
  for (const name of OTHERS) {
    const member: unknown = Reflect.get(connection, name)
    if (typeof member === 'function') Reflect.set(wrapped, name, member.bind(connection))
  }
  return wrapped
}

const OTHERS = ['cancelQuery', 'collectSessionInfo', 'killSession']
