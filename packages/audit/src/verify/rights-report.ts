/** Who could do what with which key at a given time, read from the entries alone (chain.md 12). Pure. */
import {
  type Budgets,
  findUsefulPermissions,
  isListed,
  isUuid,
  type KeyList,
  type Permission,
  readBudgets,
  readKeyList,
} from '@eaas/protocol'
import { type AuditEntry, readMetadata } from '../formats/chain.js'
import { createStateReader, createTimesReader, type EntryTimes } from './entry-times.js'

/** Null stands for what only entries that were not read said. */
export interface RightsState {
  /** RFC 3339, UTC */
  at: string
  /** the last entry that counts; 0 if there is none */
  through_id: number
  tenant: { status: string | null; envelope_only: boolean | null }
  api_keys: ApiKeyRights[]
  keys: KeyRights[]
  /** copies of keys outside the server. Each opens what its versions encrypted, whatever happens to the key */
  exports: KeyExport[]
}

/** The rights, and what may have changed them by then without being counted. */
export type RightsReport = RightsState & Pick<EntryTimes, 'losses' | 'ahead'>

/** An entry `key.export` (chain.md 11): the secrets of all versions through the current one were handed out. */
export interface KeyExport {
  key_id: string
  entry_id: number
  actor: string
  created_at: string
  /** the copy has the versions through this one, without those destroyed before */
  through_version: number | null
}

export interface ApiKeyRights {
  api_key_id: string
  name: string | null
  /** null if only entries of its calls were read */
  status: 'active' | 'expired' | 'revoked' | null
  permissions: string[] | null
  expires_at: string | null
  /** null for any address; a long list is given as its length and SHA-256 */
  allowed_ips: string[] | { count: number; sha256: string } | null
  /** the ids and folders that it is limited to; null for no limit, or for unknown if `permissions` is null */
  keys: KeyList
  /** how much it may open and hash; null for no limit, or for unknown if `permissions` is null */
  budgets: Budgets | null
  /** the last entry that changed it */
  entry_id: number | null
}

export interface KeyRights {
  key_id: string
  name: string | null
  status: 'active' | 'disabled' | 'pending_destruction' | 'destroyed' | null
  version: number | null
  /** the oldest version that opens */
  min_unwrap_version: number | null
  /** this version and all earlier ones are destroyed; 0 for none */
  destroyed_through: number | null
  /** the permissions that allow any use of a key in this state; empty if the state is not known */
  permissions: readonly Permission[]
  folder: string | null
  entry_id: number | null
}

const UNKNOWN_GRANT = { permissions: null, expires_at: null, allowed_ips: null, keys: null, budgets: null }

/** By action, or by `step` of `key.destroy`. */
const STATUS_AFTER: ReadonlyMap<unknown, KeyRights['status']> = new Map<unknown, KeyRights['status']>([
  ['key.create', 'active'],
  ['key.rotate', 'active'],
  ['key.enable', 'active'],
  ['key.disable', 'disabled'],
  ['scheduled', 'pending_destruction'],
  ['cancelled', 'disabled'],
  ['completed', 'destroyed'],
])

/** A later version may have further ones. */
const API_KEY_ACTIONS = new Set(['api_key.create', 'api_key.update', 'api_key.revoke', 'api_key.restate'])

/** The fields of an entry that are read. An export may hold actions that this version does not know. */
export type RightsEntry = Pick<AuditEntry, 'id' | 'key_id' | 'key_version' | 'metadata' | 'created_at' | 'actor'> & {
  action: string
}

export interface RightsReader {
  read(entry: RightsEntry): void
  /** @param log the verdict, which says when the log was signed: nothing in it was written later */
  report(log: { signed_at?: string }): RightsReport
  state(): RightsState
}

