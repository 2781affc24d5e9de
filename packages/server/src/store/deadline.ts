/** How long a caller waits for the database before it is told that the call failed. */
import type { Sql } from './db.js'

/** Milliseconds. Longer than any statement should take, shorter than a client's patience. */
export const DATABASE_DEADLINE_MS = 4_000

/** Milliseconds for all of a transaction, each of whose statements has the database's own limit: this is for one that is silent. */
const TRANSACTION_DEADLINE_MS = 30_000

/** Thrown when the database did not answer in time. What it was asked may still happen. */
export class DatabaseDeadlineError extends Error {
  override readonly name = 'DatabaseDeadlineError'
}

/** Waits for the database, but not for ever. @throws DatabaseDeadlineError */
export async function withDeadline<T>(work: Promise<T>, ms = DATABASE_DEADLINE_MS): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new DatabaseDeadlineError(`the database did not answer within ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([work, deadline])
  } finally {
    clearTimeout(timer)
  }
}

/**
 * The same database, each of whose answers is waited for, but not for ever: of a statement by itself, and of a transaction as a
 * whole. A statement within a transaction is not looked at.
 */
export function withDeadlines(
  sql: Sql,
  { statementMs = DATABASE_DEADLINE_MS, transactionMs = TRANSACTION_DEADLINE_MS } = {},
): Sql {
  return new Proxy(sql, {
    apply(target, self, args) {
      const query: unknown = Reflect.apply(target, self, args)
      return query instanceof Promise ? bounded(query, statementMs) : query
    },
    get(target, name, receiver) {
      const value: unknown = Reflect.get(target, name, receiver)
      if (name !== 'begin' || typeof value !== 'function') return value
      return (...args: unknown[]) => withDeadline(Promise.resolve(Reflect.apply(value, target, args)), transactionMs)
    },
  })
}

// The driver sends a query when somebody waits for it; what is part of another query nobody ever waits for.
function bounded<T>(query: Promise<T>, ms: number): Promise<T> {
  const send = query.then.bind(query)
  return Object.defineProperty(query, 'then', {
    value: (...told: Parameters<Promise<T>['then']>) =>
      withDeadline(
        send((answer) => answer),
        ms,
      ).then(...told),
  })
}
