/** key.create: a new key with its first version and its hash key. */
import { randomUUID } from 'node:crypto'
import { MAX_KEYS, wire } from '@eaas/protocol'
import { keyMac, keyVersionMac, withMac } from '../audit/formats/row-mac.js'
import { sealNewSecret } from '../crypto/key-hierarchy.js'
import { decision, type Operation } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import { hasKeys, insertKey, insertKeyVersion, isKeyNameTaken, type KeyRow } from '../store/keys.js'
import { viewKey } from './shared/key-rows.js'
import { assertNotDeleted } from './shared/tenant.js'

/** Creates a key. @throws Refusal E_STATE, E_NAME_TAKEN, E_LIMIT */
export function createKey({ name }: { name: string }): Operation<wire.Key> {
  return async ({ state, services, sql }) => {
    assertNotDeleted(state)
    const { tenant_id } = state.tenant
    if (await isKeyNameTaken(sql, tenant_id, name)) {
      throw new Refusal('E_NAME_TAKEN', 'a key with this name already exists; names are never reused')
    }
    if (await hasKeys(sql, tenant_id, MAX_KEYS)) {
      throw new Refusal('E_LIMIT', `a tenant may have at most ${MAX_KEYS} keys, including destroyed ones`)
    }
    const key_id = randomUUID()
    const wrapped_kek = sealNewSecret(services.rootKey, { purpose: 'kek', tenant_id, id: key_id, version: 1 })
    const wrapped_hash_key = sealNewSecret(services.rootKey, { purpose: 'hash-key', tenant_id, id: key_id })
    return decision({
      entries: [{ action: 'key.create', key_id, key_version: 1 }],
      async change(transaction, { entry_id, created_at }) {
        const row: KeyRow = withMac(
          {
            tenant_id,
            key_id,
            name,
            algorithm: wire.ALGORITHM,
            status: 'active',
            current_version: 1,
            rotation_interval_days: null,
            next_rotation_at: null,
            destroy_at: null,
            wrapped_hash_key,
            created_at,
            updated_at: created_at,
            entry_id,
          },
          keyMac,
          state.rowKey,
        )
        const version = withMac(
          { tenant_id, key_id, version: 1, status: 'active' as const, wrapped_kek, created_at, entry_id },
          keyVersionMac,
          state.rowKey,
        )
        await insertKey(transaction, row)
        await insertKeyVersion(transaction, version)
        return { key: row, versions: [version] }
      },
      release: (written) => viewKey(written.key),
    })
  }
}
