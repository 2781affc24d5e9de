/** What an API key may be granted, and what its entries say about that (chain.md 12). */
import { createHash } from 'node:crypto'
import * as protocol from '@eaas/protocol'
import {
  DETAILS,
  findFolderOutside,
  findMissingPermission,
  type HeldPermission,
  type KeyList,
  MAX_API_KEYS,
  parseRfc3339,
  partsOf,
  readAddressRange,
} from '@eaas/protocol'
import type { Caller } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import { isListedKey, type TenantState } from '../runner/tenant-state.js'
import { type ApiKeyRow, hasUsableApiKeys } from '../store/api-keys.js'
import type { Queryable } from '../store/db.js'
import { getKey } from './key-use.js'

/** Reads an expiry; null means none. @throws Refusal E_VALIDATION if it is not a time, or not in the future */
export function readExpiry(text: string | null, now: number): string | null {
  if (text === null) return null
  const time = parseRfc3339(text, 'down')
  if (time === undefined) throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.expiresAt)
  if (Date.parse(time) <= now) throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.expired)
  return time
}

/** Reads an allow-list, and clears the bits beyond each prefix; null means none. @throws Refusal E_VALIDATION */
export function readAllowedIps(list: readonly string[] | null): string[] {
  const ranges = (list ?? []).map((text, at) => {
    const range = readAddressRange(text)
    if (range !== undefined) return range
    throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.allowedIp(at))
  })
  return [...new Set(ranges)]
}

/** An API key grants only permissions that it holds; operators grant any. @throws Refusal E_MISSING_PERMISSION */
export function assertGrantable({ apiKey }: Caller, permissions: readonly HeldPermission[]): void {
  const missing = apiKey && findMissingPermission(apiKey.permissions, permissions)
  if (missing) throw new Refusal('E_MISSING_PERMISSION', DETAILS.E_MISSING_PERMISSION.grant(missing))
}

/**
 * Reads the keys that an API key will be limited to; null means all. A caller that is itself limited to keys can grant
 * and find only those. @throws Refusal E_MISSING_PERMISSION, E_NOT_FOUND
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

/** The permissions with which an API key could evade its budgets: managing API keys, and exporting keys. */
export const AROUND_BUDGETS: readonly HeldPermission[] = ['api_keys:manage', 'keys:export']

/** @throws Refusal E_VALIDATION if an API key has budgets and a permission that evades them */
export function assertBudgetHolds({ budgets, permissions }: Pick<ApiKeyRow, 'budgets' | 'permissions'>): void {
  if (budgets === null || !permissions.some((permission) => AROUND_BUDGETS.includes(permission))) return
  throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.budgets)
}

/** Whether the new list has keys that the old one lacks. The ids in it must be those of existing keys. */
export async function addsKeys(state: TenantState, before: KeyList, after: KeyList): Promise<boolean> {
  if (before === null) return false
  if (after === null || findFolderOutside(before, after) !== undefined) return true
  for (const key_id of partsOf(after).ids) {
    const key = await state.findKey(key_id)
    if (!key || !isListedKey(before, key.row)) return true
  }
  return false
}

/** Before one is created or resumed. Expired API keys do not count. @throws Refusal E_LIMIT */
export async function assertRoomForOne(sql: Queryable, tenant_id: string, now: number): Promise<void> {
  if (await hasUsableApiKeys(sql, tenant_id, { count: MAX_API_KEYS, at: new Date(now).toISOString() }))
    throw new Refusal('E_LIMIT', DETAILS.E_LIMIT.apiKeys)
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

export const recordGrant = (grant: protocol.Grant): protocol.RecordedGrant => protocol.recordGrant(grant, sha256)

export const recordGrantBefore = (before: protocol.Grant, after: protocol.Grant): protocol.RecordedGrant =>
  protocol.recordGrantBefore(before, after, sha256)
