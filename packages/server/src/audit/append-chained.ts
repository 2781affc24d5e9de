/** The statement that appends, with the clock that the entries were dated by held against the database's. */
import { appendEntries } from '../store/audit.js'
import type { Queryable } from '../store/db.js'
import type { ChainedEntry, Head } from './chain.js'
import type { Clock } from './clock.js'

export interface Chained {
  previous: Head
  next: Head
  entries: readonly ChainedEntry[]
  /** what `clock.read` gave for them */
  time: number
}

/**
 * Appends entries where the head in the database is still the previous one; returns whether it was. The statement itself compares the
 * clocks, so that nothing is written by a clock that was right a moment ago.
 *
 * @throws WrongClockError when nothing was written because the clocks are apart
 */
export async function appendChained(sql: Queryable, clock: Clock, { time, ...chained }: Chained): Promise<boolean> {
  const { isMoved, database_time } = await appendEntries(sql, {
    ...chained,
    clock: { time, toleranceMs: clock.toleranceMs },
  })
  clock.assertAgreement(time, isMoved ? clampTo(database_time, time, clock.toleranceMs) : database_time)
  return isMoved
}

// The statement has decided already; the time that it returns is of a moment later.
function clampTo(databaseTime: number, time: number, toleranceMs: number): number {
  return Math.min(Math.max(databaseTime, time - toleranceMs), time + toleranceMs)
}
