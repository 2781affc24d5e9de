/** What an API key may be allowed to do. */

/** Every permission; a tenant's first API key holds all of them. */
export const PERMISSIONS = [
  'encrypt',
  'decrypt',
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
