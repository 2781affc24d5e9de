/** key.unwrap: opens a wrapped key. The DEK leaves the process only once the entry is committed. */
import { decodeBase64, encodeBase64, OpenError, type wire } from '@eaas/protocol'
import { unwrapDek, wrappedKeyVersion } from '../crypto/wrapped-key.js'
import type { OpenKey } from '../runner/load-key.js'
import type { Operation } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import { getKeyIn, OPENING_STATES } from './key.js'

/** Unwraps. `wrapped_key` is base64. @throws Refusal E_NOT_FOUND, E_STATE, E_WRAPPED_KEY */
export function unwrap({ key_id, wrapped_key }: { key_id: string; wrapped_key: string }): Operation<wire.Unwrapped> {
  return async ({ state }) => {
    const key = await getKeyIn(state, key_id, { states: OPENING_STATES, to: 'unwrap' })
    const { dek, version } = openWrappedKey(key, wrapped_key)
    return {
      entries: [{ action: 'key.unwrap', key_id, key_version: version }],
      release: () => ({ dek: encodeBase64(dek), key_id, key_version: version }),
      secrets: [dek],
    }
  }
}

/** Opens a wrapped key with the version that it names. The caller zeroes the DEK. @throws Refusal E_WRAPPED_KEY */
export function openWrappedKey(key: OpenKey, wrapped_key: string): { dek: Uint8Array; version: number } {
  const opened = tryWrappedKey(key, wrapped_key)
  if (!opened) throw new Refusal('E_WRAPPED_KEY', 'wrapped_key is not authentic for this key')
  return opened
}

/** The same; undefined where the wrapped key is not authentic for this key. */
export function tryWrappedKey(key: OpenKey, wrapped_key: string): { dek: Uint8Array; version: number } | undefined {
  try {
    const token = decodeBase64(wrapped_key)
    const version = wrappedKeyVersion(token)
    const { kek, aad } = key.versions.get(version) ?? {}
    return kek && aad && { dek: unwrapDek(kek, aad, token), version }
  } catch (error) {
    if (!(error instanceof OpenError)) throw error
    return undefined
  }
}
