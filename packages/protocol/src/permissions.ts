/** What an API key may be allowed to do. */

/** Every permission; a tenant's first API key holds all of them. */
export const PERMISSIONS = [
  'encrypt',
  'decrypt',
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

/**
 * For a permission, another one that allows the same and more. Clients in other languages hash with `encrypt`
 * alone.
 */
const IMPLIED_BY: Partial<Record<Permission, Permission>> = { hash: 'encrypt' }

/**
 * Finds the first permission that is needed and neither held nor implied by one that is held; undefined if
 * there is none.
 */
export function findMissingPermission(
  held: readonly Permission[],
  needed: readonly Permission[],
): Permission | undefined {
  return needed.find((permission) => {
    const implying = IMPLIED_BY[permission]
    return !held.includes(permission) && !(implying !== undefined && held.includes(implying))
  })
}
