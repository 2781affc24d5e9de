/** Lists the tenant's API keys. Writes no entry. */
import { MAX_LISTED_API_KEYS, partsOf, type wire } from '@eaas/protocol'
import { authenticated, type Page, Paged, readPages, whole } from '../api/pages.js'
import { apiKeyMac } from '../audit/formats/row-mac.js'
import type { Operation } from '../runner/operation.js'
import { type ApiKeyRow, listApiKeys as listRows } from '../store/api-keys.js'
import { viewApiKey } from './shared/api-key.js'

/** With 256 addresses each, a page has half a megabyte. */
const PAGE_ROWS = 50

interface ListOptions {
  limit?: number | undefined
  offset?: number | undefined
}

/** Lists all API keys, oldest first: revoked ones too, whose number has no limit. */
export function listApiKeys(): Operation<wire.ApiKeyList> {
  return whole(listApiKeysInPages({ limit: Number.POSITIVE_INFINITY }))
}

/**
 * Lists API keys, oldest first, revoked ones too; a caller that is limited to keys gets only API keys that are limited
 * to some of those.
 */
export function listApiKeysInPages({
  limit = MAX_LISTED_API_KEYS,
  offset = 0,
}: ListOptions): Operation<Paged<wire.ApiKeyList>> {
  return async ({ state, caller, services }) => ({
    entries: [],
    release() {
      const { keys = null } = caller.apiKey ?? {}
      const within = keys === null ? undefined : partsOf(keys)
      const pages = readPages(
        { limit, offset, pageRows: PAGE_ROWS },
        authenticated({ state, services }, apiKeyMac, (page: Page<ApiKeyRow>) =>
          listRows(services.sql, state.tenant.tenant_id, { ...page, within }),
        ),
        (row) => viewApiKey(row, services.committer.clock.latest()),
      )
      return new Paged<wire.ApiKeyList>('api_keys', pages)
    },
  })
}
