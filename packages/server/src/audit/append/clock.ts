/**
 * Refuses a wrong clock. After an entry that is dated ten days ahead, every entry of ten days would carry that time, since times never
 * go back in a log, and usage would be billed in the wrong month.
 */
import { uptime } from 'node:os'
import { AuditWriteError } from '../append-errors.js'

/** How far a server's clock may be from the database's, in milliseconds. */
export const DEFAULT_CLOCK_TOLERANCE_MS = 5 * 60_000
/** Between two reports of the same wrong clock. */
const REPORT_MS = 60_000

/** Thrown instead of writing an entry with a wrong time. */
export class WrongClockError extends AuditWriteError {
  override readonly name = 'WrongClockError'
}

export interface ClockOptions {
  /** milliseconds since 1970 */
  now: () => number
  /** how far clocks may differ, in milliseconds; Infinity refuses nothing */
  toleranceMs: number
  /** whether the database uses this machine's clock, as the embedded one does: then there is no second clock to compare */
  isDatabaseLocal?: boolean
  /** called when the clock is found wrong, and every minute while it stays wrong */
  onWrong?: (message: string) => void
  /** milliseconds, unaffected by steps of the clock; does not advance while the machine sleeps */
  steadyNow?: () => number
  /** milliseconds since the machine was started, sleep included */
  machineUptime?: () => number
}

export interface Clock {
  toleranceMs: number
  /** The time for entries that follow another one, in milliseconds since 1970. @throws WrongClockError */
  read(previous: { created_at: string }): number
  /** Compares a time with the database's clock at the moment of storing it. @throws WrongClockError */
  assertAgreement(time: number, databaseTime: number): void
  /**
   * Finds why an entry of any tenant would be refused now, without writing one; undefined if the clock is right. Reports it as a refusal does.
   * That a single log is ahead of the clock is no such fault.
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
  let last = { ...readBoth(), uptime: isDatabaseLocal ? machineUptime() : 0 }
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

  // NTP makes small steps. The machine's uptime is read only after a leap: it distinguishes a sleep from a clock that was set.
  function findLeap(): string | undefined {
    const seen = readBoth()
    const passed = seen.time - last.time
    const leap = passed - (seen.steady - last.steady)
    if (Math.abs(leap) > toleranceMs && Math.abs(passed - (machineUptime() - last.uptime)) > toleranceMs) {
      return (
        `this machine's clock jumped by ${seconds(leap)} s while the server was running, so nothing is written. Correct the clock; if it is ` +
        'correct now, restart the server'
      )
    }
    if (Math.abs(leap) > 1_000) last = { ...seen, uptime: machineUptime() }
    return undefined
  }

  function findLaterEntry({ created_at }: { created_at: string }, time: number): string | undefined {
    const behind = Date.parse(created_at) - time
    if (behind <= toleranceMs) return undefined
    return (
      `this machine's clock is ${seconds(behind)} s behind the last audit entry (${created_at}), so nothing is written. ` +
      'Correct the clock; if it is correct, eaas doctor says what to do'
    )
  }

  function findDifference(difference: number): string | undefined {
    if (Math.abs(difference) <= toleranceMs) return undefined
    return (
      `this server's clock is ${seconds(Math.abs(difference))} s ${difference > 0 ? 'ahead of' : 'behind'} the database's, so nothing is ` +
      'written. Run NTP on both machines'
    )
  }

  return {
    toleranceMs,
    read(previous) {
      const time = now()
      if (!isDatabaseLocal || !isChecked) return time
      const leap = findLeap()
      if (leap !== undefined) refuse(leap)
      const later = findLaterEntry(previous, time)
      if (later === undefined) return time
      return refuse(later)
    },
    assertAgreement(time, databaseTime) {
      aheadMs = time - databaseTime
      const difference = findDifference(aheadMs)
      if (difference !== undefined) refuse(difference)
      isWrong = false
    },
    async findFault(findDatabaseTime) {
      if (!isChecked) return undefined
      const asked = now()
      const databaseTime = await findDatabaseTime()
      // The database read its clock between two readings of this one: how long it took to answer is no difference of the clocks.
      const time = Math.min(Math.max(databaseTime, asked), now())
      aheadMs = time - databaseTime
      const fault = findDifference(aheadMs) ?? (isDatabaseLocal ? findLeap() : undefined)
      if (fault === undefined) isWrong = false
      else report(fault)
      return fault
    },
    ahead: () => aheadMs,
    isWrong: () => isWrong,
  }
}

function seconds(ms: number): number {
  return Math.round(ms / 1_000)
}
