/** Awaits the promises of an asynchronous engine many at a time. */

/** How many promises are collected before they are awaited. */
const UNDER_WAY = 500

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
