import type { Sql } from './db.js'

/** In milliseconds: longer than any statement should take, shorter than any client waits. */
export const DATABASE_DEADLINE_MS = 4_000

/** For a whole transaction, in case the database is silent. The database itself limits each statement. */
const TRANSACTION_DEADLINE_MS = 30_000

export class DatabaseDeadlineError extends Error {
  override readonly name = 'DatabaseDeadlineError'
}

/** Waits for `work` until a deadline, possibly one in the past. @throws DatabaseDeadlineError, or what `late` makes */
export async function withDeadline<T>(
  work: Promise<T>,
  ms = DATABASE_DEADLINE_MS,
  late = (): Error => new DatabaseDeadlineError(`the database did not answer within ${ms} ms`),
): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late()), Math.max(0, ms))
  })
  try {
    return await Promise.race([work, deadline])
  } finally {
    clearTimeout(timer)
  }
}

/** Makes each statement outside of a transaction, and each whole transaction, reject after its deadline. */
export function withDeadlines(
  sql: Sql,
  { statementMs = DATABASE_DEADLINE_MS, transactionMs = TRANSACTION_DEADLINE_MS } = {},
): Sql {
  const limited = new Proxy(sql, {
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
  unlimited.set(limited, sql)
  return limited
}

const unlimited = new WeakMap<Sql, Sql>()

/** The same connections without deadlines, for a transaction that may take long and that no caller waits for. */
export function withoutDeadlines(sql: Sql): Sql {
  return unlimited.get(sql) ?? sql
}

// The driver sends a query when its `then` is called. Fragments of other queries are never awaited, so they get no
// deadline.
function bounded<T>(query: Promise<T>, ms: number): Promise<T> {
  const then = query.then.bind(query)
  const send = () => then((answer) => answer)
  return Object.defineProperty(query, 'then', {
    value: (...callbacks: Parameters<Promise<T>['then']>) => withDeadline(send(), ms).then(...callbacks),
  })
}
