/** Reading keys: one with its versions, or the tenant's list. No entry. */
import { wire } from '@eaas/protocol'
import { authentic, keyMac } from '../audit/row-mac.js'
import type { Operation } from '../runner/operation.js'
import { type KeyFilter, listKeys as listKeyRows } from '../store/keys.js'
import { getKey } from './key.js'
import { viewKey, viewKeyWithVersions } from './key-view.js'
import { readPages } from './read-pages.js'

/** Reads one key. @throws Refusal E_NOT_FOUND */
export function readKey({ key_id }: { key_id: string }): Operation<wire.KeyWithVersions> {
  return async ({ state }) => {
    const key = await getKey(state, key_id)
    return { entries: [], release: () => viewKeyWithVersions(key) }
  }
}

/** Lists keys, oldest first. */
export function listKeys({ limit = wire.MAX_KEYS, offset = 0, ...filter }: KeyFilter): Operation<wire.KeyList> {
  return async ({ state, services }) => ({
    entries: [],
    async release() {
      const keys = await readPages(
        { limit, offset },
        (page) => listKeyRows(services.sql, state.tenant.tenant_id, { ...filter, ...page }),
        (row) => viewKey(authentic(row, keyMac, state.rowKey)),
      )
      return { keys, count: keys.length }
    },
  })
}
