/** key.wrap: wraps a DEK under the current version of a key. */
import { decodeBase64, encodeBase64, type wire } from '@eaas/protocol'
import { wrapDek } from '../crypto/wrapped-key.js'
import type { Operation } from '../runner/operation.js'
import { currentVersion } from './shared/key-rows.js'
import { decideWithKey } from './shared/require-key-state.js'

/** Wraps. `dek` is base64 of 32 bytes. @throws Refusal E_NOT_FOUND, E_STATE */
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
