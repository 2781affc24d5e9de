/** The time that a purge uses: nothing is purged by a clock that may be wrong. */
import type { Services } from '../../core/runner/operation.js'
import { Refusal } from '../../core/runner/refusal.js'
import type { Queryable } from '../../core/store/db.js'
import { hasEntryBetween } from '../store/purge.js'

const MS_PER_DAY = 86_400_000
const CLOCKS_APART_MS = 3_600_000 // if the clocks differ by more, in milliseconds, one of them is assumed to be wrong
/** A clock that leapt ahead by as much, in milliseconds, is assumed to be wrong. */
const IMPLAUSIBLE_LEAP_MS = 366 * MS_PER_DAY
/** Entries from so long before now do not prove the clock right: the same clock may have dated them. */
const UNPROVEN_MS = 28 * MS_PER_DAY

/** The earlier of this clock and the database's, in milliseconds. @throws Refusal E_STATE where they are far apart */
export async function getAgreedTime({ now, databaseNow }: Services, sql: Queryable): Promise<number> {
  const [ours, theirs] = [now(), await databaseNow(sql)]
  if (Math.abs(ours - theirs) > CLOCKS_APART_MS) {
    const [here, there] = [ours, theirs].map((time) => new Date(time).toISOString())
    throw new Refusal(
      'E_STATE',
      `nothing is purged: it is ${here} by this machine's clock and ${there} by the database's. Run NTP on both`,
    )
  }
  return Math.min(ours, theirs)
}

/**
 * Why the clock is not known to be right. One that leapt ahead makes every entry too old at once. It dates current
 * entries, so these prove nothing until an operator has had four weeks to notice; those of the year before do.
 */
export async function findUnprovenTime(sql: Queryable, now: number): Promise<string | undefined> {
  const from = new Date(now - IMPLAUSIBLE_LEAP_MS).toISOString()
  const to = new Date(now - UNPROVEN_MS).toISOString()
  if (await hasEntryBetween(sql, from, to)) return undefined
  return (
    `no entry of any log is between ${from} and ${to}, so nothing shows that the clock is right: check it. If it is, purges resume four weeks after ` +
    'the first call or the next start of a server'
  )
}

/** The same time of day some months before, on the last day of a shorter month. */
export function monthsBefore(now: number, months: number): string {
  const date = new Date(now)
  const day = date.getUTCDate()
  date.setUTCDate(1)
  date.setUTCMonth(date.getUTCMonth() - months)
  const lastDay = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate()
  date.setUTCDate(Math.min(day, lastDay))
  return date.toISOString()
}
