/** Repeats a request that another program did not answer, or answered with "later". */
import { setTimeout as sleep } from 'node:timers/promises'

/** The pause between two attempts, in milliseconds: it doubles up to the longest. */
const FIRST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 30_000

/** Thrown by an attempt that is to be made again. */
export class TryAgainError extends Error {
  override readonly name = 'TryAgainError'

  constructor(
    message: string,
    /** how long the other program asks to wait, in milliseconds */
    readonly waitMs = 0,
  ) {
    super(message)
  }
}

export interface Attempts {
  signal: AbortSignal
  /** called with why an attempt failed, unless the last failure had the same reason */
  tell: (line: string) => void
  /** what is added to a failure, and what is told once an attempt succeeds after one */
  words: { again: string; done: string }
}

/** Makes attempts until one succeeds; undefined if the signal ended them. @throws any error but `TryAgainError` */
export async function untilDone<T>(
  attempt: () => Promise<T>,
  { signal, tell, words }: Attempts,
): Promise<{ result: T } | undefined> {
  let said = ''
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
    try {
      const result = await attempt()
      if (said !== '') tell(words.done)
      return { result }
    } catch (error) {
      if (!(error instanceof TryAgainError)) throw error
      if (signal.aborted) return undefined
      if (error.message !== said) tell(`${error.message}; ${words.again}`)
      said = error.message
      // Spread, so that several followers do not return at the same moment.
      const spreadMs = pauseMs * (0.5 + Math.random() / 2)
      const waitMs = Math.max(spreadMs, Math.min(error.waitMs, LONGEST_PAUSE_MS))
      await sleep(waitMs, undefined, { signal }).catch(() => undefined)
      if (signal.aborted) return undefined
    }
  }
}
