/** What the operations on API keys share: what an API key may be given, its secret, its row, and its view. */

import { type KeyObject, randomUUID } from 'node:crypto'
import {
  type Budgets,
  DETAILS,
  findFolderOutside,
  findMissingPermission,
  type HeldPermission,
  type KeyList,
  MAX_API_KEYS,
  type Permission,
  parseRfc3339,
  partsOf,
  readAddressRange,
  readBudgets,
  type wire,
  writeBudgets,
} from '@eaas/protocol'
import { getKey } from '../../api/key-use.js'
import { apiKeyMac, assertWritten, authentic, withMac } from '../../audit/formats/row-mac.js'
import { apiKeyPrefix, generateApiKey } from '../../crypto/api-key.js'
import { apiKeyStatus } from '../../runner/admission.js'
import { isListedKey } from '../../runner/listed-keys.js'
import type { Caller, EntryPosition, Services } from '../../runner/operation.js'
import { Refusal } from '../../runner/refusal.js'
import type { TenantState } from '../../runner/tenant-state.js'
import { type ApiKeyRow, hasUsableApiKeys, lockDigest, updateApiKey } from '../../store/api-keys.js'
import type { Queryable, Transaction } from '../../store/db.js'

/** Reads an expiry; null is none. @throws Refusal E_VALIDATION if it is not a time, or not in the future */
export function readExpiry(text: string | null, now: number): string | null {
  if (text === null) return null
  const time = parseRfc3339(text, 'down')
  if (time === undefined) throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.expiresAt)
  if (Date.parse(time) <= now) throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.expired)
  return time
}

/**
 * Reads an allow-list, with the bits beyond each prefix cleared; null is none. @throws Refusal E_VALIDATION
 */
export function readAllowedIps(list: readonly string[] | null): string[] {
  const ranges = (list ?? []).map((text, at) => {
    const range = readAddressRange(text)
    if (range !== undefined) return range
    throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.allowedIp(at))
  })
  return [...new Set(ranges)]
}

/**
 * An API key grants only permissions that it holds itself. The operator, on the command line, may grant all.
 *
 * @throws Refusal E_MISSING_PERMISSION
 */
export function assertGrantable({ apiKey }: Caller, permissions: readonly HeldPermission[]): void {
  const missing = apiKey && findMissingPermission(apiKey.permissions, permissions)
  if (missing) throw new Refusal('E_MISSING_PERMISSION', DETAILS.E_MISSING_PERMISSION.grant(missing))
}

/**
 * Reads the keys that an API key will be limited to; null is all. A caller that is limited itself grants only keys of
 * its own list, and finds no others. The state is as the caller sees it.
 *
 * @throws Refusal E_MISSING_PERMISSION, E_NOT_FOUND
 */
export async function readKeyList(
  state: TenantState,
  { apiKey }: Caller,
  list: readonly string[] | null,
): Promise<string[] | null> {
  const held = apiKey?.keys ?? null
  if (held !== null && (list === null || findFolderOutside(held, list) !== undefined)) {
    throw new Refusal('E_MISSING_PERMISSION', DETAILS.E_MISSING_PERMISSION.grantKeys)
  }
  if (list === null) return null
  for (const key_id of partsOf(list).ids) await getKey(state, key_id)
  return [...new Set(list)]
}

/** The permissions by which an API key could evade its budgets: managing API keys, and exporting keys. */
export const AROUND_BUDGETS: readonly HeldPermission[] = ['api_keys:manage', 'keys:export']

/** Writes budgets as a row has them; null is none. */
export function rowBudgets(budgets: Budgets | null): string | null {
  return budgets && writeBudgets(budgets)
}

/** @throws Refusal E_VALIDATION if an API key has budgets and a permission that evades them */
export function assertBudgetHolds({ budgets, permissions }: Pick<ApiKeyRow, 'budgets' | 'permissions'>): void {
  if (budgets === null || !permissions.some((permission) => AROUND_BUDGETS.includes(permission))) return
  throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.budgets)
}

/** Whether a list has keys that the one before lacks. Ids are those of keys that exist. */
export async function addsKeys(state: TenantState, before: KeyList, after: KeyList): Promise<boolean> {
  if (before === null) return false
  if (after === null || findFolderOutside(before, after) !== undefined) return true
  for (const key_id of partsOf(after).ids) {
    const key = await state.findKey(key_id)
    if (!key || !isListedKey(before, key.row)) return true
  }
  return false
}

