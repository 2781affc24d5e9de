/**
 * The only source of the times that a server writes. No entry is written by a wrong clock: after one that is dated ten
 * days ahead, every entry of ten days would carry that time, since times never go back in a log, and usage would be
 * billed in the wrong month. Other times come from `now`, which setting the clock does not move.
 */
import { uptime } from 'node:os'
import { AuditWriteError } from '../append-errors.js'

/** How far a server's clock may be from the database's, in milliseconds. */
const DEFAULT_CLOCK_TOLERANCE_MS = 5 * 60_000
/** Between two reports of the same wrong clock. */
const REPORT_MS = 60_000

/** Thrown instead of writing an entry with a wrong time. */
export class WrongClockError extends AuditWriteError {
  override readonly name = 'WrongClockError'
}

interface ClockOptions {
  /** milliseconds since 1970 */
  now: () => number
  /** how far clocks may differ, in milliseconds; Infinity refuses nothing */
  toleranceMs: number
  /**
   * whether the database uses this machine's clock, as the embedded one does: then there is no second clock to compare
   */
  isDatabaseLocal?: boolean
  /** called when the clock is found wrong, and every minute while it stays wrong */
  onWrong?: ((message: string) => void) | undefined
  /** milliseconds, unaffected by steps of the clock; does not advance while the machine sleeps */
  steadyNow?: () => number
  /** milliseconds since the machine was started, sleep included */
  machineUptime?: () => number
}

export interface Clock {
  toleranceMs: number
  /**
   * The time, in milliseconds since 1970. After an unexplained leap, the time before it plus what has passed since. If
   * the clock never agreed with the database's, no later than the database's.
   */
  now(): number
  /** The later of the clock's time with and without a leap: what has expired by either stays expired. */
  latest(): number
  /**
   * The time for entries, in milliseconds since 1970, which must not be far before that of the entry that they follow;
   * not compared if that is left out. @throws WrongClockError
   */
  read(previous?: { created_at: string }): number
  /** Whether the last entry of a log is further ahead of this clock than clocks may differ. */
  isAhead(previous: { created_at: string }): boolean
  /** Compares a time with the database's clock at the moment of storing it. @throws WrongClockError */
  assertAgreement(time: number, databaseTime: number): void
  /**
   * Finds why an entry of any tenant would be refused now, without writing one; undefined if the clock is right.
   * Reports it as a refusal does. A single log ahead of the clock is not such a fault.
   */
  findFault(findDatabaseTime: () => Promise<number>): Promise<string | undefined>
  /** how far this clock was ahead of the database's when they were last compared, in milliseconds; 0 before */
  ahead(): number
  /** whether the clock was wrong when an entry was last written or refused, or `findFault` last called */
  isWrong(): boolean
}

