/**
 * key.export: with the exported secrets and the published formats, everything that the key protects can be
 * opened without this server.
 */
import { encodeHex, wire } from '@eaas/protocol'
import { mapInStretches } from '../event-loop.js'
import type { Operation } from '../runner/operation.js'
import { getKeyInState } from './shared/key-use.js'

const WARNING =
  'Whoever holds this export opens everything that this key ever protected, and computes its blind indexes. ' +
  'Keep it offline. The server cannot take it back.'

/**
 * Exports a key: the KEK of each version that is not destroyed, and the hash key, in hexadecimal. @throws Refusal E_NOT_FOUND,
 * E_STATE
 */
export function exportKey({ key_id }: { key_id: string }): Operation<wire.KeyExport> {
  return async ({ state, services }) => {
    const key = await getKeyInState(state, key_id, 'exportKey')
    const { hashKey } = key
    if (!hashKey) throw new Error(`key ${key_id} has no hash key`)
    const left = [...key.versions.values()].filter(({ row }) => row.version > key.row.destroyed_through)
    const versions = await mapInStretches(left, ({ row, kek }) => {
      if (!kek) throw new Error(`version ${row.version} of key ${key_id} has no KEK`)
      return { row, secret: kek.export() }
    })
    const hashSecret = hashKey.export()
    return {
      entries: [{ action: 'key.export', key_id, key_version: key.row.current_version }],
      release: async () => ({
        tenant_id: state.tenant.tenant_id, // the wrapped keys are bound to it, as to fields that follow
        key_id,
        name: key.row.name,
        algorithm: wire.ALGORITHM,
        versions: await mapInStretches(versions, ({ row: { version, status }, secret }) => ({
          version,
          dek_hex: encodeHex(secret),
          status,
        })),
        hash_key_hex: encodeHex(hashSecret),
        exported_at: new Date(services.now()).toISOString(),
        warning: WARNING,
      }),
      secrets: [hashSecret, ...versions.map(({ secret }) => secret)],
    }
  }
}
