/** Lists the tenant's API keys. Writes no entry. */
import { MAX_LISTED_API_KEYS, type wire } from '@eaas/protocol'
import { apiKeyMac, authentic } from '../audit/formats/row-mac.js'
import type { Operation } from '../runner/operation.js'
import { type ApiKeyRow, listApiKeys as listRows } from '../store/api-keys.js'
import { viewApiKey } from './shared/api-key.js'
import { type Page, readPages } from './shared/pages.js'

/** Lists API keys, oldest first, revoked ones too. */
export function listApiKeys({
  limit = MAX_LISTED_API_KEYS,
  offset = 0,
}: {
  limit?: number | undefined
  offset?: number | undefined
} = {}): Operation<wire.ApiKeyList> {
  return async ({ state, services }) => ({
    entries: [],
    async release() {
      const api_keys = await readPages(
        { limit, offset },
        (page: Page<ApiKeyRow>) => listRows(services.sql, state.tenant.tenant_id, page),
        (row) => viewApiKey(authentic(row, apiKeyMac, state.rowKey), services.now()),
      )
      return { api_keys, count: api_keys.length }
    },
  })
}
