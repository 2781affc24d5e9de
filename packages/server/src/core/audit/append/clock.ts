/**
 * The only source of the times that a server writes. Times never go back in a log. So if a wrong clock dated one entry
 * ten days ahead, all entries of the next ten days would carry that time, and usage would be billed in the wrong month.
 */
import { uptime } from 'node:os'
import { AuditWriteError } from '../append-errors.js'

const DEFAULT_CLOCK_TOLERANCE_MS = 5 * 60_000
/** Between two reports of the same wrong clock. */
const REPORT_MS = 60_000

export class WrongClockError extends AuditWriteError {
  override readonly name = 'WrongClockError'
}

interface ClockOptions {
  /** milliseconds since 1970 */
  now: () => number
  /** how far clocks may differ, in milliseconds; Infinity turns the check off */
  toleranceMs: number
  /** whether the database uses this machine's clock, as the embedded one does, so there is no other clock to compare */
  isDatabaseLocal?: boolean
  /** called when the clock is found wrong, and every minute while it stays wrong */
  onWrong?: ((message: string) => void) | undefined
  /** milliseconds; steps of the clock do not affect it; does not advance while the machine sleeps */
  steadyNow?: () => number
  /** milliseconds since the start of the machine, sleep included */
  machineUptime?: () => number
}

export type Clock = ReturnType<typeof createClock>

export function createClock({
  now,
  toleranceMs,
  isDatabaseLocal = false,
  onWrong,
  steadyNow = () => performance.now(),
  machineUptime = () => uptime() * 1_000,
}: ClockOptions) {
  const readBoth = () => ({ time: now(), steady: steadyNow() })
  let last = { ...readBoth(), uptime: machineUptime() }
  let hasAgreed = isDatabaseLocal
  /** the database's time when the clocks last differed, until they agree for the first time */
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

  // NTP makes small steps. The uptime is read only after a leap, to distinguish sleep from a clock that was set.
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

  function withoutLeap(time: number): number {
    return (isChecked && findLeap()?.expected) || time
  }

  /** 0 if an entry is no further ahead than clocks may differ. */
  function aheadOf({ created_at }: { created_at: string }, time: number): number {
    const ahead = Date.parse(created_at) - time
    return ahead > (isChecked ? toleranceMs : DEFAULT_CLOCK_TOLERANCE_MS) ? ahead : 0
  }

  function findLaterEntry({ created_at }: { created_at: string }, time: number): string | undefined {
    const behind = aheadOf({ created_at }, time)
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

  // A database on this machine has no clock of its own.
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
    /**
     * Milliseconds since 1970. After an unexplained leap, the time before it plus the time that has passed since; if
     * this clock never agreed with the database's, at most the database's time.
     */
    now(): number {
      const time = withoutLeap(now())
      return theirs ? Math.min(time, theirs.time + steadyNow() - theirs.steady) : time
    },
    /** The later of the times with and without a leap, so that an expiry by either holds. */
    latest(): number {
      const time = now()
      return Math.max(time, withoutLeap(time))
    },
    /** For entries, in milliseconds since 1970; checked against the previous entry, if given. @throws WrongClockError */
    read(previous?: { created_at: string }): number {
      const time = now()
      if (!isDatabaseLocal || !isChecked) return time
      const fault = describeLeap(findLeap()) ?? (previous && findLaterEntry(previous, time))
      return fault === undefined ? time : refuse(fault)
    },
    isAhead: (previous: { created_at: string }): boolean => aheadOf(previous, now()) > 0,
    /** Compares a time with the database's at the moment of storing. @throws WrongClockError */
    assertAgreement(time: number, databaseTime: number): void {
      aheadMs = time - databaseTime
      const difference = findDifference(aheadMs)
      noteComparison(databaseTime, difference === undefined)
      if (difference !== undefined) refuse(difference)
    },
    /** The reason why an entry of any tenant would be refused now, reported as a refusal; undefined if the clock is right. */
    async findFault(findDatabaseTime: () => Promise<number>): Promise<string | undefined> {
      if (!isChecked) return undefined
      const asked = now()
      const databaseTime = await findDatabaseTime()
      // The database read its clock between two readings of this one, so the time of its answer is not a difference.
      const time = Math.min(Math.max(databaseTime, asked), now())
      aheadMs = time - databaseTime
      const difference = findDifference(aheadMs)
      const fault = difference ?? (isDatabaseLocal ? describeLeap(findLeap()) : undefined)
      noteComparison(databaseTime, fault === undefined)
      if (fault !== undefined) report(fault)
      return fault
    },
    /** how far the database's clock was ahead at the last comparison, in milliseconds; 0 before */
    ahead: (): number => aheadMs,
    /** as of the last entry that was written or refused, or the last `findFault` */
    isWrong: (): boolean => isWrong,
  }
}

function seconds(ms: number): number {
  return Math.round(ms / 1_000)
}
