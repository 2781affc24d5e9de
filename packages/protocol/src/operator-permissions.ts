import type { Permission } from './names.js'

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
