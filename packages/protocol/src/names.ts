/**
 * The names of what an API key, a tenant's or an operator's, may be allowed to do. What they mean is in call-rules.ts,
 * because web pages download these lists once a call is refused, and not those rules.
 */

/** Every permission; a tenant's first API key holds all of them. */
export const PERMISSIONS = [
  'encrypt',
  'decrypt',
  'wrap',
  'unwrap',
  'hash',
  'keys:read',
  'keys:create',
  'keys:rotate',
  'keys:disable',
  'keys:destroy',
  'keys:export',
  'audit:read',
  'audit:on_behalf_of',
  'api_keys:read',
  'api_keys:manage',
] as const

export type Permission = (typeof PERMISSIONS)[number]

/** What an operator's API key may be allowed to do; it has none of the permissions of tenants' API keys. */
export const OPERATOR_PERMISSIONS = [
  'tenants:read',
  'tenants:create',
  'tenants:update',
  'tenants:suspend',
  'alarms:read',
] as const

export type OperatorPermission = (typeof OPERATOR_PERMISSIONS)[number]

/** A permission of an API key, a tenant's or an operator's; none has both kinds. */
export type HeldPermission = Permission | OperatorPermission
