/**
 * Whether the log's own entries allow what the acting API key did, see chain.md 13. If an attacker restores an older
 * row, uses it and swaps it back, the entries written meanwhile reveal it. Pure.
 */
import {
  findMissingPermission,
  findNeededPermissions,
  isListed,
  isSelfRevocation,
  isWithin,
  type KeyList,
  type Permission,
  readKeyList,
  saysLoosened,
} from '@eaas/protocol'

/** What earlier entries say; undefined if only entries that were not read said it. */
export type RecordedTenant = { status: unknown; envelope_only: unknown }

/** An API key's grant; undefined if only entries that were not read stated it. */
export type RecordedGrant = { permissions: readonly Permission[] | undefined; keys: KeyList | undefined }

export interface RecordedDeed {
  action: string
  actor: string
  told: Readonly<Record<string, unknown>>
  /** the acting API key's grant */
  held: RecordedGrant
  /** the previous grant of the API key that the entry changes; none if the entry creates it */
  before: RecordedGrant
  tenant: RecordedTenant
  /** the key that the entry names or creates; null if there is none */
  key_id: string | null
  /** the folder in a key's name; undefined if the name is not known */
  findFolder: (key_id: string) => string | undefined
}

/** The grant of an API key before it is created. */
export const NO_GRANT: RecordedGrant = { permissions: [], keys: [] }

/** Whether an API key may do what an entry records. */
export function isAllowedOnRecord(deed: RecordedDeed): boolean {
  const { action, actor, told, held, tenant } = deed
  const needed = findNeededPermissions({ action, actor, metadata: told })
  if (!needed) return false
  if (tenant.status !== undefined && tenant.status !== 'active') return false
  if (tenant.envelope_only === true && (action === 'encrypt' || action === 'decrypt')) return false
  if (!isOnList(deed)) return false
  const { permissions } = held
  if (!permissions) return true
  return !findMissingPermission(permissions, needed) && !findMissingPermission(permissions, findGranted(deed))
}

/**
 * Whether an API key that is limited to some keys may write this entry: the entry is about one of them, or about an API
 * key that is limited to some of them, before and after.
 */
function isOnList({ action, actor, told, held: { keys: list }, before, key_id, findFolder }: RecordedDeed): boolean {
  if (list === undefined || list === null || isSelfRevocation({ action, actor, metadata: told })) return true
  if (key_id !== null) {
    const folder = action === 'key.create' ? told.folder : findFolder(key_id)
    return isListed(list, { key_id, folder: typeof folder === 'string' ? folder : undefined })
  }
  if (!GRANTING.has(action) && action !== 'api_key.revoke') return true
  if (action !== 'api_key.create' && before.keys?.length === 0) return false
  const { keys: after = before.keys } = readGrant(told)
  return [before.keys, after].every((keys) => keys === undefined || isWithin(list, keys, findFolder))
}

const GRANTING = new Set(['api_key.create', 'api_key.update'])

/**
 * Lists the permissions that an entry grants an API key, perhaps the acting one: all of the result if the entry adds
 * keys or loosens a limit, otherwise the new ones. None if the previous ones are not known.
 */
function findGranted({ action, told, before, findFolder }: RecordedDeed): readonly Permission[] {
  const { permissions = before.permissions, keys } = readGrant(told)
  if (!permissions || !GRANTING.has(action)) return []
  const addsKeys = keys !== undefined && before.keys !== undefined && !isWithin(before.keys, keys, findFolder)
  if (addsKeys || saysLoosened(told)) return permissions
  return before.permissions ? permissions.filter((permission) => !before.permissions?.includes(permission)) : []
}

/** Reads what an entry grants; undefined if it does not say. Permissions stated without keys are for all keys. */
export function readGrant(told: RecordedDeed['told']): RecordedGrant {
  const permissions = readPermissions(told)
  return { permissions, keys: permissions ? readKeyList(told.keys) : undefined }
}

function readPermissions({ permissions }: RecordedDeed['told']): readonly Permission[] | undefined {
  if (typeof permissions !== 'string') return undefined
  return permissions.split(' ').filter((name) => name !== '') as Permission[]
}
