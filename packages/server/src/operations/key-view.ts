/** A key as the API shows it. */
import type { wire } from '@eaas/protocol'
import type { OpenKey } from '../runner/load-key.js'
import type { KeyRow } from '../store/keys.js'

/** The Key of the contract: the values that clients know under two names stand under both. */
export function viewKey(row: KeyRow): wire.Key {
  return {
    id: row.key_id,
    key_id: row.key_id,
    name: row.name,
    algorithm: 'AES-256-GCM',
    status: row.status,
    current_version: row.current_version,
    key_version: row.current_version,
    created_at: row.created_at,
    rotation:
      row.rotation_interval_days === null || row.next_rotation_at === null
        ? null
        : { interval_days: row.rotation_interval_days, next_rotation_at: row.next_rotation_at },
    ...(row.destroy_at === null ? {} : { destroy_at: row.destroy_at }),
  }
}

/** A key with its versions, oldest first. */
export function viewKeyWithVersions(key: OpenKey): wire.KeyWithVersions {
  return {
    ...viewKey(key.row),
    updated_at: key.row.updated_at,
    versions: [...key.versions.values()].map(({ row: { version, status, created_at } }) => ({
      version,
      status,
      created_at,
    })),
  }
}
