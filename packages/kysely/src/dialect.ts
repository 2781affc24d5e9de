/** A dialect of Kysely whose connections encrypt what a query writes, and decrypt what it reads. */
import { InvalidInputError } from '@eaas/sdk'
import {
  type AtCaller,
  createIdMaker,
  divideRows,
  MOST_PARAMETERS,
  type Row,
  refuseCall,
  refuseParameters,
  rememberCaller,
  runFor,
  type SealedTable,
} from '@eaas/sdk/adapter'
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  MssqlAdapter,
  MysqlAdapter,
  PostgresAdapter,
  type QueryCompiler,
  type QueryResult,
  SqliteAdapter,
  ValuesNode,
} from 'kysely'
import type { ColumnTypes } from './column-types.js'
import { planFound, type Result, type Steps, sum } from './found-rows.js'
import { isNode, type Node, rawText, tableNames } from './nodes.js'
import { assertDistinct, assertReadable, hide, openRows } from './results.js'
import { rewriteStatement } from './rewrite.js'
import type { Output } from './scope.js'
import type { Filtering } from './searches.js'
import { createSpellings, type Database, type Spellings } from './spellings.js'
import { findTable, type Models } from './tables.js'
import { createTransactions, type Transactions } from './transactions.js'
import { nameOf } from './writes.js'

/**
 * The application's code that compiled a query: it is on the stack then, but no longer when Kysely has a connection.
 */
type Callers = WeakMap<object, AtCaller>

/** What all connections of a dialect share. */
interface Context {
  models: Models
  callers: Callers
  compiler: QueryCompiler
  lock: Steps['lock']
  takesDefault: boolean
  isPostgres: boolean
  isMysql: boolean
  isSqlServer: boolean
  /** The most parameters of a statement. */
  most: number
  /** Makes the spellings of one query, given a function that runs others before it. */
  spellingsBy(run: (query: Node) => Promise<Row[]>): Spellings
}

/** @throws InvalidInputError when the database cannot hold what a model stores */
export function wrapDialect(dialect: Dialect, models: Models): Dialect {
  const adapter = dialect.createAdapter()
  if (adapter instanceof SqliteAdapter) for (const table of models.values()) assertNoJson(table)
  const database = {
    isPostgres: adapter instanceof PostgresAdapter,
    isSqlite: adapter instanceof SqliteAdapter,
    isSqlServer: adapter instanceof MssqlAdapter,
    isMysql: adapter instanceof MysqlAdapter,
    known: new Map<string, ColumnTypes>(),
    ids: createIdMaker(),
  }
  const callers: Callers = new WeakMap()
  const context = () => ({
    models,
    callers,
    compiler: dialect.createQueryCompiler(),
    isPostgres: database.isPostgres,
    isMysql: database.isMysql,
    isSqlServer: database.isSqlServer,
    lock: lockOf(database),
    most: mostOf(database),
    takesDefault: database.isPostgres || database.isSqlServer || database.isMysql, // SQLite does not
    spellingsBy: (run: (query: Node) => Promise<Row[]>) => createSpellings(database, run),
  })
  return {
    createAdapter: () => dialect.createAdapter(),
    createQueryCompiler: () => wrapCompiler(dialect.createQueryCompiler(), callers),
    createIntrospector: (database) => dialect.createIntrospector(database),
    createDriver: () => wrapDriver(dialect.createDriver(), context()),
  }
}

type Kind = Pick<Database, 'isPostgres' | 'isSqlite' | 'isMysql' | 'isSqlServer'>

/** SQLite needs no lock: within a transaction, no other one can write what it has read. */
function lockOf(database: Kind): Steps['lock'] {
  if (database.isSqlServer) return 'updlock'
  return database.isPostgres || database.isMysql ? 'for update' : undefined
}

function mostOf({ isSqlite, isSqlServer, isMysql }: Kind): number {
  const kind = isSqlite ? 'sqlite' : isSqlServer ? 'sqlServer' : isMysql ? 'mysql' : 'postgres'
  return MOST_PARAMETERS[kind]
}

