/**
 * Hands one chunk at a time from a writer to a reader, which asks for the next one when it has used the previous one.
 */

/** The chunks that are written to a stream, one by one. */
export interface Chunks {
  /** Returns the next chunk, or undefined at the end. The previous chunk belongs to the writer again. */
  next(): Promise<Uint8Array | undefined>
}

export interface Handover extends Chunks {
  /** Gives a chunk, or undefined at the end. Settles once it was used. */
  give(chunk: Uint8Array | undefined): Promise<void>
  /** Settles what is still open on both sides: by rejection if there is a failure. */
  end(failure: { error: unknown } | undefined): void
}

interface Gift {
  chunk: Uint8Array | undefined
  used(): void
  refuse(error: unknown): void
}

/** Makes a handover, for one writer and one reader. */
export function createHandover(): Handover {
  let given: Gift | undefined
  let taken: Gift | undefined
  let waiting: { resolve(chunk: Uint8Array | undefined): void; reject(error: unknown): void } | undefined
  let over: { error: unknown } | undefined
  return {
    next() {
      taken?.used()
      taken = given
      given = undefined
      if (over) return Promise.reject(over.error)
      if (taken) return Promise.resolve(taken.chunk)
      return new Promise((resolve, reject) => {
        waiting = { resolve, reject }
      })
    },
    give(chunk) {
      if (over) return Promise.reject(over.error)
      return new Promise((used, refuse) => {
        const gift = { chunk, used, refuse }
        if (waiting) taken = gift
        else given = gift
        waiting?.resolve(chunk)
        waiting = undefined
      })
    },
    end(failure) {
      over = failure
      for (const gift of [given, taken]) failure ? gift?.refuse(failure.error) : gift?.used()
      if (failure) waiting?.reject(failure.error)
    },
  }
}
