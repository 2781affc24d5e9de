/**
 * key.update: the oldest version of a key that still opens. It may be lowered again: what is closed is not gone,
 * and an operator who missed rows while rewrapping needs them back. The log has each change with both values.
 */
import { DETAILS, type wire } from '@eaas/protocol'
import type { Operation } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import { changeKey, viewKey } from './shared/key-rows.js'
import { getKeyInState } from './shared/key-use.js'
import { recordChanges } from './shared/recorded-values.js'

/**
 * Sets the oldest version whose wrapped keys open, 1 to the current one. @throws Refusal E_NOT_FOUND, E_STATE,
 * E_VALIDATION
 */
export function updateKey({
  key_id,
  min_unwrap_version,
}: {
  key_id: string
  min_unwrap_version: number
}): Operation<wire.Key> {
  return async ({ state }) => {
    const key = await getKeyInState(state, key_id, 'updateKey')
    const { row } = key
    const { current_version: key_version, status } = row
    if (min_unwrap_version > key_version) {
      throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.minUnwrapVersion(key_version))
    }
    if (min_unwrap_version === row.min_unwrap_version) return { entries: [], release: () => viewKey(row) }
    const changes = { min_unwrap_version }
    return changeKey(state, key, {
      entry: { action: 'key.update', key_id, key_version, metadata: { ...recordChanges(row, changes), status } },
      changes: () => changes,
    })
  }
}
