/** The keys that format v2 derives from a DEK (envelope-v2.md 2): derived once, kept as long as the DEK, and zeroed with it. */
import { type BoundKeys, splitBoundKeys } from '@eaas/protocol'
import { isPromise, type Soon } from '../async/is-promise.js'
import { requestsAreIsolated } from '../async/isolated-requests.js'

/** By the array that holds the DEK: each is kept and zeroed by one owner, and belongs to one key. Undefined once the DEK was zeroed. */
const kept = new WeakMap<Uint8Array, Soon<BoundKeys> | undefined>()

/** Returns the keys of a DEK. Calls `derive`, for its 64 bytes, where they are not kept yet. The caller must not keep or change them. */
export function boundKeysOf(dek: Uint8Array, derive: () => Soon<Uint8Array>): Soon<BoundKeys> {
  const known = kept.get(dek)
  if (known) return known
  const derived = derive()
  if (!isPromise(derived)) {
    const keys = splitBoundKeys(derived)
    kept.set(dek, keys)
    return keys
  }
  const splitting = derived.then((okm) => {
    const keys = splitBoundKeys(okm)
    const isZeroed = kept.has(dek) && !kept.get(dek)
    if (!isZeroed) kept.set(dek, keys)
    else void splitting.then(zero) // after those who wait for them already
    return keys
  })
  if (requestsAreIsolated()) return splitting // another request could not await it
  kept.set(dek, splitting)
  splitting.catch(() => kept.delete(dek)) // the caller handles the error
  return splitting
}

/** Zeroes a DEK, and the keys that were derived from it. Those who wait for these keys still get them first. */
export function zeroDek(dek: Uint8Array): void {
  dek.fill(0)
  const keys = kept.get(dek)
  kept.set(dek, undefined)
  if (keys && !isPromise(keys)) zero(keys)
}

function zero({ key }: BoundKeys): void {
  key.fill(0)
}
