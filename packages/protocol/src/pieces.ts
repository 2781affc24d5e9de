/** Collects what arrives in pieces. The other end decides how many, and each costs time and memory. */

/** Most pieces of one body. Both ends send kilobytes in one; clients that send JSON token by token need 30 a call. */
export const MAX_PIECES = 16_384
export const TOO_MANY_PIECES = `the body arrived in more than ${MAX_PIECES} pieces: send larger chunks`

/** Creates the counter of a body's pieces: call it for each; it returns whether there are too many. */
export function createPieceCount(): () => boolean {
  let pieces = 0
  return () => ++pieces > MAX_PIECES
}

export interface CollectedBytes {
  add(bytes: Uint8Array): void
  /** Not copied: more must not be added while they are used. */
  bytes(): Uint8Array<ArrayBuffer>
  /** Zeroes what was collected, which may hold a DEK, and begins again. */
  clear(): void
}

/** Collects bytes in one array that grows, however small the pieces are. Zeroes each that it outgrows. */
export function collectBytes(): CollectedBytes {
  let collected = new Uint8Array(0)
  let length = 0
  return {
    add(bytes) {
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
    bytes: () => collected.subarray(0, length),
    clear() {
      collected.fill(0)
      length = 0
    },
  }
}
