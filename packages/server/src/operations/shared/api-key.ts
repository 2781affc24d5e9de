/** What the operations on API keys share: what a key may be given, its secret, its row, and its view. */

import type { KeyObject } from 'node:crypto'
import { randomUUID } from 'node:crypto'
import {
  DETAILS,
  findMissingPermission,
  type Permission,
  parseRfc3339,
  readAddressRange,
  type wire,
} from '@eaas/protocol'
import { apiKeyMac, assertWritten, withMac } from '../../audit/formats/row-mac.js'
import { apiKeyDigest, apiKeyPrefix, generateApiKey } from '../../crypto/api-key.js'
import { apiKeyStatus } from '../../runner/admission.js'
import type { Caller, EntryPosition, Services } from '../../runner/operation.js'
import { Refusal } from '../../runner/refusal.js'
import type { TenantState } from '../../runner/tenant-state.js'
import { type ApiKeyRow, updateApiKey } from '../../store/api-keys.js'
import type { Transaction } from '../../store/db.js'

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
export function assertGrantable({ apiKey }: Caller, permissions: readonly Permission[]): void {
  const missing = apiKey && findMissingPermission(apiKey.permissions, permissions)
  if (missing) throw new Refusal('E_MISSING_PERMISSION', DETAILS.E_MISSING_PERMISSION.grant(missing))
}

export interface NewApiKey {
  /** the secret, to be shown once */
  secret: string
  /** the row, still without the entry that records it, and so without its MAC */
  row: Omit<ApiKeyRow, 'created_at' | 'entry_id' | 'mac'>
}

/** Draws the secret of an API key, whose row holds only a digest of it; writes nothing. */
export function newApiKey(
  { pepper }: Pick<Services, 'pepper'>,
  grant: Pick<ApiKeyRow, 'tenant_id' | 'name' | 'permissions' | 'allowed_ips' | 'expires_at'>,
): NewApiKey {
  const secret = generateApiKey(grant.tenant_id)
  return {
    secret,
    row: {
      ...grant,
      permissions: [...new Set(grant.permissions)],
      api_key_id: randomUUID(),
      digest: apiKeyDigest(pepper, secret),
      prefix: apiKeyPrefix(secret),
      revoked_at: null,
      last_used_at: null,
    },
  }
}

/** Gets an API key by its id. @throws Refusal E_NOT_FOUND, TamperedRowError */
export async function getApiKey(state: TenantState, api_key_id: string): Promise<ApiKeyRow> {
  const row = await state.findApiKeyById(api_key_id)
  if (!row) throw new Refusal('E_NOT_FOUND', DETAILS.E_NOT_FOUND.apiKey)
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
  const changed = withMac({ ...row, ...changes, entry_id: at.entry_id }, apiKeyMac, rowKey)
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
    permissions: row.permissions,
    status: apiKeyStatus(row, now),
    created_at: row.created_at,
    ...(row.expires_at === null ? {} : { expires_at: row.expires_at }),
    ...(row.last_used_at === null ? {} : { last_used_at: row.last_used_at }),
    ...(row.allowed_ips.length === 0 ? {} : { allowed_ips: row.allowed_ips }),
  }
}
