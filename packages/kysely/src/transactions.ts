/** Tracks the transactions of a driver's connections: the application's and the adapter's. */
import { CompiledQuery, type DatabaseConnection, type Driver } from 'kysely'

export interface Transactions {
  /** Runs a method of the driver, which may begin or end a transaction of a connection. */
  byMethod(connection: object | undefined, method: string, run: () => unknown): unknown
  /** Runs SQL as text, which may begin or end one too. */
  byText<T>(connection: object, text: string, run: () => Promise<T>): Promise<T>
  /**
   * Runs a function in a new transaction; in that of a connection, behind a savepoint. If it fails, nothing of it is
   * stored, also where the application goes on with its transaction.
   */
  within<T>(connection: DatabaseConnection, run: () => Promise<T>): Promise<T>
}

const ENDS = ['commitTransaction', 'rollbackTransaction']

/** What begins a write of several statements, keeps it and takes it back. */
type Bracket = Record<'begin' | 'keep' | 'takeBack', (connection: DatabaseConnection) => Promise<unknown>>

const send = (sql: string) => (connection: DatabaseConnection) => connection.executeQuery(CompiledQuery.raw(sql))

const SAVEPOINT: Bracket = {
  begin: send('savepoint eaas_write'),
  keep: send('release savepoint eaas_write'),
  takeBack: send('rollback to savepoint eaas_write'),
}
const SAVEPOINT_OF_SQL_SERVER: Bracket = {
  begin: send('save transaction eaas_write'),
  keep: async () => undefined, // it releases none
  takeBack: send('rollback transaction eaas_write'),
}

export function createTransactions(driver: Driver, isSqlServer: boolean): Transactions {
  const open = new WeakSet<object>()
  const follow = async <T>(connection: object, step: Step | undefined, run: () => T | Promise<T>): Promise<T> => {
    if (step === 'end') open.delete(connection) // even if it fails: the database has then rolled back
    const result = await run()
    if (step === 'begin') open.add(connection)
    return result
  }
  const transaction: Bracket = {
    begin: (connection) => driver.beginTransaction(connection, {}),
    keep: (connection) => driver.commitTransaction(connection),
    takeBack: (connection) => driver.rollbackTransaction(connection),
  }
  const savepoint = isSqlServer ? SAVEPOINT_OF_SQL_SERVER : SAVEPOINT
  return {
    byMethod(connection, method, run) {
      const step = method === 'beginTransaction' ? 'begin' : ENDS.includes(method) ? 'end' : undefined
      return step && connection ? follow(connection, step, run) : run()
    },
    byText: (connection, text, run) => follow(connection, lastStepIn(text), run),
    async within(connection, run) {
      const { begin, keep, takeBack } = open.has(connection) ? savepoint : transaction
      await begin(connection)
      try {
        const result = await run()
        await keep(connection)
        return result
      } catch (error) {
        // Fails where the database has ended the transaction itself, as MySQL does at a deadlock: `error` says why.
        await takeBack(connection).catch(() => undefined)
        throw error
      }
    },
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
