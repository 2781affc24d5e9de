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
  /** how far this clock was ahead of the database's when the last entry was written, in milliseconds; 0 before the first */
  ahead(): number
  /** whether the last attempt to write an entry was refused because of the clock */
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
  let aheadMs = 0
  let isWrong = false
  let reportedAt = Number.NEGATIVE_INFINITY

  function refuse(message: string): never {
    isWrong = true
    if (steadyNow() - reportedAt >= REPORT_MS) {
      reportedAt = steadyNow()
      onWrong?.(message)
    }
    throw new WrongClockError(message)
  }

  // NTP makes small steps. The machine's uptime is read only after a leap: it distinguishes a sleep from a clock that was set.
  function assertNoLeap(): void {
    const seen = readBoth()
    const passed = seen.time - last.time
    const leap = passed - (seen.steady - last.steady)
    if (Math.abs(leap) > toleranceMs && Math.abs(passed - (machineUptime() - last.uptime)) > toleranceMs) {
      refuse(
        `this machine's clock jumped by ${seconds(leap)} s while the server was running, so nothing is written. Correct the clock; if it is ` +
          'correct now, restart the server',
      )
    }
    if (Math.abs(leap) > 1_000) last = { ...seen, uptime: machineUptime() }
  }

  return {
    toleranceMs,
    read(previous) {
      const time = now()
      if (!isDatabaseLocal || toleranceMs === Number.POSITIVE_INFINITY) return time
      assertNoLeap()
      const behind = Date.parse(previous.created_at) - time
      if (behind > toleranceMs) {
        refuse(
          `this machine's clock is ${seconds(behind)} s behind the last audit entry (${previous.created_at}), so nothing is written. ` +
            'Correct the clock; if it is correct, eaas doctor says what to do',
        )
      }
      return time
    },
    assertAgreement(time, databaseTime) {
      aheadMs = time - databaseTime
      if (Math.abs(aheadMs) > toleranceMs) {
        refuse(
          `this server's clock is ${seconds(Math.abs(aheadMs))} s ${aheadMs > 0 ? 'ahead of' : 'behind'} the database's, so nothing is ` +
            'written. Run NTP on both machines',
        )
      }
      isWrong = false
    },
    ahead: () => aheadMs,
    isWrong: () => isWrong,
  }
}

function seconds(ms: number): number {
  return Math.round(ms / 1_000)
}
