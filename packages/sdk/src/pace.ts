/** For work on many records: rests so that a page or a server stays responsive, and awaits many promises at a time. */
import { assertNotAborted } from './input.js'
import { turn } from './waiting.js'

/** Below the 16 ms that a page has for one frame. */
const TURN_MS = 8
/** How many promises are collected before they are awaited. */
const UNDER_WAY = 500

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

/** The promises of an asynchronous engine. */
export interface Backlog {
  /** Adds a promise. The caller must await what is returned, unless it is undefined. */
  add(promise: Promise<unknown>): Promise<unknown> | undefined
  /** Waits for all promises that were added. @throws what one of them rejected with */
  flush(): Promise<unknown>
}

/**
 * Makes a backlog. With `promisesAreRare`, as with a synchronous engine, each promise is awaited when it is
 * added.
 */
export function createBacklog(promisesAreRare: boolean): Backlog {
  let promises: Promise<unknown>[] = []
  const flush = () => {
    const all = promises
    promises = []
    return Promise.all(all)
  }
  return {
    flush,
    add(promise) {
      if (promisesAreRare) return promise
      promise.catch(() => undefined) // flush() rejects with it
      promises.push(promise)
      return promises.length >= UNDER_WAY ? flush() : undefined
    },
  }
}
