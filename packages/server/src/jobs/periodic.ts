/** Runs work periodically, one run at a time, until the server stops. */

export interface Periodic {
  /** Resolves when the first run has ended, whether it failed or not. */
  firstRun: Promise<void>
  /** Begins no further run and waits for the one that is under way. */
  stop(): Promise<void>
}

export interface PeriodicOptions {
  intervalMs: number
  /** what to do; the signal tells long work that the server is stopping */
  work: (signal: AbortSignal) => Promise<void>
  /** called with the error of a run; the next run takes place nevertheless */
  onError: (error: unknown) => void
  /** what the first run waits for, but no longer than one interval; it begins at once by default */
  after?: Promise<void>
}

/** Starts the work. */
export function startPeriodic({ intervalMs, work, onError, after }: PeriodicOptions): Periodic {
  const stopping = new AbortController()
  let running: Promise<void> | undefined
  const run = () => {
    running ??= work(stopping.signal)
      .catch(onError)
      .finally(() => {
        running = undefined
      })
    return running
  }
  const firstRun = after ? after.then(() => (stopping.signal.aborted ? undefined : run())) : run()
  const timer = setInterval(run, intervalMs)
  return {
    firstRun,
    async stop() {
      clearInterval(timer)
      stopping.abort()
      await running
    },
  }
}
