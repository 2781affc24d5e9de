/**
 * The builders of inserts, updates and deletes. Encrypting takes time, and Drizzle takes values at once. So the
 * calls are recorded, and repeated on Drizzle's own builder when the query is awaited.
 */

import { refuseCall, rememberCaller, runFor } from '@eaas/sdk/adapter'
import { QueryPromise } from 'drizzle-orm'
import { planFound } from './found-rows.js'
import { runWrite } from './writes.js'
import type { Call, Written } from './written.js'

const REFUSED = ['select', 'prepare', 'toSQL', 'getSQL', 'as', '_prepare', 'all', 'get', 'run']

/** Records the calls on a builder of Drizzle, and repeats them when it is awaited. */
export function wrapWrite(written: Written): object {
  const calls: Call[] = []
  const waiting = new Write(() => (planFound(written, calls) ?? (() => runWrite(written, calls)))())
  const wrapped: object = new Proxy(waiting, {
    get(target, name) {
      if (typeof name === 'symbol' || name in target) return Reflect.get(target, name)
      if (REFUSED.includes(name)) return () => refuseCall(`${name}() of a write`, 'Await the query itself.')
      return (...args: unknown[]) => {
        calls.push([name, args])
        return wrapped
      }
    },
  })
  return wrapped
}

class Write extends QueryPromise<unknown> {
  readonly execute: () => Promise<unknown>

  constructor(run: () => Promise<unknown>) {
    super()
    const atCaller = rememberCaller()
    this.execute = () => runFor(atCaller, run)
  }
}
