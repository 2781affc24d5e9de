/** Appends entries, and compares the clock that dated them with the database's. */
import type { ChainedEntry } from '@eaas/audit'
import { appendToMany } from '../../store/append-many.js'
import { appendEntries } from '../../store/audit.js'
import type { Queryable, Transaction } from '../../store/db.js'
import { AuditWriteError } from '../append-errors.js'
import type { Head } from '../formats/chain.js'
import type { Clock } from './clock.js'

export interface Chained {
  previous: Head
  next: Head
  entries: readonly ChainedEntry[]
  /** what `clock.read` returned for them */
  time: number
}

/**
 * Appends entries if the head in the database is still the previous one, and not locked; returns whether it
 * was. The statement itself compares the clocks, so that nothing is written under a clock that has just
 * become wrong.
 *
 * @throws WrongClockError if nothing was written because the clocks differ too much
 */
export async function appendChained(sql: Queryable, clock: Clock, { time, ...chained }: Chained): Promise<boolean> {
  const { isMoved, database_time } = await appendEntries(sql, {
    ...chained,
    clock: { time, toleranceMs: clock.toleranceMs },
  })
  clock.assertAgreement(time, isMoved ? clampTo(database_time, time, clock.toleranceMs) : database_time)
  return isMoved
}

/**
 * Appends entries after a head that this transaction has locked or inserted. @throws AuditWriteError,
 * WrongClockError
 */
export async function appendToLocked(sql: Transaction, clock: Clock, chained: Chained): Promise<void> {
  if (await appendChained(sql, clock, chained)) return
  throw new AuditWriteError(`the head of the audit chain of ${chained.previous.tenant_id} changed while it was locked`)
}

/**
 * Appends for many tenants in one statement, as `appendChained` does for one. Returns the positions of those
 * whose head was the previous one, and was not locked. A single tenant gets the statement of one, which costs
 * less.
 *
 * @throws WrongClockError if nothing was written because the clocks differ too much
 */
export async function appendChainedToMany(
  sql: Queryable,
  clock: Clock,
  appends: readonly Chained[],
): Promise<ReadonlySet<number>> {
  const [first, second] = appends
  if (first && !second) return new Set((await appendChained(sql, clock, first)) ? [0] : [])
  const time = Math.max(...appends.map((append) => append.time))
  const { moved, database_time } = await appendToMany(sql, appends, { time, toleranceMs: clock.toleranceMs })
  clock.assertAgreement(time, moved.length > 0 ? clampTo(database_time, time, clock.toleranceMs) : database_time)
  return new Set(moved)
}

// The statement has already compared the clocks; the time that it returns is slightly later and must not
// decide again.
function clampTo(databaseTime: number, time: number, toleranceMs: number): number {
  return Math.min(Math.max(databaseTime, time - toleranceMs), time + toleranceMs)
}
