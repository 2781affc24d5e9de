/**
 * Checks whether a caller may make a call: its API key, address list, tenant and permissions, in this order.
 */
import { DETAILS, findMissingPermission, type Permission } from '@eaas/protocol'
import type { ApiKeyRow } from '../store/api-keys.js'
import { isAllowed } from './allowed-addresses.js'
import { Refusal, type UnauthorizedReason } from './refusal.js'

/** Who calls, and from where. */
export interface Credentials {
  tenant_id: string
  /** HMAC of the API key under the pepper */
  digest: string
  ip_address: string
  /** the end user that the caller says it acts for, which requires a permission of its own */
  on_behalf_of: string | undefined
}

/** A caller, and what it needs to be allowed. */
export interface Access {
  credentials: Credentials
  permissions: readonly Permission[]
}

/** What the credentials of a call lead to. */
export interface Found {
  apiKey: ApiKeyRow | undefined
  /** whether the operator has suspended or deleted the tenant */
  isSuspended: boolean
}

/**
 * Returns the API key that was found by the caller's digest. `now` is in milliseconds since 1970.
 *
 * @throws Refusal E_UNAUTHORIZED, E_IP_NOT_ALLOWED, E_TENANT_SUSPENDED, E_MISSING_PERMISSION
 */
export function admit({ apiKey, isSuspended }: Found, { credentials, permissions }: Access, now: number): ApiKeyRow {
  const { ip_address, on_behalf_of } = credentials
  if (!apiKey) throw unauthorized('unknown')
  const { api_key_id } = apiKey
  const status = apiKeyStatus(apiKey, now)
  if (status !== 'active') throw unauthorized(status, api_key_id)
  if (apiKey.allowed_ips.length > 0 && !isAllowed(apiKey.allowed_ips, ip_address)) {
    const detail = DETAILS.E_IP_NOT_ALLOWED.address(ip_address)
    throw new Refusal('E_IP_NOT_ALLOWED', detail, { api_key_id })
  }
  if (isSuspended) {
    const detail = DETAILS.E_TENANT_SUSPENDED.tenant
    throw new Refusal('E_TENANT_SUSPENDED', detail, { api_key_id })
  }
  assertPermissions(apiKey, on_behalf_of === undefined ? permissions : [...permissions, 'audit:on_behalf_of'])
  return apiKey
}

/** @throws Refusal E_MISSING_PERMISSION naming the first of the permissions that the API key lacks */
export function assertPermissions(apiKey: ApiKeyRow, permissions: readonly Permission[]): void {
  const missing = findMissingPermission(apiKey.permissions, permissions)
  if (!missing) return
  const { api_key_id } = apiKey
  throw new Refusal('E_MISSING_PERMISSION', DETAILS.E_MISSING_PERMISSION.call(missing), { api_key_id })
}

/** The status of an API key at a time, in milliseconds since 1970. */
export function apiKeyStatus(apiKey: ApiKeyRow, now: number): 'active' | 'expired' | 'revoked' {
  if (apiKey.revoked_at !== null) return 'revoked'
  return apiKey.expires_at !== null && Date.parse(apiKey.expires_at) <= now ? 'expired' : 'active'
}

/**
 * The refusal of every invalid credential. The caller learns the same whatever is wrong with it; the operator
 * learns the reason.
 */
export function unauthorized(reason: UnauthorizedReason, api_key_id?: string): Refusal {
  const caller = api_key_id === undefined ? { reason } : { reason, api_key_id }
  return new Refusal('E_UNAUTHORIZED', DETAILS.E_UNAUTHORIZED.apiKey, caller)
}
