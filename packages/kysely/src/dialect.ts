/** A dialect of Kysely whose connections encrypt what a query writes, and decrypt what it reads. */
import { InvalidInputError } from '@eaas/sdk'
import {
  type AtCaller,
  createIdMaker,
  divideRows,
  MOST_PARAMETERS,
  openReturned,
  pageOf,
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
  type DialectAdapter,
  type Driver,
  MssqlAdapter,
  MysqlAdapter,
  PostgresAdapter,
  type QueryCompiler,
  type QueryResult,
  SqliteAdapter,
  ValuesNode,
} from 'kysely'
import { planFound, type Result, type Steps, sum } from './found-rows.js'
import { isNode, mayWrite, type Node, rawText, tableNames } from './nodes.js'
import { assertDistinct, assertReadable, hide, openRows } from './results.js'
import { rewriteStatement } from './rewrite.js'
import { findTable, type Models, type Output } from './scope.js'
import type { Filtering } from './searches.js'
import { createSpellings, type Database } from './spellings.js'
import { createTransactions, type Transactions } from './transactions.js'
import { nameOf } from './writes.js'

/** The caller of each compiled query: by the time Kysely has a connection, the application is no longer on the stack. */
type Callers = WeakMap<object, AtCaller>

type Context = { models: Models; callers: Callers; compiler: QueryCompiler; database: Database }

/** @throws InvalidInputError when the database cannot hold what a model stores */
export function wrapDialect(dialect: Dialect, models: Models): Dialect {
  const kind = kindOf(dialect.createAdapter())
  if (kind === 'sqlite') for (const table of models.values()) assertNoJson(table)
  const database: Database = { kind, known: new Map(), ids: createIdMaker() }
  const callers: Callers = new WeakMap()
  return {
    createAdapter: () => dialect.createAdapter(),
    createQueryCompiler: () => wrapCompiler(dialect.createQueryCompiler(), callers),
    createIntrospector: (own) => dialect.createIntrospector(own),
    createDriver() {
      const compiler = dialect.createQueryCompiler()
      return wrapDriver(dialect.createDriver(), { models, callers, compiler, database })
    },
  }
}

function kindOf(adapter: DialectAdapter): Database['kind'] {
  if (adapter instanceof PostgresAdapter) return 'postgres'
  if (adapter instanceof SqliteAdapter) return 'sqlite'
  if (adapter instanceof MssqlAdapter) return 'sqlServer'
  return adapter instanceof MysqlAdapter ? 'mysql' : undefined
}

/** SQLite needs no lock: within a transaction, no other one can write what it has read. */
const LOCKS = { postgres: 'for update', mysql: 'for update', sqlServer: 'updlock', sqlite: undefined } as const

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
  /** Maps our connections to the driver's, which are the only ones that the driver knows. */
  const inner = new WeakMap<object, DatabaseConnection>()
  const outer = new WeakMap<DatabaseConnection, DatabaseConnection>()
  const transactions = createTransactions(driver, context.database.kind === 'sqlServer')
  return new Proxy(driver, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name)
      if (typeof member !== 'function') return member
      if (name === 'acquireConnection')
        return async (...options: []) => {
          const connection = await target.acquireConnection(...options)
          const wrapped = outer.get(connection) ?? wrapConnection(connection, context, transactions)
          outer.set(connection, wrapped)
          inner.set(wrapped, connection)
          return wrapped
        }
      return (first: object | undefined, ...rest: unknown[]) => {
        const connection = (first && inner.get(first)) ?? first
        const run = () => member.call(target, connection, ...rest) as unknown
        return transactions.byMethod(connection, String(name), run)
      }
    },
  })
}

type Translated = { compiled: CompiledQuery; outputs: readonly Output[]; filtering?: Filtering | undefined }

async function readRows({ outputs, filtering }: Translated, rows: Row[], wrote: boolean): Promise<Row[]> {
  await openReturned(wrote, () => openRows(outputs, rows))
  const right = filtering ? pageOf(rows, filtering.isRight, filtering) : rows
  hide(outputs, right)
  return right
}

