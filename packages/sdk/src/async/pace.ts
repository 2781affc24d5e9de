/** Lets the event loop run now and then during long work, so that neither a page nor a server stands still. */

/** Below the 16 ms that a page has for one frame. */
const TURN_MS = 8

export interface Pace {
  /** Whether it is time to rest. Cheap enough to be asked for each record. */
  due(): boolean
  /** Gives the event loop a turn. */
  rest(): Promise<void>
}

/** Starts to count. */
export function createPace(): Pace {
  let since = performance.now()
  return {
    due: () => performance.now() - since >= TURN_MS,
    async rest() {
      await turn()
      since = performance.now()
    },
  }
}

interface Schedulers {
  setImmediate?: (run: () => void) => unknown
  scheduler?: { yield?: () => Promise<void> }
}

// Taken when the module is loaded: an application's tests that put a clock of their own in place do not stop the SDK.
const { setImmediate, scheduler } = globalThis as Schedulers

/** Resolves at the next turn of the event loop. */
export function turn(): Promise<void> {
  if (setImmediate) return new Promise((resolve) => setImmediate(() => resolve()))
  if (scheduler?.yield) return scheduler.yield()
  return new Promise((resolve) => setTimeout(resolve, 0))
}