/** @throws InvalidInputError if a stored value is an object, which drivers of SQLite do not accept */
function assertNoJson({ name, stored }: SealedTable): void {
  const json = stored.find(({ holds }) => holds === 'json')
  if (!json) return
  throw new InvalidInputError(
    `${name}.${json.column} would be stored as an object, which drivers of SQLite do not take`,
    "Give the model format: 'text', and encrypt JSON as a whole, by json().",
  )
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
  /** Maps ours to the driver's connections, which are the only ones that it knows. */
  const inner = new WeakMap<object, DatabaseConnection>()
  const outer = new WeakMap<DatabaseConnection, DatabaseConnection>()
  const transactions = createTransactions(driver, context.isSqlServer)
  return new Proxy(driver, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name)
      if (typeof member !== 'function') return member
      if (name === 'acquireConnection') {
        return async (...options: []) => {
          const connection = await target.acquireConnection(...options)
          const wrapped = outer.get(connection) ?? wrapConnection(connection, context, transactions)
          outer.set(connection, wrapped)
          inner.set(wrapped, connection)
          return wrapped
        }
      }
      return (first: object | undefined, ...rest: unknown[]) => {
        const connection = (first && inner.get(first)) ?? first
        const run = () => member.call(target, connection, ...rest) as unknown
        return transactions.byMethod(connection, String(name), run)
      }
    },
  })
}

interface Translated {
  compiled: CompiledQuery
  outputs: readonly Output[]
  filtering?: Filtering | undefined
}

/** Opens the rows of a result, and returns those that the application asked for. */
async function readRows({ outputs, filtering }: Translated, rows: Row[]): Promise<Row[]> {
  await openRows(outputs, rows)
  const { isRight, skip, take } = filtering ?? {}
  const right = isRight ? rows.filter(isRight).slice(skip, take === undefined ? undefined : (skip ?? 0) + take) : rows
  hide(outputs, right)
  return right
}

function wrapConnection(
  connection: DatabaseConnection,
  context: Context,
  transactions: Transactions,
): DatabaseConnection {
  const { models, callers, compiler, spellingsBy, lock, most, takesDefault, isPostgres: takesMany, isMysql } = context
  const callerOf = (query: CompiledQuery) => callers.get(query) ?? rememberCaller()
  const translate = async (given: CompiledQuery, rows?: readonly Row[]): Promise<Translated> => {
    if (!isNode(given.query)) return { compiled: given, outputs: [] }
    const run = async (query: Node) => {
      const { rows } = await connection.executeQuery(compiler.compileQuery(query as never, given.queryId))
      return rows as Row[]
    }
    const { node, outputs, filtering } = await rewriteStatement(models, spellingsBy(run), given.query, rows)
    assertDistinct(outputs)
    assertReadable(outputs)
    if (node === given.query) return { compiled: given, outputs }
    const compiled = compiler.compileQuery(node as never, given.queryId)
    const count = compiled.parameters.length
    if (count > most && given.parameters.length <= most) {
      refuseParameters('an insert', { rows: mostRows(given.query), count, most })
    }
    return { compiled, outputs, filtering }
  }
  /** @param part set for a step of a change of found rows, with the rows that it changes */
  const execute = async <R>(given: CompiledQuery, options: [], part?: { rows: readonly Row[] | undefined }) => {
    const translated = await translate(given, part?.rows)
    if (part && translated.filtering) {
      refuseCall('an update by a search that finds more rows than match', 'Read the ids, and update by them.')
    }
    const run = () => connection.executeQuery<R>(translated.compiled, ...options)
    const isText = isNode(given.query) && given.query.kind === 'RawNode'
    const result = await (isText ? transactions.byText(connection, rawText(given.query as Node), run) : run())
    const rows = await readRows(translated, result.rows as Row[])
    return rows === result.rows ? result : { ...result, rows: rows as R[] }
  }
  const wrapped: DatabaseConnection = {
    executeQuery<R>(given: CompiledQuery, ...options: []): Promise<QueryResult<R>> {
      return runFor(callerOf(given), () => {
        const change = isNode(given.query) ? planFound(models, given.query) : undefined
        const parts = isNode(given.query) && !change ? partsOf(models, given.query, most) : []
        if (parts.length > 0) {
          return transactions.within(connection, async () => {
            const results: QueryResult<R>[] = []
            for (const part of parts) results.push(await execute<R>({ ...given, query: part as never }, options))
            // The id that MySQL reports is that of the first row, and that of SQLite the last one's.
            return { ...results.at(isMysql ? 0 : -1), ...sum(results as Result[]) } as QueryResult<R>
          })
        }
        if (!change) return execute<R>(given, options)
        const run = (statement: Node, rows?: readonly Row[]) =>
          execute({ ...given, query: statement as never }, options, { rows }) as Promise<Result>
        return transactions.within(
          connection,
          () => change({ lock, takesMany, takesDefault, run }) as Promise<QueryResult<R>>,
        )
      })
    },
    async *streamQuery<R>(given: CompiledQuery, ...options: [chunkSize: number]) {
      const translated = await runFor(callerOf(given), () => translate(given))
      if (translated.filtering) refuseCall('a stream of a search that finds more rows than match', 'Execute it.')
      for await (const result of connection.streamQuery<R>(translated.compiled, ...options)) {
        await runFor(callerOf(given), () => readRows(translated, result.rows as Row[]))
        yield result
      }
    },
  }
  // The other members of a connection, such as cancelling a query, do not involve rows. They are copied, not
  // proxied, because Kysely replaces members of a connection.
  for (const name of OTHERS) {
    const member: unknown = Reflect.get(connection, name)
    if (typeof member === 'function') Reflect.set(wrapped, name, member.bind(connection))
  }
  return wrapped
}