function wrapConnection(
  connection: DatabaseConnection,
  context: Context,
  transactions: Transactions,
): DatabaseConnection {
  const { models, callers, compiler, database } = context
  const { kind } = database
  const most = MOST_PARAMETERS[kind ?? 'postgres']
  const callerOf = (query: CompiledQuery) => callers.get(query) ?? rememberCaller()
  const translate = async (given: CompiledQuery, rows?: readonly Row[]): Promise<Translated> => {
    if (!isNode(given.query)) return { compiled: given, outputs: [] }
    const run = async (query: Node) => {
      const { rows } = await connection.executeQuery(compiler.compileQuery(query as never, given.queryId))
      return rows as Row[]
    }
    const spellings = createSpellings(database, run)
    const { node, outputs, filtering } = await rewriteStatement(models, spellings, given.query, rows)
    assertDistinct(outputs)
    assertReadable(outputs)
    if (node === given.query) return { compiled: given, outputs }
    const compiled = compiler.compileQuery(node as never, given.queryId)
    const count = compiled.parameters.length
    if (count > most && given.parameters.length <= most)
      refuseParameters('an insert', { rows: mostRows(given.query), count, most })
    return { compiled, outputs, filtering }
  }
  const wrote = ({ query }: CompiledQuery) => isNode(query) && mayWrite(query)
  /** @param part set for a step of a write that is undone if it fails; `rows` are those that it changes, if already read */
  const execute = async <R>(given: CompiledQuery, options: [], part?: { rows?: readonly Row[] | undefined }) => {
    const translated = await translate(given, part?.rows)
    if (part && translated.filtering)
      refuseCall('an update by a search that finds more rows than match', 'Read the ids, and update by them.')
    const run = () => connection.executeQuery<R>(translated.compiled, ...options)
    const isText = isNode(given.query) && given.query.kind === 'RawNode'
    const result = await (isText ? transactions.byText(connection, rawText(given.query as Node), run) : run())
    const rows = await readRows(translated, result.rows as Row[], !part && wrote(given))
    return rows === result.rows ? result : { ...result, rows: rows as R[] }
  }
  const wrapped: DatabaseConnection = {
    executeQuery<R>(given: CompiledQuery, ...options: []): Promise<QueryResult<R>> {
      return runFor(callerOf(given), () => {
        const change = isNode(given.query) ? planFound(models, given.query) : undefined
        const parts = isNode(given.query) && !change ? partsOf(models, given.query, most) : []
        if (parts.length > 0)
          return transactions.within(connection, async () => {
            const results: QueryResult<R>[] = []
            for (const part of parts) results.push(await execute<R>({ ...given, query: part as never }, options, {}))
            // MySQL reports the id of the first row, SQLite that of the last one.
            return { ...results.at(kind === 'mysql' ? 0 : -1), ...sum(results as Result[]) } as QueryResult<R>
          })
        if (!change) return execute<R>(given, options)
        const steps: Steps = {
          lock: kind && LOCKS[kind],
          takesMany: kind === 'postgres',
          takesDefault: kind !== undefined && kind !== 'sqlite',
          run: (statement, rows) =>
            execute({ ...given, query: statement as never }, options, { rows }) as Promise<Result>,
        }
        return transactions.within(connection, () => change(steps) as Promise<QueryResult<R>>)
      })
    },
    async *streamQuery<R>(given: CompiledQuery, ...options: [chunkSize: number]) {
      const translated = await runFor(callerOf(given), () => translate(given))
      if (translated.filtering) refuseCall('a stream of a search that finds more rows than match', 'Execute it.')
      for await (const result of connection.streamQuery<R>(translated.compiled, ...options)) {
        await runFor(callerOf(given), () => readRows(translated, result.rows as Row[], wrote(given)))
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

const REPEATED = ['kind', 'into', 'columns', 'values', 'onConflict', 'returning']

/** Splits an insert that has more parameters than one statement may have; none if one statement takes all rows. */
function partsOf(models: Models, statement: Node, most: number): Node[] {
  const { into, values, columns, ...others } = statement
  const table = isNode(into) ? findTable(models, tableNames(into)?.table ?? '') : undefined
  const isWhole = Object.keys(others).some((part) => others[part] !== undefined && !REPEATED.includes(part))
  if (statement.kind !== 'InsertQueryNode' || !table || !isNode(values) || values.kind !== 'ValuesNode' || isWhole)
    return []
  const given = ((columns as readonly Node[] | undefined) ?? []).map(nameOf)
  const added = table.columns.filter((column) => !given.includes(column)).length
  const costOf = (row: Node) => countIn(row) + added
  // An upsert may also set each column of the model.
  const left = most - countIn(others) - table.columns.length
  const parts = divideRows(values.values as readonly Node[], costOf, left)
  if (parts.length < 2) return []
  return parts.map((rows) => ({ ...statement, values: ValuesNode.create(rows as never) }) as unknown as Node)
}

/** Counts parameters. A `default` counts as one: where the column is encrypted, a value replaces it. */
function countIn(part: unknown): number {
  if (Array.isArray(part)) return part.reduce<number>((sum, one) => sum + countIn(one), 0)
  if (!isNode(part)) return typeof part === 'object' && part !== null ? countIn(Object.values(part)) : 0
  if (part.kind === 'PrimitiveValueListNode') return (part.values as readonly unknown[]).length
  return ['ValueNode', 'DefaultInsertValueNode'].includes(part.kind) ? 1 : countIn(Object.values(part))
}

function mostRows(part: unknown): number {
  if (Array.isArray(part)) return Math.max(0, ...part.map(mostRows))
  if (!isNode(part)) return 0
  if (part.kind === 'ValuesNode') return (part.values as readonly unknown[]).length
  return mostRows(Object.values(part))
}
