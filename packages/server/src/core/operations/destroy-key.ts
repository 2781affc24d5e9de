/**
 * key.destroy: a caller schedules or cancels it, the server completes it when the waiting period is over. It
 * destroys the key material and the hash key; the key's row, its audit entries and its name remain.
 */
import { changesNothing, DETAILS, type wire } from '@eaas/protocol'
import type { OpenKey } from '../runner/load-key.js'
import { type Decision, decision, type Operation } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import type { TenantState } from '../runner/tenant-state.js'
import type { KeyRow } from '../store/keys.js'
import { TamperedRowError } from '../store/tampered-row.js'
import { changeKey, daysLater, ERASED, viewKey, writeKey, writeKeyVersions } from './shared/key-rows.js'
import { getKey, getKeyInState } from './shared/key-use.js'

/**
 * Schedules the destruction of a disabled key; completes it at once if there is no waiting period. @throws
 * Refusal E_NOT_FOUND, E_STATE, E_VALIDATION
 */
export function destroyKey({ key_id, confirm }: { key_id: string; confirm: string }): Operation<wire.Key> {
  return async ({ state, services, sql }) => {
    const key = await getKeyInState(state, key_id, 'destroyKey')
    if (confirm !== key.row.name) throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.confirm)
    if (changesNothing('destroyKey', key.row.status)) return { entries: [], release: () => viewKey(key.row) }
    if (services.destroyWindowDays === 0) return completion(state, key)
    // Begins by the later clock and ends by the earlier one: a wrong clock makes the waiting period longer,
    // never shorter.
    const from = Math.max(services.now(), await services.databaseNow(sql))
    return statusChange(state, key, {
      step: 'scheduled',
      status: 'pending_destruction',
      destroy_at: daysLater(from, services.destroyWindowDays),
    })
  }
}

/** Cancels a destruction that is waiting: the key is disabled again. @throws Refusal E_NOT_FOUND, E_STATE */
export function cancelDestruction({ key_id }: { key_id: string }): Operation<wire.Key> {
  return async ({ state }) => {
    const key = await getKeyInState(state, key_id, 'cancelDestruction')
    return statusChange(state, key, { step: 'cancelled', status: 'disabled', destroy_at: null })
  }
}

/**
 * Completes a destruction whose waiting period is over by this clock and by the database's. Does nothing if
 * another process completed it first. While the tenant is suspended, and so cannot cancel, its destructions
 * wait; those of a deleted tenant do not.
 */
export function destroyKeyIfDue({ key_id }: { key_id: string }): Operation<wire.Key | undefined> {
  return async ({ state, services, sql }) => {
    const key = await state.findKey(key_id)
    const now = Math.min(services.now(), await services.databaseNow(sql))
    const isDue =
      state.tenant.status !== 'suspended' &&
      key?.row.status === 'pending_destruction' &&
      key.row.destroy_at !== null &&
      Date.parse(key.row.destroy_at) <= now
    return isDue ? completion(state, key) : { entries: [], release: () => undefined }
  }
}

/**
 * Destroys a key at once, whatever its state, because its suspended tenant is being deleted, or was deleted while the
 * key was hidden.
 *
 * @throws Refusal E_NOT_FOUND, E_STATE
 */
export function destroySuspendedKey({ key_id }: { key_id: string }): Operation<wire.Key> {
  return async ({ state }) => {
    if (state.tenant.status === 'active') {
      throw new Refusal('E_STATE', `tenant ${state.tenant.name} is active: none of its keys is destroyed any more`)
    }
    const key = await getKey(state, key_id)
    return key.row.status === 'destroyed' ? { entries: [], release: () => viewKey(key.row) } : completion(state, key)
  }
}

function statusChange(
  state: TenantState,
  key: OpenKey,
  { step, status, destroy_at }: { step: string; status: KeyRow['status']; destroy_at: string | null },
): Decision<wire.Key> {
  const { key_id, current_version: key_version } = key.row
  const metadata = { step, ...(destroy_at && { destroy_at }) }
  return changeKey(state, key, {
    entry: { action: 'key.destroy', key_id, key_version, metadata },
    changes: () => ({ status, destroy_at }),
  })
}

function completion(state: TenantState, key: OpenKey): Decision<wire.Key> {
  const { rowKey } = state
  const { key_id, current_version: key_version } = key.row
  return decision({
    entries: [
      {
        action: 'key.destroy',
        key_id,
        key_version,
        metadata: { step: 'completed', versions: key_version, replaces: key.row.entry_id },
      },
    ],
    async change(sql, at) {
      assertCurrent(key)
      const changes: Partial<KeyRow> = {
        status: 'destroyed',
        destroy_at: null,
        wrapped_hash_key: null,
        rotation_interval_days: null,
        next_rotation_at: null,
      }
      const row = await writeKey(sql, { row: key.row, changes, at, rowKey })
      const versions = [...key.versions.values()]
      return { key: row, versions: await writeKeyVersions(sql, { key: row, versions, changes: ERASED, at, rowKey }) }
    },
    release: (written) => viewKey(written.key),
  })
}

// Under the lock of the head no rotation can happen: a version beyond the current one means that an older row was
// restored.
function assertCurrent({ row: { tenant_id, key_id, current_version }, versions }: OpenKey): void {
  if (versions.size === current_version) return
  throw new TamperedRowError(`the row of key ${key_id} of tenant ${tenant_id} was restored outside the server`)
}
