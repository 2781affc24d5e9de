/** Runs work periodically, one run at a time, until the server stops. */

export interface Periodic {
  /** Begins no further run and waits for the one that is under way. */
  stop(): Promise<void>
}

export interface PeriodicOptions {
  intervalMs: number
  /** what to do; the signal tells long work that the server is stopping */
  work: (signal: AbortSignal) => Promise<void>
  /** called with the error of a run; the next run takes place nevertheless */
  onError: (error: unknown) => void
}

/** Starts the work with a first run at once. */
export function startPeriodic({ intervalMs, work, onError }: PeriodicOptions): Periodic {
  const stopping = new AbortController()
  let running: Promise<void> | undefined
  const run = () => {
    running ??= work(stopping.signal)
      .catch(onError)
      .finally(() => {
        running = undefined
      })
  }
  run()
  const timer = setInterval(run, intervalMs)
  return {
    async stop() {
      clearInterval(timer)
      stopping.abort()
      await running
    },
  }
}
