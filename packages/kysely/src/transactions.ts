/** Tracks the transactions of a driver's connections: the application's and the adapter's. */
import { type Bracket, bracketed, savepoint } from '@eaas/sdk/adapter'
import { CompiledQuery, type DatabaseConnection, type Driver } from 'kysely'

export interface Transactions {
  /** Runs a method of the driver, which may begin or end a transaction of a connection. */
  byMethod(connection: object | undefined, method: string, run: () => unknown): unknown
  /** Runs SQL as text, which may begin or end one too. */
  byText<T>(connection: object, text: string, run: () => Promise<T>): Promise<T>
  /** Runs a write in a new transaction; in that of a connection, behind a savepoint. */
  within<T>(connection: DatabaseConnection, run: () => Promise<T>): Promise<T>
}

const ENDS = ['commitTransaction', 'rollbackTransaction']

const send = (connection: DatabaseConnection, sql: string) => connection.executeQuery(CompiledQuery.raw(sql))

const SAVEPOINT_OF_SQL_SERVER: Bracket<DatabaseConnection> = {
  begin: (connection) => send(connection, 'save transaction eaas_write'),
  keep: async () => undefined, // it releases none
  takeBack: (connection) => send(connection, 'rollback transaction eaas_write'),
}

export function createTransactions(driver: Driver, isSqlServer: boolean): Transactions {
  const open = new WeakSet<object>()
  const follow = async <T>(connection: object, step: Step | undefined, run: () => T | Promise<T>): Promise<T> => {
    if (step === 'end') open.delete(connection) // even if it fails: the database has then rolled back
    const result = await run()
    if (step === 'begin') open.add(connection)
    return result
  }
  const transaction: Bracket<DatabaseConnection> = {
    begin: (connection) => driver.beginTransaction(connection, {}),
    keep: (connection) => driver.commitTransaction(connection),
    takeBack: (connection) => driver.rollbackTransaction(connection),
  }
  const inner = isSqlServer ? SAVEPOINT_OF_SQL_SERVER : savepoint(send)
  return {
    byMethod(connection, method, run) {
      const step = method === 'beginTransaction' ? 'begin' : ENDS.includes(method) ? 'end' : undefined
      return step && connection ? follow(connection, step, run) : run()
    },
    byText: (connection, text, run) => follow(connection, lastStepIn(text), run),
    within: (connection, run) => bracketed(open.has(connection) ? inner : transaction, connection, run),
  }
}

type Step = 'begin' | 'end'

/** One of these words must follow `begin`, or nothing: SQL Server also begins a block of statements with it. */
const BEGIN =
  /^(begin|begin\s+(work|tran|transaction|deferred|immediate|exclusive|isolation|read|not|deferrable)\b.*|start\s+transaction\b.*)$/is
const END = /^(commit|rollback|end|abort)\b(?!.*\bto\b)(?!.*\band\s+chain\b)/is

/** Returns what the last statement that begins or ends a transaction does. A literal or a comment may look like one. */
function lastStepIn(text: string): Step | undefined {
  const statements = /['"`$]|--|\/\*/.test(text) ? [text.trim().replace(/;$/, '')] : text.split(';')
  const steps = statements.flatMap((one): Step[] => {
    const statement = one.trim()
    return BEGIN.test(statement) ? ['begin'] : END.test(statement) ? ['end'] : []
  })
  return steps.at(-1)
}
