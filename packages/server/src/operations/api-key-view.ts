/** An API key as the API shows it: never its secret, never its digest. */
import type { wire } from '@eaas/protocol'
import { apiKeyStatus } from '../runner/admit.js'
import type { ApiKeyRow } from '../store/api-keys.js'

/** The record of the contract at a time, in milliseconds since 1970. */
export function viewApiKey(row: ApiKeyRow, now: number): wire.ApiKey {
  return {
    id: row.api_key_id,
    name: row.name,
    prefix: row.prefix,
    permissions: row.permissions,
    status: apiKeyStatus(row, now),
    created_at: row.created_at,
    ...(row.expires_at === null ? {} : { expires_at: row.expires_at }),
    ...(row.last_used_at === null ? {} : { last_used_at: row.last_used_at }),
    ...(row.allowed_ips.length === 0 ? {} : { allowed_ips: row.allowed_ips }),
  }
}