/** Creates a reader of the rights at a time, RFC 3339 in UTC with milliseconds. */
export function createRightsReader(at: string): RightsReader {
  const tenant: RightsState['tenant'] = { status: null, envelope_only: null }
  const apiKeys = new Map<string, ApiKeyRights>()
  const keys = new Map<string, KeyRights>()
  const exports: KeyExport[] = []
  let through_id = 0

  function readApiKey(id: number, action: string, told: Record<string, unknown>): void {
    const api_key_id = String(told.api_key_id)
    const before = apiKeys.get(api_key_id)
    const name = nameOf(told, before)
    const isRevoked = action === 'api_key.revoke' || (action === 'api_key.restate' && told.revoked_at !== null)
    const status = isRevoked ? 'revoked' : 'active'
    // An entry that states no permissions leaves them as they were (chain.md 13).
    const grant = told.permissions === undefined ? (before ?? UNKNOWN_GRANT) : grantOf(told)
    apiKeys.set(api_key_id, { ...grant, api_key_id, name, status, entry_id: id })
  }

  function readKey(
    id: number,
    key_id: string,
    entry: { action: string; key_version: number | null },
    told: Record<string, unknown>,
  ): void {
    const known = keys.get(key_id)
    const status = statusAfter(entry.action, told)
    const isChange = status !== undefined || entry.action === 'key.rotation_policy'
    const isStated = entry.action === 'key.create' || entry.action === 'key.restate'
    const least = isStated ? 1 : (known?.min_unwrap_version ?? null)
    const destroyed = isStated ? 0 : (known?.destroyed_through ?? null)
    if (known && !isChange) return
    const now = status ?? known?.status ?? null
    keys.set(key_id, {
      key_id,
      name: nameOf(told, known),
      status: now,
      version: isChange ? entry.key_version : (known?.version ?? null),
      min_unwrap_version: numberOr(told.min_unwrap_version, least),
      destroyed_through: numberOr(told.step === 'version' ? told.version : told.destroyed_through, destroyed),
      permissions: now === null ? [] : findUsefulPermissions(now),
      folder: typeof told.folder === 'string' ? told.folder : (known?.folder ?? null),
      entry_id: isChange ? id : (known?.entry_id ?? null),
    })
  }

  function change({ id, action, actor, key_id, key_version, metadata, created_at }: RightsEntry): void {
    through_id = id
    if (isUuid(actor) && !apiKeys.has(actor))
      apiKeys.set(actor, { api_key_id: actor, name: null, status: null, ...UNKNOWN_GRANT, entry_id: null })
    if (key_id !== null && action === 'key.export')
      exports.push({ key_id, entry_id: id, actor, created_at, through_version: key_version })
    if (key_id !== null) readKey(id, key_id, { action, key_version }, readMetadata({ metadata }))
    if (!/^(api_key|tenant)\./.test(action)) return
    const told = readMetadata({ metadata })
    if (API_KEY_ACTIONS.has(action)) readApiKey(id, action, told)
    if (id === 1) tenant.status = 'active'
    if (typeof told.status === 'string') tenant.status = told.status
    if (typeof told.envelope_only === 'boolean') tenant.envelope_only = told.envelope_only
  }

  const copy = (): RightsState => ({
    at,
    through_id,
    tenant: { ...tenant },
    api_keys: [...apiKeys.values()].map((apiKey) => ({ ...apiKey, status: statusAt(apiKey, at) })),
    keys: [...keys.values()],
    exports: [...exports],
  })

  const { read, state } = createStateReader(at, { change, copy })
  // An entry dated exactly `at` counts.
  const next = new Date(Date.parse(at) + 1).toISOString()
  const times = createTimesReader({ from: next, to: next })
  return {
    read(entry) {
      times.read(entry)
      read(entry)
    },
    report(log) {
      const { losses, ahead } = times.times(log)
      return { ...state(), losses, ahead }
    },
    state,
  }
}

function nameOf({ name }: Record<string, unknown>, before: { name: string | null } | undefined): string | null {
  return typeof name === 'string' ? name : (before?.name ?? null)
}

function numberOr(value: unknown, otherwise: number | null): number | null {
  return typeof value === 'number' ? value : otherwise
}

/** Actions whose entries state the key's status, as entries about a destroyed version also do. */
const SAY_STATUS: readonly string[] = ['key.restate', 'key.rotation_policy', 'key.update']

function statusAfter(action: string, { step, status }: Record<string, unknown>): KeyRights['status'] | undefined {
  if (SAY_STATUS.includes(action) || step === 'version') return status as KeyRights['status'] | undefined
  return STATUS_AFTER.get(action === 'key.destroy' ? step : action)
}

/** Whether an API key may use a key, according to their lines in the report. */
export function mayUse(
  { permissions, keys }: ApiKeyRights,
  { key_id, folder }: Pick<KeyRights, 'key_id' | 'folder'>,
): boolean {
  return permissions === null || isListed(keys, { key_id, folder: folder ?? undefined })
}

function grantOf(
  told: Record<string, unknown>,
): Pick<ApiKeyRights, 'permissions' | 'expires_at' | 'allowed_ips' | 'keys' | 'budgets'> {
  const { permissions, expires_at, allowed_ips, allowed_ips_count, allowed_ips_sha256 } = told
  return {
    permissions: typeof permissions === 'string' ? permissions.split(' ').filter((name) => name !== '') : null,
    expires_at: typeof expires_at === 'string' ? expires_at : null,
    allowed_ips:
      allowed_ips_count === undefined
        ? typeof allowed_ips === 'string'
          ? allowed_ips.split(' ')
          : null
        : { count: Number(allowed_ips_count), sha256: String(allowed_ips_sha256) },
    keys: readKeyList(told.keys) ?? null,
    budgets: typeof told.budgets === 'string' ? readBudgets(told.budgets) : null,
  }
}

function statusAt({ status, expires_at }: ApiKeyRights, at: string): ApiKeyRights['status'] {
  return status === 'active' && expires_at !== null && expires_at <= at ? 'expired' : status
}
