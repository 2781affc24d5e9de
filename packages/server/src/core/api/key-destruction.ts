/**
 * key.destroy. A caller schedules or cancels the destruction of a key, and the server completes it after the waiting
 * period. That destroys the key material and the hash key; the key's row, its audit entries and its name remain. A
 * caller destroys a version at once: the oldest remaining one, after it was closed for the waiting period. In both
 * periods nothing is lost, and each use is refused, so somebody notices.
 */
import { changesNothing, DETAILS, readVersion, type wire } from '@eaas/protocol'
import type { OpenKey } from '../runner/load-key.js'
import { type Decision, decision, type Operation } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import type { TenantState } from '../runner/tenant-state.js'
import type { KeyRow } from '../store/keys.js'
import { TamperedRowError } from '../store/tampered-row.js'
import { changeKey, daysLater, ERASED, viewKey, writeKey, writeKeyVersions } from './key-rows.js'
import { getKey, getKeyInState } from './key-use.js'
import { bindRoutes } from './route.js'

export const destructionRoutes = bindRoutes({
  destroyKey: {
    summary: 'Destroy a disabled key for good, after a waiting period',
    action: 'key.destroy',
    operation: ({ id, body }) => destroyKey({ key_id: id, confirm: body.confirm }),
  },
  cancelDestruction: {
    summary: 'Cancel a pending destruction',
    action: 'key.destroy',
    operation: ({ id }) => cancelDestruction({ key_id: id }),
  },
  destroyVersion: {
    summary: 'Destroy a closed version of a key for good',
    action: 'key.destroy',
    operation: ({ id, version, body }) => destroyVersion({ key_id: id, version, confirm: body.confirm }),
  },
})

/** Schedules the destruction of a disabled key. @throws Refusal E_NOT_FOUND, E_STATE, E_VALIDATION */
export function destroyKey({ key_id, confirm }: { key_id: string; confirm: string }): Operation<wire.Key> {
  return async ({ state, services, sql }) => {
    const key = await getKeyInState(state, key_id, 'destroyKey')
    if (confirm !== key.row.name) throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.confirm)
    if (changesNothing('destroyKey', key.row.status)) return { entries: [], release: () => viewKey(key.row) }
    if (services.destroyWindowDays === 0) return completion(state, key)
    // Begins by the later clock and ends by the earlier one, so that a wrong clock never shortens the waiting period.
    const from = Math.max(services.now(), await services.databaseNow(sql))
    return statusChange(state, key, {
      step: 'scheduled',
      status: 'pending_destruction',
      destroy_at: daysLater(from, services.destroyWindowDays),
    })
  }
}

/** Cancels a destruction that is waiting; the key is then disabled. @throws Refusal E_NOT_FOUND, E_STATE */
export function cancelDestruction({ key_id }: { key_id: string }): Operation<wire.Key> {
  return async ({ state }) => {
    const key = await getKeyInState(state, key_id, 'cancelDestruction')
    return statusChange(state, key, { step: 'cancelled', status: 'disabled', destroy_at: null })
  }
}

/**
 * Completes a destruction whose waiting period is over by this clock and by the database's, unless another process did.
 * The destructions of a suspended tenant, which cannot cancel them, wait; those of a deleted tenant do not.
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
 * Destroys a key at once, whatever its state: its suspended tenant is being deleted, or was deleted while the key was
 * hidden. @throws Refusal E_NOT_FOUND, E_STATE
 */
export function destroySuspendedKey({ key_id }: { key_id: string }): Operation<wire.Key> {
  return async ({ state }) => {
    if (state.tenant.status === 'active')
      throw new Refusal('E_STATE', `tenant ${state.tenant.name} is active: none of its keys is destroyed any more`)
    const key = await getKey(state, key_id)
    return key.row.status === 'destroyed' ? { entries: [], release: () => viewKey(key.row) } : completion(state, key)
  }
}

function statusChange(
  state: TenantState,
  key: OpenKey,
  { step, ...changes }: { step: string } & Pick<KeyRow, 'status' | 'destroy_at'>,
): Decision<wire.Key> {
  const { key_id, current_version: key_version } = key.row
  const metadata = { step, ...(changes.destroy_at && { destroy_at: changes.destroy_at }) }
  const entry = { action: 'key.destroy', key_id, key_version, metadata } as const
  return changeKey(state, key, { entry, changes: () => changes })
}

function completion(state: TenantState, key: OpenKey): Decision<wire.Key> {
  const { rowKey } = state
  const { key_id, current_version: key_version, entry_id: replaces } = key.row
  const metadata = { step: 'completed', versions: key_version, replaces }
  return decision({
    entries: [{ action: 'key.destroy', key_id, key_version, metadata }],
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

// Nothing rotates under the lock of the head, so a version beyond the current one means that a row was restored.
function assertCurrent({ row: { tenant_id, key_id, current_version }, versions }: OpenKey): void {
  if (versions.size === current_version) return
  throw new TamperedRowError(`the row of key ${key_id} of tenant ${tenant_id} was restored outside the server`)
}

/** Destroys a version; `version` is its number as written in a path. @throws Refusal E_NOT_FOUND, E_STATE, E_VALIDATION */
export function destroyVersion(asked: Record<'key_id' | 'version' | 'confirm', string>): Operation<wire.Key> {
  const { key_id, confirm } = asked
  return async ({ state, services, sql }) => {
    const key = await getKeyInState(state, key_id, 'destroyVersion')
    const { row } = key
    const version = key.versions.get(readVersion(asked.version) ?? 0)
    if (!version) throw new Refusal('E_NOT_FOUND', DETAILS.E_NOT_FOUND.version)
    if (confirm !== row.name) throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.confirm)
    const number = version.row.version
    if (number <= row.destroyed_through) return { entries: [], release: () => viewKey(row) }
    const now = Math.min(services.now(), await services.databaseNow(sql))
    assertDestroyable(key, number, { now, windowDays: services.destroyWindowDays })
    const { current_version: key_version, status } = row
    const metadata = { step: 'version', version: number, status, replaces: row.entry_id }
    return decision({
      entries: [{ action: 'key.destroy', key_id, key_version, metadata }],
      async change(transaction, at) {
        const { rowKey } = state
        const changed = await writeKey(transaction, { row, changes: { destroyed_through: number }, at, rowKey })
        const erased = { key: changed, versions: [version], changes: ERASED, at, rowKey }
        return { key: changed, versions: await writeKeyVersions(transaction, erased) }
      },
      release: (written) => viewKey(written.key),
    })
  }
}

// Only the oldest versions can be closed and destroyed. So one number in the key's row says which are destroyed, and a
// version that an attacker restores contradicts it.
function assertDestroyable({ row }: OpenKey, version: number, at: { now: number; windowDays: number }): void {
  const next = row.destroyed_through + 1
  if (version >= row.min_unwrap_version) throw new Refusal('E_STATE', DETAILS.E_STATE.versionOpens(version))
  if (version !== next) throw new Refusal('E_STATE', DETAILS.E_STATE.versionOrder(next))
  const until = daysLater(Date.parse(row.min_unwrap_since ?? row.updated_at), at.windowDays)
  if (Date.parse(until) > at.now) throw new Refusal('E_STATE', DETAILS.E_STATE.versionWaits(until))
}
