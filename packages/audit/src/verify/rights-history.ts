/**
 * Reads a log as a history of rights, see chain.md 11: each change must replace the last change of its row, and earlier
 * entries must allow what each entry did. If an attacker restores an older row, this fails as soon as the server bases
 * a change on it or lets an API key act by it. Pure.
 */
import { findKeyRule, isListed, isUuid, KEY_STATUSES, type KeyCall, SYSTEM_ACTOR } from '@eaas/protocol'
import { type AuditEntry, readMetadata } from '../formats/chain.js'
import { isAllowedOnRecord, NO_GRANT, type RecordedGrant, type RecordedTenant, readGrant } from './recorded-rights.js'

export type RightsFault = 'replaces_mismatch' | 'state_violated' | 'deletion_incomplete'

export interface RightsHistory {
  /** Reads the next entry, in order. Returns what is wrong with it, if anything. */
  read(entry: AuditEntry): RightsFault | undefined
  /** Returns what is wrong with the whole log, after the last entry. */
  end(): RightsFault | undefined
  /** Finds a key or API key that is still usable according to the entries so far: `key <id>` or `API key <id>`. */
  findUsable(): string | undefined
}

/** The fields of an entry that matter here. An export may hold actions that this version does not know. */
type Entry = Pick<AuditEntry, 'id' | 'actor' | 'key_id' | 'key_version' | 'metadata'> & { action: string }

type KeyStatus = (typeof KEY_STATUSES)[number]

/** What the entries say about a key; undefined if only entries before the first one read said it. */
interface KeyHistory {
  entry_id: number | undefined
  status: KeyStatus | undefined
  version: number | undefined
  /** the oldest version that opens */
  least: number | undefined
  /** the newest version that was destroyed on its own; 0 if there is none */
  destroyed: number | undefined
  folder: string | undefined
}

const UNKNOWN_GRANT: RecordedGrant = { permissions: undefined, keys: undefined }

type ApiKeyHistory = { entry_id: number | undefined; isRevoked: boolean; grant: RecordedGrant }

/** The states from which a change of a key may start, and the state to which it leads. */
type KeyChange = { from: readonly KeyStatus[]; to?: KeyStatus }
const KEY_CHANGES: ReadonlyMap<string, KeyChange> = new Map<string, KeyChange>([
  ['key.rotate', { from: changedBy('rotateKey'), to: 'active' }],
  ['key.disable', { from: changedBy('disableKey'), to: 'disabled' }],
  ['key.enable', { from: changedBy('enableKey'), to: 'active' }],
])
/** By `step` of `key.destroy`. */
const DESTRUCTION: ReadonlyMap<unknown, KeyChange> = new Map<unknown, KeyChange>([
  ['scheduled', { from: changedBy('destroyKey'), to: 'pending_destruction' }],
  ['cancelled', { from: changedBy('cancelDestruction'), to: 'disabled' }],
  // The server completes a destruction when it is due, or when the tenant is deleted.
  ['completed', { from: KEY_STATUSES.filter((status) => status !== 'destroyed'), to: 'destroyed' }],
])

