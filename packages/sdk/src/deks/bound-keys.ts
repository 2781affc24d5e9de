/** The keys that format v2 derives from a DEK (envelope-v2.md 2): derived once, kept as long as the DEK, and zeroed with it. */
import { type BoundKeys, splitBoundKeys } from '@eaas/protocol'
import { isPromise, type Soon } from '../async/is-promise.js'
import { requestsAreIsolated } from '../async/isolated-requests.js'

/** By the array that holds the DEK: each is kept and zeroed by one owner, and belongs to one key. */
const kept = new WeakMap<Uint8Array, Soon<BoundKeys>>()

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
  const isolated = requestsAreIsolated()
  const splitting = derived.then((okm) => {
    const keys = splitBoundKeys(okm)
    // Not if the DEK was zeroed meanwhile: these keys would then never be.
    if (isolated || kept.get(dek) === splitting) kept.set(dek, keys)
    return keys
  })
  if (isolated) return splitting // another request could not await it
  kept.set(dek, splitting)
  splitting.catch(() => kept.delete(dek)) // the caller handles the error
  return splitting
}

/** Zeroes a DEK, and the keys that were derived from it. Those who wait for these keys still get them first. */
export function zeroDek(dek: Uint8Array): void {
  dek.fill(0)
  const keys = kept.get(dek)
  kept.delete(dek)
  const zero = ({ key }: BoundKeys) => void key.fill(0)
  if (isPromise(keys)) keys.then(zero, () => undefined)
  else if (keys) zero(keys)
}
