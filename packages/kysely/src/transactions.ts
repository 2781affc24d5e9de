/** Tracks the transactions of a driver's connections: the application's and the adapter's. */
import { type Bracket, bracketed, savepoint } from '@eaas/sdk/adapter'
import { CompiledQuery, type DatabaseConnection, type Driver } from 'kysely'

export interface Transactions {
  /** Runs a method of the driver, and follows it if it begins or ends a transaction. */
  byMethod(connection: object | undefined, method: string, run: () => unknown): unknown
  byText<T>(connection: object, text: string, run: () => Promise<T>): Promise<T>
  /** Runs a write in a new transaction or, if the connection has one, behind a savepoint in it. */
  within<T>(connection: DatabaseConnection, run: () => Promise<T>): Promise<T>
}

const ENDS = ['commitTransaction', 'rollbackTransaction']

const send = (connection: DatabaseConnection, sql: string) => connection.executeQuery(CompiledQuery.raw(sql))

const SAVEPOINT_OF_SQL_SERVER: Bracket<DatabaseConnection> = {
  begin: (connection) => send(connection, 'save transaction eaas_write'),
  keep: async () => undefined, // SQL Server does not release savepoints
  takeBack: (connection) => send(connection, 'rollback transaction eaas_write'),
}

export function createTransactions(driver: Driver, isSqlServer: boolean): Transactions {
  const open = new WeakSet<object>()
  const follow = async <T>(connection: object, step: Step | undefined, run: () => T | Promise<T>): Promise<T> => {
    if (step === 'end') open.delete(connection) // even if this fails: the database has then rolled back
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

/** `begin` alone, or followed by one of these words, begins a transaction: SQL Server also opens blocks with it. */
const BEGIN =
  /^(begin|begin\s+(work|tran|transaction|deferred|immediate|exclusive|isolation|read|not|deferrable)\b.*|start\s+transaction\b.*)$/is
const END = /^(commit|rollback|end|abort)\b(?!.*\bto\b)(?!.*\band\s+chain\b)/is

/**
 * Returns the last step in a text that begins or ends a transaction. A literal or a comment may look like one, so text
 * with some is not split.
 */
function lastStepIn(text: string): Step | undefined {
  const statements = /['"`$]|--|\/\*/.test(text) ? [text.trim().replace(/;$/, '')] : text.split(';')
  const steps = statements.flatMap((one): Step[] => {
    const statement = one.trim()
    return BEGIN.test(statement) ? ['begin'] : END.test(statement) ? ['end'] : []
  })
  return steps.at(-1)
}
