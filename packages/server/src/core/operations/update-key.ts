/**
 * key.update: the oldest version of a key that still opens. It may be lowered again as long as the versions are not
 * destroyed: an operator who missed rows while rewrapping needs them back. The log has each change with both values.
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
  return async ({ state, services, sql }) => {
    const key = await getKeyInState(state, key_id, 'updateKey')
    const { row } = key
    const { current_version: key_version, status, destroyed_through } = row
    if (min_unwrap_version > key_version) {
      throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.minUnwrapVersion(key_version))
    }
    if (min_unwrap_version <= destroyed_through) {
      throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.destroyedThrough(destroyed_through))
    }
    if (min_unwrap_version === row.min_unwrap_version) return { entries: [], release: () => viewKey(row) }
    const changes = { min_unwrap_version }
    // By the later clock, as the waiting period of a destruction begins.
    const min_unwrap_since = new Date(Math.max(services.now(), await services.databaseNow(sql))).toISOString()
    return changeKey(state, key, {
      entry: { action: 'key.update', key_id, key_version, metadata: { ...recordChanges(row, changes), status } },
      changes: () => ({ ...changes, min_unwrap_since }),
    })
  }
}
