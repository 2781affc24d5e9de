/** Reads one key with its versions. Writes no entry. */
import type { wire } from '@eaas/protocol'
import { mapInStretches } from '../event-loop.js'
import type { Operation } from '../runner/operation.js'
import { listVersionUses } from '../store/version-uses.js'
import { viewKey } from './shared/key-rows.js'
import { getKey } from './shared/key-use.js'

/** Reads one key; its versions are listed oldest first, with what each did. @throws Refusal E_NOT_FOUND */
export function readKey({ key_id }: { key_id: string }): Operation<wire.KeyWithVersions> {
  return async ({ state, sql }) => {
    const { row, versions } = await getKey(state, key_id)
    const uses = new Map((await listVersionUses(sql, row)).map((use) => [use.version, use]))
    return {
      entries: [],
      release: async () => ({
        ...viewKey(row),
        updated_at: row.updated_at,
        versions: await mapInStretches(versions.values(), ({ row: { version, status, created_at } }) => {
          const { wraps = 0, opened_on } = uses.get(version) ?? {}
          const opened = opened_on ? { last_unwrapped_at: `${opened_on}T00:00:00.000Z` } : {}
          return { version, status, created_at, wraps, ...opened }
        }),
      }),
    }
  }
}
