/** How fast a run goes: its rate, the time left, and the pauses that keep it below a rate. */

import { pause } from '../async/pause.js'
import { assertNotAborted } from '../input.js'

export interface Tempo {
  /** What a run tells of its speed after so many rows. */
  figures(rows: number, total: number | undefined): { rowsPerSecond: number; secondsLeft: number | undefined }
  /** Waits until so many rows may have been done. */
  wait(rows: number, signal: AbortSignal | undefined): Promise<void>
}

/** Starts counting. @param limit rows in a second */
export function createTempo(limit: number | undefined): Tempo {
  const start = performance.now()
  return {
    figures(rows, total) {
      const seconds = Math.max((performance.now() - start) / 1_000, 0.001)
      const rate = rows / seconds
      const left = total === undefined ? undefined : Math.max(0, total - rows)
      return {
        rowsPerSecond: Math.round(rate),
        secondsLeft: left === undefined || rate === 0 ? undefined : Math.round(left / rate),
      }
    },
    async wait(rows, signal) {
      if (limit !== undefined) await rest(start + (rows / limit) * 1_000 - performance.now(), signal)
    },
  }
}

/** Waits. @throws AbortedError as soon as the signal is aborted */
export function rest(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return pause(ms, signal).catch(() => assertNotAborted(signal))
}
