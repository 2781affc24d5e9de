/** key.rotate: a new version wraps from now on; the one before is retired and opens what it wrapped. */
import { wire } from '@eaas/protocol'
import { keyVersionMac, withMac } from '../audit/row-mac.js'
import type { OpenKey } from '../runner/load-key.js'
import type { Context, Decision, Operation } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import { insertKeyVersion, type KeyRow } from '../store/keys.js'
import { writeKey, writeKeyVersion } from './change-key.js'
import { currentVersion, getKeyIn } from './key.js'
import { sealNewSecret } from './key-secrets.js'
import { viewKey } from './key-view.js'
import { nextRotation } from './set-rotation.js'

/** Rotates a key. @throws Refusal E_NOT_FOUND, E_STATE, E_LIMIT */
export function rotateKey({ key_id }: { key_id: string }): Operation<wire.Key> {
  return async (context) =>
    rotation(context, await getKeyIn(context.state, key_id, { states: ['active'], to: 'rotate' }))
}

/** Rotates a key whose rotation is due by its policy; nothing happens where another process was quicker, or the tenant is suspended. */
export function rotateKeyIfDue({ key_id }: { key_id: string }): Operation<wire.Key | undefined> {
  return async (context) => {
    const key = await context.state.findKey(key_id)
    const isDue =
      context.state.tenant.status === 'active' &&
      key?.row.status === 'active' &&
      key.row.next_rotation_at !== null &&
      Date.parse(key.row.next_rotation_at) <= context.services.now()
    return isDue ? rotation(context, key) : { entries: [], release: () => undefined }
  }
}

function rotation({ state, services }: Context, key: OpenKey): Decision<wire.Key> {
  const { tenant_id } = state.tenant
  const { rowKey } = state
  const { key_id } = key.row
  const version = key.row.current_version + 1
  if (version > wire.MAX_KEY_VERSIONS) {
    throw new Refusal('E_LIMIT', `a key has ${wire.MAX_KEY_VERSIONS} versions at most: create another key`)
  }
  const wrapped_kek = sealNewSecret(services.rootKey, { purpose: 'kek', tenant_id, id: key_id, version })
  let row: KeyRow
  return {
    entries: [{ action: 'key.rotate', key_id, key_version: version }],
    async change(sql, at) {
      const next_rotation_at = nextRotation(key.row.rotation_interval_days, at.created_at)
      row = await writeKey(sql, { row: key.row, changes: { current_version: version, next_rotation_at }, at, rowKey })
      const retired = await writeKeyVersion(sql, {
        row: currentVersion(key).row,
        changes: { status: 'retired' },
        at,
        rowKey,
      })
      const { created_at, entry_id } = at
      const withoutMac = { tenant_id, key_id, version, status: 'active' as const, wrapped_kek, created_at, entry_id }
      const added = withMac(withoutMac, keyVersionMac, rowKey)
      await insertKeyVersion(sql, added)
      return { key: row, versions: [retired, added] }
    },
    release: () => viewKey(row),
  }
}
