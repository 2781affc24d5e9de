/** The pause before a call is tried again. */
import { pause } from '../async/pause.js'

const FIRST_DELAY_MS = 100
const MAX_DELAY_MS = 2_000

/**
 * Waits a random time before the next attempt: up to 100 ms after the first, up to twice as long after each further one, up to 2 s
 * at most. It is random also at that limit, so that clients that failed together do not come back together. Ignores Retry-After, which could delay a caller for an hour.
 *
 * @throws the signal's reason, as soon as it is aborted
 */
export function pauseBeforeRetry(attempt: number, signal: AbortSignal): Promise<void> {
  return pause(Math.random() * Math.min(FIRST_DELAY_MS * 2 ** (attempt - 1), MAX_DELAY_MS), signal)
}