const OTHERS = ['cancelQuery', 'collectSessionInfo', 'killSession']

/** The parts of an insert that each of its statements can have. */
const REPEATED = ['kind', 'into', 'columns', 'values', 'onConflict', 'returning']

/**
 * Returns the statements of an insert, in the order of its rows; none if one takes all rows. Encryption adds more
 * parameters than one may have.
 */
function partsOf(models: Models, statement: Node, most: number): Node[] {
  const { into, values, columns, ...others } = statement
  const table = isNode(into) ? findTable(models, tableNames(into)?.table ?? '') : undefined
  const isWhole = Object.keys(others).some((part) => others[part] !== undefined && !REPEATED.includes(part))
  if (statement.kind !== 'InsertQueryNode' || !table || !isNode(values) || values.kind !== 'ValuesNode' || isWhole) {
    return []
  }
  const given = ((columns as readonly Node[] | undefined) ?? []).map(nameOf)
  const added = table.columns.filter((column) => !given.includes(column)).length
  const costOf = (row: Node) => countIn(row) + added
  // An upsert may also set each column of the model.
  const left = most - countIn(others) - table.columns.length
  const parts = divideRows(values.values as readonly Node[], costOf, left)
  if (parts.length < 2) return []
  return parts.map((rows) => ({ ...statement, values: ValuesNode.create(rows as never) }) as unknown as Node)
}

/** Counts the parameters in a part of a statement. A default may be that of an encrypted column, which gets a value. */
function countIn(part: unknown): number {
  if (Array.isArray(part)) return part.reduce<number>((sum, one) => sum + countIn(one), 0)
  if (!isNode(part)) return typeof part === 'object' && part !== null ? countIn(Object.values(part)) : 0
  if (part.kind === 'PrimitiveValueListNode') return (part.values as readonly unknown[]).length
  return ['ValueNode', 'DefaultInsertValueNode'].includes(part.kind) ? 1 : countIn(Object.values(part))
}

/** Returns the number of rows in the largest list of values, wherever it is in a statement. */
function mostRows(part: unknown): number {
  if (Array.isArray(part)) return Math.max(0, ...part.map(mostRows))
  if (!isNode(part)) return 0
  if (part.kind === 'ValuesNode') return (part.values as readonly unknown[]).length
  return mostRows(Object.values(part))
}
