/** Reading the tenant's API keys. No entry. */
import type { wire } from '@eaas/protocol'
import { apiKeyMac, authentic } from '../audit/row-mac.js'
import { listApiKeys as listRows } from '../store/api-keys.js'
import { viewApiKey } from './api-key-view.js'
import type { Operation } from './operation.js'

/** Lists API keys, oldest first, revoked ones too. */
export function listApiKeys(): Operation<wire.ApiKeyList> {
  return async ({ state, services }) => ({
    entries: [],
    async release() {
      const rows = await listRows(services.sql, state.tenant.tenant_id)
      const api_keys = rows.map((row) => viewApiKey(authentic(row, apiKeyMac, state.rowKey), services.now()))
      return { api_keys, count: api_keys.length }
    },
  })
}
