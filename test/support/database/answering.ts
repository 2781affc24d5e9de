// A database that answers some statements otherwise than it is: by a lock between two statements, a view or a policy, whoever owns it can do that.
import type { Sql } from '../../../packages/server/src/core/store/db.js'

/** The rows of an answer; each test knows those of its statement. */
type Rows = Record<string, unknown>[]

/**
 * Makes a database of which another answer comes to each statement that matches, also within transactions.
 * @param answer is told how to have the statement executed after all
 */
export function answering(
  sql: Sql,
  matching: RegExp,
  answer: (ask: () => Promise<Rows>, sql: Sql, values: readonly unknown[]) => unknown,
): Sql {
  return new Proxy(sql, {
    apply(target, self, args) {
      const ask = () => Reflect.apply(target, self, args) as Promise<Rows>
      const [strings, ...values] = args
      return Array.isArray(strings) && 'raw' in strings && matching.test(strings.join('?'))
        ? answer(ask, target, values)
        : ask()
    },
    get(target, name) {
      const value = Reflect.get(target, name)
      if (name !== 'begin') return value
      return (...args: unknown[]) => {
        const use = args.pop() as (sql: Sql) => unknown
        return Reflect.apply(value, target, [...args, (begun: Sql) => use(answering(begun, matching, answer))])
      }
    },
  })
}
