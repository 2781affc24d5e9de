/** Promises of an engine that answers by promise, awaited many at a time; of the others there is one for each DEK. */

/** How many values may be under way at once. */
const UNDER_WAY = 500

export interface Backlog {
  /** Takes a promise; what is returned is to be awaited, unless undefined. */
  add(promise: Promise<unknown>): Promise<unknown> | undefined
  /** Waits for all. */
  flush(): Promise<unknown>
}

/** Makes a backlog; where promises are rare, each is awaited at once. */
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
      promise.catch(() => undefined) // told by flush()
      promises.push(promise)
      return promises.length >= UNDER_WAY ? flush() : undefined
    },
  }
}
