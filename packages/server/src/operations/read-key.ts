/** Reads one key with its versions. Writes no entry. */
import type { wire } from '@eaas/protocol'
import { mapInStretches } from '../event-loop.js'
import type { Operation } from '../runner/operation.js'
import { viewKey } from './shared/key-rows.js'
import { getKey } from './shared/key-use.js'

/** Reads one key; its versions are listed oldest first. @throws Refusal E_NOT_FOUND */
export function readKey({ key_id }: { key_id: string }): Operation<wire.KeyWithVersions> {
  return async ({ state }) => {
    const { row, versions } = await getKey(state, key_id)
    return {
      entries: [],
      release: async () => ({
        ...viewKey(row),
        updated_at: row.updated_at,
        versions: await mapInStretches(versions.values(), ({ row: { version, status, created_at } }) => ({
          version,
          status,
          created_at,
        })),
      }),
    }
  }
}
