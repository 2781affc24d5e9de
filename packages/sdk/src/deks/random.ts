/** Secure randomness, only from `crypto.getRandomValues`: bytes, ivs, and the DEKs that a call makes for itself. */
import { IV_BYTES, KEY_BYTES } from '@eaas/protocol'
import { RandomnessError } from '../errors.js'
import { assertNotAborted } from '../input.js'
import type { NamedUse, WrappedFor } from '../uses.js'
import { type Soon, turn, untilAborted } from '../waiting.js'
import type { Wrap } from './encrypt-deks.js'
import { createSecret, type Secret } from './secret.js'

export type FillRandom = (bytes: Uint8Array) => void
/** How many ivs are drawn at once. A draw for each iv takes thirty times as long. */
const POOL_IVS = 512

/** Fills the bytes at random. @throws RandomnessError when the source is missing, throws, or leaves the bytes unchanged */
export function fillRandom(bytes: Uint8Array): void {
  bytes.fill(0)
  const source = (globalThis as { crypto?: { getRandomValues?: (bytes: Uint8Array) => unknown } }).crypto
  if (typeof source?.getRandomValues !== 'function') throw new RandomnessError('crypto.getRandomValues is missing')
  try {
    source.getRandomValues(bytes)
  } catch {
    throw new RandomnessError('crypto.getRandomValues failed')
  }
  // Twelve random bytes are all zero with a probability of 2^-96: the source did nothing.
  if (bytes.subarray(0, IV_BYTES).every((byte) => byte === 0))
    throw new RandomnessError('crypto.getRandomValues left the bytes unchanged')
}

/** Makes 32 random bytes, such as a DEK, which the caller zeroes. @throws RandomnessError */
export function random32(): Uint8Array {
  const bytes = new Uint8Array(KEY_BYTES)
  fillRandom(bytes)
  return bytes
}

/** Returns 12 random bytes per call (envelope.md 2). Zeroes the rest in the next turn: processes from one snapshot would share it. */
export function createIvPool(fill: FillRandom = fillRandom): () => Uint8Array {
  const pool = new Uint8Array(POOL_IVS * IV_BYTES)
  let at = pool.length
  const dropRest = () => {
    pool.fill(0)
    at = pool.length
  }
  return function takeIv() {
    if (at === pool.length) {
      fill(pool) // before `at` changes: if it throws, the pool must still count as empty
      at = 0
      void turn().then(dropRest)
    }
    const iv = pool.slice(at, at + IV_BYTES)
    pool.fill(0, at, at + IV_BYTES)
    at += IV_BYTES
    return iv
  }
}

export type OwnDek = { dek: Secret; wrapped: WrappedFor }

/** Releases the DEK after the task. @throws AbortedError as soon as the signal is aborted */
export async function withOwnDek<T>(
  wrap: Wrap,
  { keyId, signal, use }: { keyId: string; signal: AbortSignal | undefined; use?: NamedUse | undefined },
  task: (own: OwnDek) => Soon<T>,
): Promise<T> {
  const own = await createOwnDek(wrap, keyId, signal, use)
  try {
    assertNotAborted(signal)
    return await task(own)
  } finally {
    own.dek.release()
  }
}

/** Makes a DEK, which the caller releases. @throws AbortedError as soon as the signal is aborted */
export async function createOwnDek(
  wrap: Wrap,
  keyId: string,
  signal: AbortSignal | undefined,
  use?: NamedUse | undefined,
): Promise<OwnDek> {
  const dek = createSecret(random32())
  try {
    return { dek, wrapped: await untilAborted(wrap(dek, keyId, use), signal) }
  } catch (error) {
    dek.release()
    throw error
  }
}
