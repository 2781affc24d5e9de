/** Gives the event loop a turn regularly during long work, so that a page or a server stays responsive. */
import { assertNotAborted } from '../input.js'

/** Below the 16 ms that a page has for one frame. */
const TURN_MS = 8

export interface Pace {
  /** Tells whether it is time to rest. Cheap enough to call for each record. */
  due(): boolean
  /** Gives the event loop a turn. @throws AbortedError when the signal is aborted, in that turn too */
  rest(signal?: AbortSignal | undefined): Promise<void>
}

/** Starts counting the time since the last rest. */
export function createPace(): Pace {
  let since = performance.now()
  return {
    due: () => performance.now() - since >= TURN_MS,
    async rest(signal) {
      await turn()
      assertNotAborted(signal)
      since = performance.now()
    },
  }
}

interface Schedulers {
  setImmediate?: (run: () => void) => unknown
  scheduler?: { yield?: () => Promise<void> }
  setTimeout: (run: () => void, ms: number) => unknown
}

// Read when the module is loaded, so that fake timers in an application's tests do not stop the SDK.
const { setImmediate, scheduler, setTimeout } = globalThis as Schedulers

/** Resolves at the next turn of the event loop. */
export function turn(): Promise<void> {
  if (setImmediate) return new Promise((resolve) => setImmediate(() => resolve()))
  if (scheduler?.yield) return scheduler.yield()
  return new Promise((resolve) => setTimeout(() => resolve(), 0))
}
