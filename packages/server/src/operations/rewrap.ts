/**
 * rewrap: wraps the DEK of a wrapped key again, under the key's current version. Never shows the DEK; the log
 * records a key.wrap.
 */
import { encodeBase64, type wire } from '@eaas/protocol'
import { wrapDek } from '../crypto/wrapped-key.js'
import type { Operation } from '../runner/operation.js'
import { currentVersion, openWrappedKey } from './shared/key-rows.js'
import { decideWithKey } from './shared/require-key-state.js'

/** Rewraps. @throws Refusal E_NOT_FOUND, E_STATE, E_WRAPPED_KEY */
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
