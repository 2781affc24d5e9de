/**
 * Envelope mode: the client encrypts under its own DEK, and a key's KEK wraps that DEK. Beside it the blind
 * index. A DEK leaves the process only once the entry is committed.
 */
import { decodeBase64, encodeBase64, type UnrecordedKind, type wire } from '@eaas/protocol'
import { blindIndex } from '../crypto/blind-index.js'
import { wrapDek } from '../crypto/wrapped-key.js'
import type { Operation } from '../runner/operation.js'
import { currentVersion, decideWithKey, openWrappedKey } from './shared/key-use.js'

/** Wraps a DEK under the current version of a key. `dek` is base64 of 32 bytes. @throws Refusal E_NOT_FOUND, E_STATE */
export function wrap({ key_id, dek }: { key_id: string; dek: string }): Operation<wire.Wrapped> {
  return ({ state }) =>
    decideWithKey({ state, key_id, call: 'wrap' }, (key) => {
      const { kek, aad, row } = currentVersion(key)
      const secret = decodeBase64(dek)
      const wrapped = wrapDek(kek, row.version, aad, secret)
      return {
        entries: [{ action: 'key.wrap', key_id, key_version: row.version }],
        release: () => ({ wrapped_key: encodeBase64(wrapped), key_id, key_version: row.version }),
        secrets: [secret],
      }
    })
}

/** Opens a wrapped key. `wrapped_key` is base64. @throws Refusal E_NOT_FOUND, E_STATE, E_WRAPPED_KEY, E_VERSION_TOO_OLD */
export function unwrap({ key_id, wrapped_key }: { key_id: string; wrapped_key: string }): Operation<wire.Unwrapped> {
  return ({ state }) =>
    decideWithKey({ state, key_id, call: 'unwrap' }, (key) => {
      const { dek, version } = openWrappedKey(key, wrapped_key)
      return {
        entries: [{ action: 'key.unwrap', key_id, key_version: version }],
        release: () => ({ dek: encodeBase64(dek), key_id, key_version: version }),
        secrets: [dek],
      }
    })
}

/**
 * Wraps the DEK of a wrapped key again, under the key's current version, and never shows it; the log records a
 * key.wrap. @throws Refusal E_NOT_FOUND, E_STATE, E_WRAPPED_KEY, E_VERSION_TOO_OLD
 */
export function rewrap({ key_id, wrapped_key }: { key_id: string; wrapped_key: string }): Operation<wire.Wrapped> {
  return ({ state }) =>
    decideWithKey({ state, key_id, call: 'rewrap' }, (key) => {
      const { kek, aad, row } = currentVersion(key)
      const { dek, version } = openWrappedKey(key, wrapped_key)
      const wrapped = wrapDek(kek, row.version, aad, dek)
      return {
        entries: [{ action: 'key.wrap', key_id, key_version: row.version, metadata: { rewrapped_from: version } }],
        release: () => ({ wrapped_key: encodeBase64(wrapped), key_id, key_version: row.version }),
        secrets: [dek],
      }
    })
}

const ONE_HASH: ReadonlyMap<UnrecordedKind, number> = new Map([['hash', 1]])

/**
 * Computes the blind index of a value under the key's hash key, which does not rotate with the key. Writes no
 * entry, and is counted instead. @throws Refusal E_NOT_FOUND, E_STATE
 */
export function hash({ key_id, value }: { key_id: string; value: string }): Operation<wire.Hashed> {
  return ({ state }) =>
    decideWithKey({ state, key_id, call: 'hash' }, ({ hashKey }) => {
      if (!hashKey) throw new Error(`key ${key_id} has no hash key`)
      return { entries: [], unrecorded: ONE_HASH, release: () => ({ hash: blindIndex(hashKey, value), key_id }) }
    })
}
