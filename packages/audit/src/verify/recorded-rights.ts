/**
 * What the log itself allows the API key that an entry names as its actor, see chain.md 13: a row that was
 * put back for a moment, used and exchanged again is found by what was done meanwhile. Pure.
 */
import { findMissingPermission, findNeededPermissions, type Permission } from '@eaas/protocol'

/** What the entries before say; undefined is what only entries that were not read said. */
export interface RecordedTenant {
  status: unknown
  envelope_only: unknown
}

export interface RecordedDeed {
  action: string
  /** the metadata of the entry */
  told: Readonly<Record<string, unknown>>
  /** what the acting API key holds */
  held: readonly Permission[] | undefined
  /** what the API key held before that the entry changes; none if the entry creates it */
  before: readonly Permission[] | undefined
  tenant: RecordedTenant
}

/** Whether an API key may do what an entry records. */
export function isAllowedOnRecord({ action, told, held, before, tenant }: RecordedDeed): boolean {
  const needed = findNeededPermissions(action, told)
  if (!needed) return false
  if (tenant.status !== undefined && tenant.status !== 'active') return false
  if (tenant.envelope_only === true && (action === 'encrypt' || action === 'decrypt')) return false
  if (!held) return true
  return !findMissingPermission(held, needed) && !findMissingPermission(held, findGranted(action, told, before))
}

/**
 * The permissions that an entry gives another API key, or its own; none if it is not known what that had
 * before.
 */
function findGranted(
  action: string,
  told: RecordedDeed['told'],
  before: readonly Permission[] | undefined,
): readonly Permission[] {
  const after = readPermissions(told)
  if (!after || !before || (action !== 'api_key.create' && action !== 'api_key.update')) return []
  return after.filter((permission) => !before.includes(permission))
}

/** Reads the permissions that an entry states; undefined if it states none. */
export function readPermissions({ permissions }: RecordedDeed['told']): readonly Permission[] | undefined {
  if (typeof permissions !== 'string') return undefined
  return permissions.split(' ').filter((name) => name !== '') as Permission[]
}
