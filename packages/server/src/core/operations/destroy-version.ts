/**
 * key.destroy with the step `version`: erases the oldest remaining version of a key, once it has been closed for the
 * waiting period. Until then nothing is lost, and each use is refused and so noticed.
 */
import { DETAILS, readVersion, type wire } from '@eaas/protocol'
import type { OpenKey } from '../runner/load-key.js'
import { decision, type Operation } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import { daysLater, ERASED, viewKey, writeKey, writeKeyVersions } from './shared/key-rows.js'
import { getKeyInState } from './shared/key-use.js'

/**
 * Destroys a version; `version` is its number as written in a path. Does nothing if it is destroyed already. @throws
 * Refusal E_NOT_FOUND, E_STATE, E_VALIDATION
 */
export function destroyVersion({
  key_id,
  version: text,
  confirm,
}: {
  key_id: string
  version: string
  confirm: string
}): Operation<wire.Key> {
  return async ({ state, services, sql }) => {
    const key = await getKeyInState(state, key_id, 'destroyVersion')
    const { row } = key
    const version = key.versions.get(readVersion(text) ?? 0)
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

// Only the oldest versions are closed, and so destroyed: one number in the key's row says which, and a version that an
// attacker restores contradicts it.
function assertDestroyable({ row }: OpenKey, version: number, at: { now: number; windowDays: number }): void {
  const next = row.destroyed_through + 1
  if (version >= row.min_unwrap_version) throw new Refusal('E_STATE', DETAILS.E_STATE.versionOpens(version))
  if (version !== next) throw new Refusal('E_STATE', DETAILS.E_STATE.versionOrder(next))
  const until = daysLater(Date.parse(row.min_unwrap_since ?? row.updated_at), at.windowDays)
  if (Date.parse(until) > at.now) throw new Refusal('E_STATE', DETAILS.E_STATE.versionWaits(until))
}
