/** api_key.create: a new API key; its secret is shown once. */
import type { wire } from '@eaas/protocol'
import { apiKeyMac, sealRow } from '../audit/row-mac.js'
import { type ApiKeyRow, insertApiKey } from '../store/api-keys.js'
import { demandGrantable, readAllowedIps, readExpiry } from './api-key-rules.js'
import { viewApiKey } from './api-key-view.js'
import { newApiKey } from './new-api-key.js'
import type { Operation } from './operation.js'

/** Creates an API key. @throws Refusal E_VALIDATION, E_MISSING_PERMISSION */
export function createApiKey({
  name,
  permissions,
  expires_at = null,
  allowed_ips = null,
}: wire.CreateApiKey): Operation<wire.NewApiKey> {
  return async ({ state, caller, services }) => {
    const grant = {
      tenant_id: state.tenant.tenant_id,
      name,
      permissions,
      expires_at: readExpiry(expires_at, services.now()),
      allowed_ips: readAllowedIps(allowed_ips),
    }
    demandGrantable(caller, permissions)
    const { secret, unsealed } = newApiKey(services, grant)
    let row: ApiKeyRow
    return {
      entries: [{ action: 'api_key.create', metadata: { api_key_id: unsealed.api_key_id } }],
      async change(sql, { entry_id, created_at }) {
        row = sealRow({ ...unsealed, created_at, entry_id }, apiKeyMac, state.rowKey)
        await insertApiKey(sql, row)
      },
      release: () => ({ ...viewApiKey(row, services.now()), secret }),
    }
  }
}
