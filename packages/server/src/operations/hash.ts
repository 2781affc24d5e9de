/**
 * hash: the blind index of a value. Writes no entry, and is counted instead; the hash key does not rotate
 * with the key.
 */
import type { UnrecordedKind, wire } from '@eaas/protocol'
import { blindIndex } from '../crypto/blind-index.js'
import type { Operation } from '../runner/operation.js'
import { decideWithKey } from './shared/require-key-state.js'

const ONE_HASH: ReadonlyMap<UnrecordedKind, number> = new Map([['hash', 1]])

/** Hashes a value under the key's hash key. @throws Refusal E_NOT_FOUND, E_STATE */
export function hash({ key_id, value }: { key_id: string; value: string }): Operation<wire.Hashed> {
  return ({ state }) =>
    decideWithKey({ state, key_id, call: 'hash' }, ({ hashKey }) => {
      if (!hashKey) throw new Error(`key ${key_id} has no hash key`)
      return { entries: [], unrecorded: ONE_HASH, release: () => ({ hash: blindIndex(hashKey, value), key_id }) }
    })
}