/** Creates the history of a log whose entries through `after_id` are not read; 0 if all are read. */
export function createRightsHistory({ after_id }: { after_id: number }): RightsHistory {
  const isWhole = after_id === 0
  const keys = new Map<string, KeyHistory>()
  const apiKeys = new Map<string, ApiKeyHistory>()
  let tenantEntry: number | undefined
  let tenant: RecordedTenant = { status: undefined, envelope_only: undefined }
  /** by API key: allowed actions without metadata since rights last changed, since most entries repeat one */
  const allowed = new Map<string, Set<string>>()

  /** Whether a change names the entry that it replaces: the last of its row, or one that was not read. */
  function isReplaced(replaces: unknown, last: number | undefined): boolean {
    if (last !== undefined) return replaces === last
    return Number.isSafeInteger(replaces) && (replaces as number) >= 1 && (replaces as number) <= after_id
  }

  function mayAct(entry: Entry): boolean {
    const { action, actor: by, key_id } = entry
    if (entry.metadata === null && allowed.get(entry.actor)?.has(action) && isOnList(entry)) return true
    if (!isUuid(entry.actor)) return true
    const actor = findApiKey(entry.actor)
    if (!actor || actor.isRevoked) return false
    const told = readMetadata(entry)
    const changed = apiKeys.get(String(told.api_key_id))?.grant ?? UNKNOWN_GRANT
    const before = action === 'api_key.create' ? NO_GRANT : changed
    if (!isAllowedOnRecord({ action, actor: by, told, held: actor.grant, before, tenant, key_id, findFolder }))
      return false
    if (entry.metadata === null) allowed.set(entry.actor, (allowed.get(entry.actor) ?? new Set()).add(entry.action))
    return true
  }

  function findFolder(key_id: string): string | undefined {
    return keys.get(key_id)?.folder
  }

  function isOnList({ actor, key_id }: Entry): boolean {
    const list = apiKeys.get(actor)?.grant.keys ?? null
    return key_id === null || list === null || isListed(list, { key_id, folder: findFolder(key_id) })
  }

  /** Finds the acting API key; undefined if no entry can have created it. */
  function findApiKey(actor: string): ApiKeyHistory | undefined {
    const found = apiKeys.get(actor)
    if (found || isWhole) return found
    const apiKey: ApiKeyHistory = { entry_id: undefined, isRevoked: false, grant: UNKNOWN_GRANT }
    apiKeys.set(actor, apiKey)
    return apiKey
  }

  function findKey(key_id: string): KeyHistory | undefined {
    const known = keys.get(key_id)
    if (known || isWhole) return known
    const unknown = { entry_id: undefined, status: undefined, version: undefined, least: undefined }
    const key: KeyHistory = { ...unknown, destroyed: undefined, folder: undefined }
    keys.set(key_id, key)
    return key
  }

  function readKey(entry: Entry, key_id: string): RightsFault | undefined {
    if (entry.action === 'key.create') {
      if (keys.has(key_id) || entry.key_version !== 1) return 'state_violated'
      const { folder } = readMetadata(entry)
      if (folder !== undefined && typeof folder !== 'string') return 'state_violated'
      keys.set(key_id, { entry_id: entry.id, status: 'active', version: 1, least: 1, destroyed: 0, folder })
      return undefined
    }
    const key = findKey(key_id)
    if (!key) return 'state_violated'
    switch (entry.action) {
      case 'key.wrap':
      case 'encrypt':
        return isIn(key, findKeyRule('wrap').states, 'active') &&
          isCurrent(key, entry.key_version) &&
          (entry.metadata === null || isRewrap(key, entry))
          ? undefined
          : 'state_violated'
      case 'key.unwrap':
      case 'decrypt':
        return isIn(key, findKeyRule('unwrap').states) && isOpening(key, entry.key_version)
          ? undefined
          : 'state_violated'
      case 'key.export':
      case 'key.index_secret': {
        const { states } = findKeyRule(entry.action === 'key.export' ? 'exportKey' : 'indexSecret')
        return isIn(key, states) && isCurrent(key, entry.key_version) ? undefined : 'state_violated'
      }
      case 'key.destroy': {
        const { step, status } = readMetadata(entry)
        return step === 'version'
          ? (readKeyChange(entry, key, unchanged(status, changedBy('destroyVersion'))) ?? readDestroyed(entry, key))
          : readKeyChange(entry, key, DESTRUCTION.get(step))
      }
      case 'key.restate':
        return (
          readKeyChange(entry, key, unchanged(readMetadata(entry).status, KEY_STATUSES)) ??
          readLeast(entry, key) ??
          readFolder(entry, key)
        )
      case 'key.update':
        return (
          readKeyChange(entry, key, unchanged(readMetadata(entry).status, changedBy('updateKey'))) ??
          readLeast(entry, key)
        )
      case 'key.rotation_policy': {
        const { status } = readMetadata(entry)
        const from = changedBy('setRotation')
        return readKeyChange(entry, key, status === undefined ? { from } : unchanged(status, from))
      }
      default: {
        const change = KEY_CHANGES.get(entry.action)
        return change && readKeyChange(entry, key, change)
      }
    }
  }

  function readKeyChange(entry: Entry, key: KeyHistory, change: KeyChange | undefined): RightsFault | undefined {
    const { replaces, versions } = readMetadata(entry)
    if (!isReplaced(replaces, key.entry_id)) return 'replaces_mismatch'
    const version = entry.key_version ?? 0
    // An entry of a rotation names the version that it adds.
    const current = entry.action === 'key.rotate' ? version - 1 : version
    if (!change || !isIn(key, change.from) || !isCurrent(key, current)) return 'state_violated'
    if (entry.action === 'key.destroy' && change.to === 'destroyed' && versions !== version) return 'state_violated'
    key.version = version
    key.status = change.to ?? key.status
    key.entry_id = entry.id
    return undefined
  }

  function readLeast(entry: Entry, key: KeyHistory): RightsFault | undefined {
    const told = readMetadata(entry)
    const isChange = entry.action === 'key.update'
    const least = told.min_unwrap_version ?? (isChange ? undefined : 1)
    const before = isChange ? told.min_unwrap_version_before : least
    if ((key.least ?? before) !== before || !isVersion(key, least)) return 'state_violated'
    if (!isChange && !isRestatedAsDestroyed(key, told.destroyed_through ?? 0)) return 'state_violated'
    if (least <= (key.destroyed ?? 0)) return 'state_violated'
    key.least = least
    return undefined
  }

  /** Reads which version was destroyed. It must follow the last destroyed one, and must no longer open. */
  function readDestroyed(entry: Entry, key: KeyHistory): RightsFault | undefined {
    const { version } = readMetadata(entry)
    if (!isVersion(key, version) || version !== (key.destroyed ?? version - 1) + 1) return 'state_violated'
    if (version >= (key.least ?? key.version ?? version)) return 'state_violated'
    key.destroyed = version
    return undefined
  }

  function readFolder(entry: Entry, key: KeyHistory): RightsFault | undefined {
    const { folder = key.folder } = readMetadata(entry)
    if ((folder !== undefined && typeof folder !== 'string') || (key.folder ?? folder) !== folder)
      return 'state_violated'
    key.folder = folder
    return undefined
  }

  function readApiKey(entry: Entry): RightsFault | undefined {
    const told = readMetadata(entry)
    const { api_key_id, replaces } = told
    if (typeof api_key_id !== 'string') return 'state_violated'
    const known = apiKeys.get(api_key_id)
    const stated = readGrant(told)
    if (stated.permissions && stated.keys === undefined) return 'state_violated' // no list of keys
    const grant = stated.permissions ? stated : (known?.grant ?? UNKNOWN_GRANT)
    if (entry.action === 'api_key.create') {
      if (known) return 'state_violated'
      if (entry.id === 1) {
        tenantEntry = 1
        tenant = { status: 'active', envelope_only: told.envelope_only }
      }
      apiKeys.set(api_key_id, { entry_id: entry.id, isRevoked: false, grant })
      return undefined
    }
    if (!known && isWhole) return 'state_violated'
    if (!isReplaced(replaces, known?.entry_id)) return 'replaces_mismatch'
    const isRestated = entry.action === 'api_key.restate'
    if (isRestated ? !isRestatement(told, known) : known?.isRevoked) return 'state_violated'
    const isRevoked = isRestated ? told.revoked_at !== null : entry.action === 'api_key.revoke'
    allowed.clear()
    apiKeys.set(api_key_id, { entry_id: entry.id, isRevoked, grant })
    return undefined
  }

  function readTenant(entry: Entry): RightsFault | undefined {
    const { replaces, status = tenant.status, envelope_only = tenant.envelope_only } = readMetadata(entry)
    if (!isReplaced(replaces, tenantEntry)) return 'replaces_mismatch'
    const isSame = status === (tenant.status ?? status) && envelope_only === (tenant.envelope_only ?? envelope_only)
    if (entry.action === 'tenant.restate' && !isSame) return 'state_violated'
    tenantEntry = entry.id
    allowed.clear()
    tenant = { status, envelope_only }
    return undefined
  }

  function findUsable(): string | undefined {
    for (const [key_id, { status }] of keys) if (status !== undefined && status !== 'destroyed') return `key ${key_id}`
    for (const [api_key_id, { isRevoked }] of apiKeys) if (!isRevoked) return `API key ${api_key_id}`
    return undefined
  }

  return {
    findUsable,
    // Deleting the tenant missed a row that was hidden from the server. Completing the deletion makes the log valid again.
    end: () => (tenant.status === 'deleted' && findUsable() !== undefined ? 'deletion_incomplete' : undefined),
    read(entry: Entry) {
      if (entry.actor !== SYSTEM_ACTOR && !mayAct(entry)) return 'state_violated'
      if (entry.key_id !== null) return readKey(entry, entry.key_id)
      switch (entry.action) {
        case 'api_key.create':
        case 'api_key.update':
        case 'api_key.revoke':
        case 'api_key.restate':
          return readApiKey(entry)
        case 'tenant.update':
        case 'tenant.restate':
          return readTenant(entry)
        default:
          return undefined
      }
    },
  }
}

