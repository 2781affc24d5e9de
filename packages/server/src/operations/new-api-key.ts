/** A new API key: its secret, and the row that knows it by a digest alone. */
import { randomUUID } from 'node:crypto'
import { apiKeyDigest, apiKeyPrefix, generateApiKey } from '../crypto/api-key.js'
import type { Services } from '../runner/operation.js'
import type { ApiKeyRow } from '../store/api-keys.js'

/** What is not decided by the secret, nor by the entry that tells of it. */
type Grant = Pick<ApiKeyRow, 'tenant_id' | 'name' | 'permissions' | 'allowed_ips' | 'expires_at'>

export interface NewApiKey {
  /** to be shown once */
  secret: string
  /** to be placed in the log and sealed */
  withoutMac: Omit<ApiKeyRow, 'created_at' | 'entry_id' | 'mac'>
}

/** Draws the secret of an API key; writes nothing. */
export function newApiKey({ pepper }: Pick<Services, 'pepper'>, grant: Grant): NewApiKey {
  const secret = generateApiKey(grant.tenant_id)
  return {
    secret,
    withoutMac: {
      ...grant,
      permissions: [...new Set(grant.permissions)],
      api_key_id: randomUUID(),
      digest: apiKeyDigest(pepper, secret),
      prefix: apiKeyPrefix(secret),
      revoked_at: null,
      last_used_at: null,
    },
  }
}
