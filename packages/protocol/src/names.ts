/** The permissions of API keys. The rules are in call-rules.ts, which pages do not download. */

/** A tenant's first API key holds all of them. */
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

/** For operators' API keys, which have none of the permissions above. */
export const OPERATOR_PERMISSIONS = [
  'tenants:read',
  'tenants:create',
  'tenants:update',
  'tenants:suspend',
  'alarms:read',
] as const

export type OperatorPermission = (typeof OPERATOR_PERMISSIONS)[number]
export type HeldPermission = Permission | OperatorPermission