/** Creates the clock; one per process. */
export function createClock({
  now,
  toleranceMs,
  isDatabaseLocal = false,
  onWrong,
  steadyNow = () => performance.now(),
  machineUptime = () => uptime() * 1_000,
}: ClockOptions): Clock {
  const readBoth = () => ({ time: now(), steady: steadyNow() })
  let last = { ...readBoth(), uptime: machineUptime() }
  let hasAgreed = isDatabaseLocal
  /** the database's time when it last differed, while this clock has never agreed with it */
  let theirs: { time: number; steady: number } | undefined
  const isChecked = toleranceMs !== Number.POSITIVE_INFINITY
  let aheadMs = 0
  let isWrong = false
  let reportedAt = Number.NEGATIVE_INFINITY

  function report(message: string): void {
    isWrong = true
    if (steadyNow() - reportedAt < REPORT_MS) return
    reportedAt = steadyNow()
    onWrong?.(message)
  }

  function refuse(message: string): never {
    report(message)
    throw new WrongClockError(message)
  }

  // NTP makes small steps. The machine's uptime is read only after a leap: it distinguishes a sleep from a
  // clock that was set.
  function findLeap(): { leap: number; expected: number } | undefined {
    const seen = readBoth()
    const passed = seen.time - last.time
    const steadyPassed = seen.steady - last.steady
    const leap = passed - steadyPassed
    if (Math.abs(leap) <= 1_000) return undefined
    const uptimePassed = machineUptime() - last.uptime
    if (Math.abs(leap) > toleranceMs && Math.abs(passed - uptimePassed) > toleranceMs) {
      return { leap, expected: last.time + Math.max(steadyPassed, uptimePassed) }
    }
    last = { ...seen, uptime: machineUptime() }
    return undefined
  }

  function describeLeap(found: ReturnType<typeof findLeap>): string | undefined {
    if (!found) return undefined
    return (
      `this machine's clock jumped by ${seconds(found.leap)} s while the server was running, so nothing is written. Correct the clock; if it is ` +
      'correct now, restart the server'
    )
  }

  /** The clock's time as if it had not been set. */
  function withoutLeap(time: number): number {
    return (isChecked && findLeap()?.expected) || time
  }

  /** How far an entry is ahead, in milliseconds; 0 if no further than clocks may differ. */
  function aheadOf({ created_at }: { created_at: string }, time: number): number {
    const ahead = Date.parse(created_at) - time
    return ahead > (isChecked ? toleranceMs : DEFAULT_CLOCK_TOLERANCE_MS) ? ahead : 0
  }

  function findLaterEntry(previous: { created_at: string }, time: number): string | undefined {
    const { created_at } = previous
    const behind = aheadOf(previous, time)
    if (behind === 0) return undefined
    return (
      `this machine's clock is ${seconds(behind)} s behind the last audit entry (${created_at}), so nothing is written. ` +
      'Correct the clock; if it is correct, a wrong clock dated that entry: eaas accept clock'
    )
  }

  function findDifference(difference: number): string | undefined {
    if (Math.abs(difference) <= toleranceMs) return undefined
    return (
      `this machine's clock is ${seconds(Math.abs(difference))} s ${difference > 0 ? 'ahead of' : 'behind'} the database's, so nothing is ` +
      'written. Run NTP on both machines'
    )
  }

  // A database on this machine has no time of its own to agree with.
  function noteComparison(databaseTime: number, isRight: boolean): void {
    if (isRight) isWrong = false
    if (isDatabaseLocal) return
    if (!isRight) {
      if (!hasAgreed) theirs = { time: databaseTime, steady: steadyNow() }
      return
    }
    hasAgreed = true
    theirs = undefined
    if (findLeap()) last = { time: databaseTime, steady: steadyNow(), uptime: machineUptime() }
  }

  return {
    toleranceMs,
    now() {
      const time = withoutLeap(now())
      return theirs ? Math.min(time, theirs.time + steadyNow() - theirs.steady) : time
    },
    latest() {
      const time = now()
      return Math.max(time, withoutLeap(time))
    },
    read(previous) {
      const time = now()
      if (!isDatabaseLocal || !isChecked) return time
      const leap = describeLeap(findLeap())
      if (leap !== undefined) refuse(leap)
      const later = previous && findLaterEntry(previous, time)
      if (later === undefined) return time
      return refuse(later)
    },
    isAhead: (previous) => aheadOf(previous, now()) > 0,
    assertAgreement(time, databaseTime) {
      aheadMs = time - databaseTime
      const difference = findDifference(aheadMs)
      noteComparison(databaseTime, difference === undefined)
      if (difference !== undefined) refuse(difference)
    },
    async findFault(findDatabaseTime) {
      if (!isChecked) return undefined
      const asked = now()
      const databaseTime = await findDatabaseTime()
      // The database read its clock between two readings of this one: the time that its answer took is no
      // difference of the clocks.
      const time = Math.min(Math.max(databaseTime, asked), now())
      aheadMs = time - databaseTime
      const difference = findDifference(aheadMs)
      const fault = difference ?? (isDatabaseLocal ? describeLeap(findLeap()) : undefined)
      noteComparison(databaseTime, fault === undefined)
      if (fault !== undefined) report(fault)
      return fault
    },
    ahead: () => aheadMs,
    isWrong: () => isWrong,
  }
}

function seconds(ms: number): number {
  return Math.round(ms / 1_000)
}