/**
 * An expired API key takes no room, so resuming one needs room as creating one does.
 *
 * @throws Refusal E_LIMIT if the tenant already has as many usable API keys as it may
 */
export async function assertRoomForOne(sql: Queryable, tenant_id: string, now: number): Promise<void> {
  if (await hasUsableApiKeys(sql, tenant_id, { count: MAX_API_KEYS, at: new Date(now).toISOString() })) {
    throw new Refusal('E_LIMIT', DETAILS.E_LIMIT.apiKeys)
  }
}

export interface NewApiKey {
  /** the secret, to be shown once */
  secret: string
  /** the row, still without the entry that records it, and so without its MAC */
  row: Omit<ApiKeyRow, 'created_at' | 'entry_id' | 'mac'>
}

/** Draws the secret of an API key, whose row holds only a digest of it; writes nothing. */
export function newApiKey(
  { peppers }: Pick<Services, 'peppers'>,
  grant: Pick<ApiKeyRow, 'tenant_id' | 'name' | 'permissions' | 'allowed_ips' | 'keys' | 'budgets' | 'expires_at'>,
): NewApiKey {
  const secret = generateApiKey(grant.tenant_id)
  return {
    secret,
    row: {
      ...grant,
      permissions: [...new Set(grant.permissions)],
      api_key_id: randomUUID(),
      ...peppers.digest(secret),
      prefix: apiKeyPrefix(secret),
      revoked_at: null,
      last_used_at: null,
    },
  }
}

/**
 * Gets an API key by its id. A caller that is limited to keys finds only API keys that are limited to some of those,
 * and none with an empty list, such as an auditor's. @throws Refusal E_NOT_FOUND, TamperedRowError
 */
export async function getApiKey(
  state: TenantState,
  api_key_id: string,
  { apiKey }: Pick<Caller, 'apiKey'>,
): Promise<ApiKeyRow> {
  const row = await state.findApiKeyById(api_key_id)
  const held = apiKey?.keys ?? null
  const isOfNone = held !== null && row?.keys?.length === 0
  if (!row || isOfNone || (await addsKeys(state, held, row.keys))) {
    throw new Refusal('E_NOT_FOUND', DETAILS.E_NOT_FOUND.apiKey)
  }
  return row
}

/**
 * Writes an API key's changed columns, with the id of the entry that records the change; returns the new row.
 * @throws TamperedRowError if the row is gone
 */
export async function writeApiKey(
  sql: Transaction,
  {
    row,
    changes,
    at,
    rowKey,
  }: { row: ApiKeyRow; changes: Partial<ApiKeyRow>; at: Omit<EntryPosition, 'entry_hash'>; rowKey: KeyObject },
): Promise<ApiKeyRow> {
  // The digest may have been made again under a new pepper since the row was read; the MAC shows that nothing else
  // changed.
  const digest = await lockDigest(sql, row)
  const current = authentic<ApiKeyRow>({ ...row, ...digest }, apiKeyMac, rowKey)
  const changed = withMac({ ...current, ...changes, entry_id: at.entry_id }, apiKeyMac, rowKey)
  assertWritten(await updateApiKey(sql, changed), changed)
  return changed
}

/**
 * The API key as the API shows it at a time, in milliseconds since 1970: without its secret and its digest.
 */
export function viewApiKey(row: ApiKeyRow, now: number): wire.ApiKey {
  return {
    id: row.api_key_id,
    name: row.name,
    prefix: row.prefix,
    permissions: row.permissions as Permission[], // only the command reads an operator's
    status: apiKeyStatus(row, now),
    created_at: row.created_at,
    ...(row.expires_at === null ? {} : { expires_at: row.expires_at }),
    ...(row.last_used_at === null ? {} : { last_used_at: row.last_used_at }),
    ...(row.allowed_ips.length === 0 ? {} : { allowed_ips: row.allowed_ips }),
    ...(row.keys === null ? {} : { keys: row.keys }),
    ...(row.budgets === null ? {} : { budgets: readBudgets(row.budgets) }),
  }
}
