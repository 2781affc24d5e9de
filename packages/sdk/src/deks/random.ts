/** Secure randomness: DEKs, and ivs drawn many at a time. `crypto.getRandomValues` or nothing. */
import { IV_BYTES, KEY_BYTES } from '@eaas/protocol'
import { RandomnessError } from '../errors.js'

/** Fills the bytes with randomness; throws when it cannot. An argument wherever a vector must be reproducible. */
export type FillRandom = (bytes: Uint8Array) => void

/** One draw for this many ivs: a draw each costs thirty times as much. */
const POOL_IVS = 512

/**
 * Fills the bytes from `crypto.getRandomValues`.
 *
 * @throws RandomnessError when it is missing, throws, or leaves the bytes as they were
 */
export function fillRandom(bytes: Uint8Array): void {
  bytes.fill(0)
  const source = (globalThis as { crypto?: { getRandomValues?: (bytes: Uint8Array) => unknown } }).crypto
  if (typeof source?.getRandomValues !== 'function') throw new RandomnessError('crypto.getRandomValues is missing')
  try {
    source.getRandomValues(bytes)
  } catch {
    throw new RandomnessError('crypto.getRandomValues failed')
  }
  // An iv's length of zeros does not happen (2^-96): the source did nothing.
  if (bytes.subarray(0, IV_BYTES).every((byte) => byte === 0)) {
    throw new RandomnessError('crypto.getRandomValues left the bytes empty')
  }
}

/** Makes a DEK: 32 random bytes. The caller owns it and zeroes it. @throws RandomnessError */
export function randomDek(fill: FillRandom = fillRandom): Uint8Array {
  const dek = new Uint8Array(KEY_BYTES)
  fill(dek)
  return dek
}

/**
 * Makes a source of ivs (envelope.md 2): each call returns 12 random bytes of its own, handed out once. On Node what is left of
 * a draw is wiped at the next turn of the event loop: processes that start from one snapshot (`node --build-snapshot`) would
 * all begin with it.
 *
 * @throws RandomnessError at a call that has to draw and cannot
 */
export function createIvPool(fill: FillRandom = fillRandom): () => Uint8Array {
  const pool = new Uint8Array(POOL_IVS * IV_BYTES)
  let at = pool.length
  const dropRest = () => {
    pool.fill(0)
    at = pool.length
  }
  return function takeIv() {
    if (at === pool.length) {
      fill(pool) // when it throws, `at` still says that the pool is empty
      at = 0
      ;(globalThis as { setImmediate?: (run: () => void) => unknown }).setImmediate?.(dropRest)
    }
    const iv = pool.slice(at, at + IV_BYTES)
    pool.fill(0, at, at + IV_BYTES)
    at += IV_BYTES
    return iv
  }
}
