/** Which calls are tried again, after what, how often, and how long later. */
import { pause } from '../async/pause.js'
import { isEaasError } from '../errors.js'
import type { Call } from './calls.js'
import { calledSince } from './observe.js'
import type { SendOptions } from './send.js'

/**
 * Statuses of failures that may pass within seconds. Not 429: the server's quota lasts until the month ends. A broker's limit
 * (`E_TOO_MANY_CALLS`) lasts for up to 60 s, which its Retry-After and the error's detail state: that is longer than retries take, so the
 * caller decides whether to wait.
 */
const RETRY_STATUSES: ReadonlySet<number> = new Set([500, 502, 503, 504])

const FIRST_DELAY_MS = 100
const MAX_DELAY_MS = 2_000

/**
 * Sends a call, and sends it again after a failure that may pass or without an answer, if its row in `ROUTES` is repeatable. Returns the
 * last answer.
 *
 * @param sendOnce must reject with an error of the SDK where another attempt would fail alike
 * @throws what the last attempt threw, or the signal's reason
 */
export async function withRetries<A extends { status: number }>(
  call: Call,
  { retries, signal, emit }: SendOptions,
  sendOnce: () => Promise<A>,
): Promise<A> {
  const attempts = 1 + (call.repeatable ? retries : 0)
  for (let attempt = 1; ; attempt++) {
    const startedAt = performance.now()
    let status: number | undefined
    try {
      const answer = await sendOnce()
      status = answer.status
      if (attempt === attempts || status === call.alsoStatus || !mayPass(call, status)) return answer
    } catch (error) {
      if (attempt === attempts || isEaasError(error)) throw error
    }
    emit?.({ type: 'retry', attempt, status, ...calledSince(startedAt, call) })
    await pauseBeforeRetry(attempt, signal)
  }
}

/** Tells whether a call that failed with this status may succeed if it is sent again, and does no harm. */
export function mayPass(call: Call, status: number): boolean {
  return call.repeatable && RETRY_STATUSES.has(status)
}

/**
 * Waits a random time before the next attempt: up to 100 ms after the first, up to twice as long after each further one, up to 2 s
 * at most. It is random also at that limit, so that clients that failed together do not come back together. Ignores Retry-After,
 * which could delay a caller for an hour.
 *
 * @throws the signal's reason, as soon as it is aborted
 */
function pauseBeforeRetry(attempt: number, signal: AbortSignal): Promise<void> {
  return pause(Math.random() * Math.min(FIRST_DELAY_MS * 2 ** (attempt - 1), MAX_DELAY_MS), signal)
}
