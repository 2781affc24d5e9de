/** key.unwrap: opens a wrapped key. The DEK leaves the process only once the entry is committed. */
import { encodeBase64, type wire } from '@eaas/protocol'
import type { Operation } from '../runner/operation.js'
import { openWrappedKey } from './shared/key-rows.js'
import { decideWithKey } from './shared/require-key-state.js'

/** Unwraps. `wrapped_key` is base64. @throws Refusal E_NOT_FOUND, E_STATE, E_WRAPPED_KEY */
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
