/** Runs work periodically, one run at a time, until the server stops. Repeats a failed run within minutes. */
import { ChainAlarmError } from '../audit/append-errors.js'
import { Refusal } from '../runner/refusal.js'
import { TamperedRowError } from '../store/tampered-row.js'

/** In milliseconds, the first and the longest wait after a failed run, unless the run itself took long. */
const RETRY_MS = 30_000
const LONGEST_RETRY_MS = 16 * RETRY_MS
/** Failed runs take at most a tenth of the time. */
const PAUSE_FACTOR = 9

export interface Periodic {
  /** Resolves when the first run has ended, even if it failed. */
  firstRun: Promise<void>
  /** Begins no further run, and waits for the current one. */
  stop(): Promise<void>
}

/** Reports an error without ending the run. The run then counts as failed, unless the error is a finding. */
type Failed = (error: unknown) => void

/** As `Failed`, and logs the error with this message. */
export type Fail = (error: unknown, message: string, details?: object) => void

export type Run = { signal: AbortSignal; fail: Fail }

type LogLine = { (details: object, message: string): void; (message: string): void }
export type Log = Record<'info' | 'warn' | 'error' | 'fatal', LogLine>

export interface PeriodicOptions {
  intervalMs: number
  work: (signal: AbortSignal, failed: Failed) => Promise<void>
  /** called with the error of a failed run; the next run takes place nevertheless */
  onError: (error: unknown) => void
  /** called after each run with its first failure; undefined if there was none */
  onRun?: (failure: unknown) => void
  /** the first run waits for this, at most one interval; by default it begins at once */
  after?: Promise<void>
}

export function startPeriodic({ intervalMs, work, onError, onRun, after }: PeriodicOptions): Periodic {
  const stopping = new AbortController()
  let running: Promise<void> | undefined
  let failedRuns = 0
  const attempt = async () => {
    const from = performance.now()
    let failure: unknown
    const failed: Failed = (error) => {
      if (!isFinding(error)) failure ??= error
    }
    await work(stopping.signal, failed).catch((error: unknown) => {
      onError(error)
      failure ??= error
    })
    if (stopping.signal.aborted) return
    onRun?.(failure)
    if (failure === undefined && failedRuns === 0) return
    failedRuns = failure === undefined ? 0 : failedRuns + 1
    clearInterval(timer)
    const tookMs = performance.now() - from
    timer = setInterval(run, failedRuns === 0 ? intervalMs : retryAfter(intervalMs, failedRuns, tookMs))
  }
  const run = () => {
    running ??= attempt().finally(() => {
      running = undefined
    })
    return running
  }
  let timer = setInterval(run, intervalMs)
  const firstRun = after ? after.then(() => (stopping.signal.aborted ? undefined : run())) : run()
  return {
    firstRun,
    async stop() {
      clearInterval(timer)
      stopping.abort()
      await running
    },
  }
}

// After half a minute, 1, 2, 4 and then every 8 minutes; what runs more often keeps its interval.
function retryAfter(intervalMs: number, failedRuns: number, tookMs: number): number {
  if (intervalMs <= RETRY_MS) return intervalMs
  return Math.max(Math.min(RETRY_MS * 2 ** (failedRuns - 1), LONGEST_RETRY_MS), PAUSE_FACTOR * tookMs)
}

/** Whether an error is about the data: another try does not help, an operator must act. */
function isFinding(error: unknown): boolean {
  return error instanceof Refusal || error instanceof TamperedRowError || error instanceof ChainAlarmError
}