/** The states in which a call changes a key, and so writes an entry. */
function changedBy(call: KeyCall): readonly KeyStatus[] {
  const { states, unchanged = [] } = findKeyRule(call)
  return states.filter((status) => !unchanged.includes(status))
}

/** The change of an entry that states a key's status and keeps it; undefined if the status is not in `among`. */
function unchanged(status: unknown, among: readonly KeyStatus[]): KeyChange | undefined {
  const known = among.find((one) => one === status)
  return known && { from: [known], to: known }
}

/** Whether an entry restates what is known of an API key. One that acted was not revoked. */
function isRestatement(told: Record<string, unknown>, known: ApiKeyHistory | undefined): boolean {
  const { permissions, keys } = readGrant(told)
  if (!permissions || told.revoked_at === undefined) return false
  if (known && known.isRevoked !== (told.revoked_at !== null)) return false
  const { permissions: held, keys: list } = known?.grant ?? UNKNOWN_GRANT
  return (!held || isSameList(held, permissions)) && (list === undefined || isSameList(list, keys ?? null))
}

function isSameList(one: readonly string[] | null, other: readonly string[] | null): boolean {
  if (one === null || other === null) return one === other
  return one.length === other.length && one.every((item) => other.includes(item))
}

/** Whether a key is in one of these states. An unknown status passes, and becomes `known`. */
function isIn(key: KeyHistory, states: readonly KeyStatus[], known?: KeyStatus): boolean {
  key.status ??= known
  return key.status === undefined || states.includes(key.status)
}

/** Whether this is the current version. If that is unknown, it becomes this one. */
function isCurrent(key: KeyHistory, key_version: number | null): boolean {
  if (key_version === null || key_version < 1) return false
  key.version ??= key_version
  return key.version === key_version
}

function isVersion({ version }: KeyHistory, number: unknown): number is number {
  return (
    Number.isSafeInteger(number) && (number as number) >= 1 && (number as number) <= (version ?? (number as number))
  )
}

/** Whether exactly the versions through this one are destroyed. If that is unknown, it becomes so. */
function isRestatedAsDestroyed(key: KeyHistory, through: unknown): boolean {
  if (!Number.isSafeInteger(through) || (through as number) < 0) return false
  key.destroyed ??= through as number
  return key.destroyed === through
}

function isOpening(key: KeyHistory, number: unknown): boolean {
  return isVersion(key, number) && number >= (key.least ?? (key.destroyed ?? 0) + 1)
}

/** Whether a wrap that is a rewrap names a version that opens. */
function isRewrap(key: KeyHistory, entry: Entry): boolean {
  const { rewrapped_from } = readMetadata(entry)
  return entry.action !== 'key.wrap' || rewrapped_from === undefined || isOpening(key, rewrapped_from)
}
