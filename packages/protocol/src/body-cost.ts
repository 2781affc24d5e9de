/** Bounds the cost of a body that arrives in pieces: their number, and the memory that calls hold. */

/** For one body. Both ends send kilobytes in a piece; clients that send JSON token by token need 30 for a call. */
export const MAX_PIECES = 16_384
export const TOO_MANY_PIECES = `the body arrived in more than ${MAX_PIECES} pieces: send larger chunks`

/** Creates the counter of a body's pieces: call it for each; it returns whether there are too many. */
export function createPieceCount(): () => boolean {
  let pieces = 0
  return () => ++pieces > MAX_PIECES
}

export type CollectedBytes = ReturnType<typeof collectBytes>

/** Collects bytes in one growing array, however small the pieces are. Zeroes each array that it outgrows. */
export function collectBytes() {
  let collected = new Uint8Array(0)
  let length = 0
  return {
    add(bytes: Uint8Array) {
      const needed = length + bytes.length
      if (needed > collected.length) {
        const larger = new Uint8Array(Math.max(needed, 2 * collected.length))
        larger.set(collected.subarray(0, length))
        collected.fill(0)
        collected = larger
      }
      collected.set(bytes, length)
      length = needed
    },
    /** Not a copy: add nothing while it is used. */
    bytes: () => collected.subarray(0, length),
    /** Zeroes the collected bytes, which may contain a DEK, and begins again. */
    clear() {
      collected.fill(0)
      length = 0
    },
  }
}

export interface Holding {
  /** Holds more. @throws the error of `refuse` if there is no room for it */
  take(bytes: number): void
  /** Holds more even without room: for the answer of a call that is already carried out. */
  add(bytes: number): void
  /** Releases everything, and holds nothing more. Call it when the answer is sent, or can no longer be sent. */
  end(): void
}

/**
 * Creates the bounds of a process: the first is for all calls, each further one for calls with the same id. Returns a
 * function that starts the holding of a call. `refuse` makes the error for a call without room in the bound of this index.
 */
export function createHeldBytes<Ids extends readonly string[]>(
  [ofProcess, ...limits]: readonly [number, ...{ [At in keyof Ids]: number }],
  refuse: (bound: number) => Error,
): (...ids: Ids) => Holding {
  const bounds = [ofProcess, ...limits].map(createBound)

  return (...ids) => {
    const places = bounds.map((bound, at) => ({ bound, id: ids[at - 1] ?? '' }))
    let own = 0
    let isOver = false
    const add = (bytes: number) => {
      if (isOver) return
      own += bytes
      for (const { bound, id } of places) bound.add(id, bytes)
    }
    return {
      take(bytes) {
        const full = places.findLastIndex(({ bound, id }) => !bound.hasRoom(id, bytes))
        if (full >= 0) throw refuse(full)
        add(bytes)
      },
      add,
      end() {
        add(-own)
        isOver = true
      },
    }
  }
}

/** Holds a body: first its stated length, so that an accepted body arrives whole, then any bytes beyond that. */
export function createBodyHold({ take }: Pick<Holding, 'take'>): (length: number) => void {
  let held = 0
  return (length) => {
    if (!(length > held)) return // a stated length may be NaN
    take(length - held)
    held = length
  }
}

function createBound(most: number) {
  const held = new Map<string, number>()
  const of = (id: string) => held.get(id) ?? 0
  return {
    hasRoom: (id: string, bytes: number) => of(id) + bytes <= most,
    add(id: string, bytes: number) {
      const left = of(id) + bytes
      if (left > 0) held.set(id, left)
      else held.delete(id)
    },
  }
}
