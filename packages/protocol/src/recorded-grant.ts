/** What entries about API keys record: their names, and the rights that they grant (chain.md 12). Pure. */
import { type KeyList, loosens, writeKeyList } from './api-key-limits.js'
import type { HeldPermission } from './names.js'

/** Of longer lists of addresses, an entry records the number and the SHA-256, so that it does not grow with them. */
const MAX_LIST_CHARACTERS = 1_024
const NAMING: readonly string[] = ['key.create', 'key.restate', 'api_key.create', 'api_key.update', 'api_key.restate']

/** Returns the id and the name that an entry gives a key or an API key; undefined if it names none. */
export function readRecordedName(
  { action, key_id }: { action: string; key_id: string | null },
  readMetadata: () => Readonly<Record<string, unknown>>,
): [id: string, name: string] | undefined {
  if (!NAMING.includes(action)) return undefined
  const { api_key_id, name } = readMetadata()
  const id = key_id ?? api_key_id
  return typeof id === 'string' && typeof name === 'string' ? [id, name] : undefined
}

export interface Grant {
  name: string
  permissions: readonly HeldPermission[]
  expires_at: string | null
  /** empty if any address is allowed */
  allowed_ips: readonly string[]
  keys: KeyList
  /** as text (api-key-limits.ts); null if it has none */
  budgets: string | null
}

export type RecordedGrant = Record<string, string | number | null>
/** The SHA-256 of a text in UTF-8, in lower-case hexadecimal digits. */
export type HashText = (text: string) => string

export function recordGrant(
  { name, permissions, expires_at, allowed_ips, keys, budgets }: Grant,
  sha256: HashText,
): RecordedGrant {
  return {
    name,
    permissions: sorted(permissions),
    expires_at,
    ...recordAddresses('allowed_ips', allowed_ips, sha256),
    ...(keys === null ? {} : { keys: writeKeyList(keys) }),
    ...(budgets === null ? {} : { budgets }),
  }
}

/** What an entry records of the grant before a change: only the parts that changed. */
export function recordGrantBefore(before: Grant, after: Grant, sha256: HashText): RecordedGrant {
  const { name, permissions, expires_at, allowed_ips, keys, budgets } = before
  const listBefore = keys && writeKeyList(keys)
  const isSame = (list: 'permissions' | 'allowed_ips') => sorted(before[list]) === sorted(after[list])
  return {
    ...(name === after.name ? {} : { name_before: name }),
    ...(isSame('permissions') ? {} : { permissions_before: sorted(permissions) }),
    ...(expires_at === after.expires_at ? {} : { expires_at_before: expires_at }),
    ...(isSame('allowed_ips') ? {} : recordAddresses('allowed_ips_before', allowed_ips, sha256)),
    ...(listBefore === (after.keys && writeKeyList(after.keys)) ? {} : { keys_before: listBefore }),
    ...(budgets === after.budgets ? {} : { budgets_before: budgets }),
  }
}

/** Whether an entry says that its change loosened a limit. Compares lists that are recorded by their hash only by length. */
export function saysLoosened(told: Readonly<Record<string, unknown>>): boolean {
  const { allowed_ips, allowed_ips_sha256 } = told
  const after = {
    expires_at: textOf(told.expires_at),
    allowed_ips: textOf(allowed_ips_sha256 ?? allowed_ips)?.split(' ') ?? [],
    budgets: textOf(told.budgets),
  }
  const before = {
    expires_at: 'expires_at_before' in told ? textOf(told.expires_at_before) : after.expires_at,
    allowed_ips: 'allowed_ips_before' in told ? (textOf(told.allowed_ips_before)?.split(' ') ?? []) : after.allowed_ips,
    budgets: 'budgets_before' in told ? textOf(told.budgets_before) : after.budgets,
  }
  return loosens(before, after) || ('allowed_ips_before_sha256' in told && after.allowed_ips.length === 0)
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

function recordAddresses(name: string, addresses: readonly string[], sha256: HashText): RecordedGrant {
  if (addresses.length === 0) return { [name]: null }
  const list = sorted(addresses)
  if (list.length <= MAX_LIST_CHARACTERS) return { [name]: list }
  return { [`${name}_count`]: addresses.length, [`${name}_sha256`]: sha256(list) }
}

function sorted(list: readonly string[]): string {
  return [...list].sort().join(' ')
}
