/** Lists the tenant's keys. Writes no entry. */
import { MAX_KEYS, partsOf, type wire } from '@eaas/protocol'
import { keyMac } from '../audit/formats/row-mac.js'
import { isListedKey } from '../runner/listed-keys.js'
import type { Operation } from '../runner/operation.js'
import { type KeyFilter, type KeyRow, listKeys as listRows } from '../store/keys.js'
import { isAsked, TamperedRowError } from '../store/tampered-row.js'
import { viewKey } from './shared/key-rows.js'
import { authenticated, type Page, Paged, readPages, whole } from './shared/pages.js'

/** Lists keys, oldest first, as a whole. */
export function listKeys(filter: Omit<KeyFilter, 'on'>): Operation<wire.KeyList> {
  return whole(listKeysInPages(filter))
}

/** Lists keys, oldest first. */
export function listKeysInPages({
  limit = MAX_KEYS,
  offset = 0,
  ...filter
}: Omit<KeyFilter, 'on'>): Operation<Paged<wire.KeyList>> {
  // Names are unique, so a caller acts on the key that a name finds.
  const asked = Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined))
  return async ({ state, caller, services }) => ({
    entries: [],
    release() {
      const { keys = null } = caller.apiKey ?? {}
      const on = keys === null ? undefined : partsOf(keys)
      const pages = readPages(
        { limit, offset },
        authenticated({ state, services }, keyMac, (page: Page<KeyRow>) =>
          listRows(services.sql, state.tenant.tenant_id, { ...filter, on, ...page }),
        ),
        (key) => {
          if (!isAsked(key, asked) || !isListedKey(keys, key))
            throw new TamperedRowError(`the database listed key ${key.key_id}, which was not asked for`)
          return viewKey(key)
        },
      )
      return new Paged<wire.KeyList>('keys', pages)
    },
  })
}
