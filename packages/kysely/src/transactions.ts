/** Tracks the transactions of a driver's connections: the application's and the adapter's. */
import type { DatabaseConnection, Driver } from 'kysely'

export interface Transactions {
  /** Runs a method of the driver, which may begin or end a transaction of a connection. */
  byMethod(connection: object | undefined, method: string, run: () => unknown): unknown
  /** Runs SQL as text, which may begin or end one too. */
  byText<T>(connection: object, text: string, run: () => Promise<T>): Promise<T>
  /** Runs a function in the transaction of a connection, or in a new one. */
  within<T>(connection: DatabaseConnection, run: () => Promise<T>): Promise<T>
}

const ENDS = ['commitTransaction', 'rollbackTransaction']

export function createTransactions(driver: Driver): Transactions {
  const open = new WeakSet<object>()
  const follow = async <T>(connection: object, step: Step | undefined, run: () => T | Promise<T>): Promise<T> => {
    if (step === 'end') open.delete(connection) // even if it fails: the database has then rolled back
    const result = await run()
    if (step === 'begin') open.add(connection)
    return result
  }
  return {
    byMethod(connection, method, run) {
      const step = method === 'beginTransaction' ? 'begin' : ENDS.includes(method) ? 'end' : undefined
      return step && connection ? follow(connection, step, run) : run()
    },
    byText: (connection, text, run) => follow(connection, lastStepIn(text), run),
    async within(connection, run) {
      if (open.has(connection)) return run()
      await driver.beginTransaction(connection, {})
      try {
        const result = await run()
        await driver.commitTransaction(connection)
        return result
      } catch (error) {
        await driver.rollbackTransaction(connection)
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
