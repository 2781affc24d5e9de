/**
 * The bytes of a body, collected as they arrive. A caller decides into how many pieces its body is cut: each
 * piece costs the server time, and as an object of its own a hundred times its memory.
 */
import { Refusal } from '../../runner/refusal.js'

/**
 * Most pieces of one body. Clients send kilobytes in a piece; those that send each token of their JSON by
 * itself need some 30 for an operation.
 */
const MAX_PIECES = 16_384

/** Counts the pieces of a body; to be called for each. Returns whether there are too many. */
export function createPieceCount(): () => boolean {
  let pieces = 0
  return () => ++pieces > MAX_PIECES
}

/** The answer to a body of too many pieces. */
export function tooManyPieces(): Refusal {
  return new Refusal('E_MALFORMED_REQUEST', `the body arrived in more than ${MAX_PIECES} pieces: send larger chunks`)
}

export interface BodyBytes {
  add(bytes: Uint8Array): void
  /** All bytes so far. They are not copied: more must not be added while they are used. */
  bytes(): Buffer
}

/** Collects bytes in one buffer that grows, however small the pieces are. The first piece is not copied. */
export function collectBytes(): BodyBytes {
  let buffer: Buffer = Buffer.alloc(0)
  let length = 0
  return {
    add(bytes) {
      const needed = length + bytes.length
      if (length === 0) buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
      else {
        if (needed > buffer.length) {
          const larger = Buffer.allocUnsafeSlow(Math.max(needed, 2 * buffer.length))
          larger.set(buffer.subarray(0, length))
          buffer = larger
        }
        buffer.set(bytes, length)
      }
      length = needed
    },
    bytes: () => buffer.subarray(0, length),
  }
}
