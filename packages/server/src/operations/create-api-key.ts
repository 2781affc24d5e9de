/** api_key.create: a new API key; its secret is shown once. */
import { randomUUID } from 'node:crypto'
import type { wire } from '@eaas/protocol'
import { apiKeyMac, sealRow } from '../audit/row-mac.js'
import { apiKeyDigest, apiKeyPrefix, generateApiKey } from '../crypto/api-key.js'
import { type ApiKeyRow, insertApiKey } from '../store/api-keys.js'
import { demandGrantable, readAllowedIps, readExpiry } from './api-key-rules.js'
import { viewApiKey } from './api-key-view.js'
import type { Operation } from './operation.js'

/** Creates an API key. @throws Refusal E_VALIDATION, E_MISSING_PERMISSION */
export function createApiKey({
  name,
  permissions,
  expires_at = null,
  allowed_ips = null,
}: wire.CreateApiKey): Operation<wire.NewApiKey> {
  return async ({ state, caller, services }) => {
    const { tenant_id } = state.tenant
    const expiry = readExpiry(expires_at, services.now())
    const allowed = readAllowedIps(allowed_ips)
    demandGrantable(caller, permissions)
    const api_key_id = randomUUID()
    const secret = generateApiKey(tenant_id)
    let row: ApiKeyRow
    return {
      entries: [{ action: 'api_key.create', metadata: { api_key_id } }],
      async change(sql, { entry_id, created_at }) {
        row = sealRow(
          {
            tenant_id,
            api_key_id,
            digest: apiKeyDigest(services.pepper, secret),
            name,
            prefix: apiKeyPrefix(secret),
            permissions: [...new Set(permissions)],
            allowed_ips: allowed,
            expires_at: expiry,
            revoked_at: null,
            created_at,
            entry_id,
          },
          apiKeyMac,
          state.rowKey,
        )
        await insertApiKey(sql, row)
      },
      release: () => ({ ...viewApiKey(row, services.now()), secret }),
    }
  }
}
