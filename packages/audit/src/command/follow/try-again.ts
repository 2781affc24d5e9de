/** Repeats what another program did not answer, or answered with "later". */
import { setTimeout as sleep } from 'node:timers/promises'

/** Between two attempts, in milliseconds: twice as long each time, up to the last. */
const FIRST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 30_000

/** Thrown by an attempt that is made again. */
export class TryAgainError extends Error {
  override readonly name = 'TryAgainError'

  constructor(
    message: string,
    /** how long the other program wants to be left alone, in milliseconds */
    readonly waitMs = 0,
  ) {
    super(message)
  }
}

export interface Attempts {
  signal: AbortSignal
  /** is told why an attempt failed, once for each reason */
  tell: (line: string) => void
  /** what is said besides of the first failure, and after it once an attempt succeeded */
  words: { again: string; done: string }
}

/** Makes attempts until one succeeds; undefined if the signal ended them. @throws whatever is no `TryAgainError` */
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
      // Spread, so that several followers do not come back at the same moment.
      const spreadMs = pauseMs * (0.5 + Math.random() / 2)
      const waitMs = Math.max(spreadMs, Math.min(error.waitMs, LONGEST_PAUSE_MS))
      await sleep(waitMs, undefined, { signal }).catch(() => undefined)
      if (signal.aborted) return undefined
    }
  }
}
