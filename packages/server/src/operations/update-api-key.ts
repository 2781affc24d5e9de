/** api_key.update and api_key.revoke. A field that is absent is kept, `null` clears it, a value sets it. */
import type { KeyObject } from 'node:crypto'
import { isUuid, type wire } from '@eaas/protocol'
import { apiKeyMac, assertWritten, authentic, withMac } from '../audit/row-mac.js'
import type { EntryPlace, Operation } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import type { TenantState } from '../runner/tenant-state.js'
import { type ApiKeyRow, findApiKey, updateApiKey as updateRow } from '../store/api-keys.js'
import type { Queryable, Transaction } from '../store/db.js'
import { assertGrantable, readAllowedIps, readExpiry } from './api-key.js'
import { viewApiKey } from './api-key-view.js'

/** Updates an API key. @throws Refusal E_VALIDATION, E_NOT_FOUND, E_STATE, E_MISSING_PERMISSION */
export function updateApiKey({
  api_key_id,
  changes,
}: {
  api_key_id: string
  changes: wire.UpdateApiKey
}): Operation<wire.ApiKey> {
  return async ({ state, caller, services, sql }) => {
    const now = services.now()
    const wanted: Partial<ApiKeyRow> = {
      ...(changes.name === undefined ? {} : { name: changes.name }),
      ...(changes.permissions === undefined ? {} : { permissions: [...new Set(changes.permissions)] }),
      ...(changes.expires_at === undefined ? {} : { expires_at: readExpiry(changes.expires_at, now) }),
      ...(changes.allowed_ips === undefined ? {} : { allowed_ips: readAllowedIps(changes.allowed_ips) }),
    }
    let row = await getApiKey(sql, state, api_key_id)
    if (row.revoked_at !== null) throw new Refusal('E_STATE', 'the API key is revoked, and that is final')
    const held = row.permissions
    assertGrantable(
      caller,
      (wanted.permissions ?? []).filter((permission) => !held.includes(permission)),
    )
    if (Object.keys(wanted).length === 0) return { entries: [], release: () => viewApiKey(row, now) }
    return {
      entries: [{ action: 'api_key.update', metadata: { api_key_id, changed: Object.keys(wanted).sort().join(' ') } }],
      async change(transaction, at) {
        row = await writeApiKey(transaction, { row, changes: wanted, at, rowKey: state.rowKey })
        return { apiKey: row }
      },
      release: () => viewApiKey(row, services.now()),
    }
  }
}

/** Revokes an API key for good; one that is revoked stays so, without an entry. @throws Refusal E_NOT_FOUND */
export function revokeApiKey({ api_key_id }: { api_key_id: string }): Operation<void> {
  return async ({ state, sql }) => {
    const row = await getApiKey(sql, state, api_key_id)
    if (row.revoked_at !== null) return { entries: [], release: () => undefined }
    return {
      entries: [{ action: 'api_key.revoke', metadata: { api_key_id } }],
      async change(transaction, at) {
        const changes = { revoked_at: at.created_at }
        return { apiKey: await writeApiKey(transaction, { row, changes, at, rowKey: state.rowKey }) }
      },
      release: () => undefined,
    }
  }
}

async function getApiKey(sql: Queryable, { tenant, rowKey }: TenantState, api_key_id: string): Promise<ApiKeyRow> {
  const row = isUuid(api_key_id) ? await findApiKey(sql, tenant.tenant_id, api_key_id) : undefined
  if (!row) throw new Refusal('E_NOT_FOUND', 'API key not found')
  return authentic(row, apiKeyMac, rowKey)
}

async function writeApiKey(
  sql: Transaction,
  { row, changes, at, rowKey }: { row: ApiKeyRow; changes: Partial<ApiKeyRow>; at: EntryPlace; rowKey: KeyObject },
): Promise<ApiKeyRow> {
  const changed = withMac({ ...row, ...changes, entry_id: at.entry_id }, apiKeyMac, rowKey)
  assertWritten(await updateRow(sql, changed), changed)
  return changed
}
