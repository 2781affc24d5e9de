/**
 * api_key.update: an absent field is kept, `null` clears it, a value sets it. api_key.revoke, which cannot be
 * undone.
 */
import { DETAILS, loosens, type wire } from '@eaas/protocol'
import { apiKeyStatus } from '../runner/admission.js'
import { type Decision, decision, type EntryPosition, type Operation } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import type { TenantState } from '../runner/tenant-state.js'
import type { ApiKeyRow } from '../store/api-keys.js'
import type { Transaction } from '../store/db.js'
import {
  addsKeys,
  assertBudgetHolds,
  assertGrantable,
  assertRoomForOne,
  getApiKey,
  readAllowedIps,
  readExpiry,
  readKeyList,
  rowBudgets,
  viewApiKey,
  writeApiKey,
} from './shared/api-key.js'
import { recordGrant, recordGrantBefore } from './shared/recorded-values.js'

const PEPPER_GONE = 'the API key expired before it took the pepper that replaced its own: create another API key'

/** Updates an API key. @throws Refusal E_VALIDATION, E_NOT_FOUND, E_STATE, E_MISSING_PERMISSION, E_LIMIT */
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
      ...(changes.budgets === undefined ? {} : { budgets: rowBudgets(changes.budgets) }),
    }
    const row = await getApiKey(state, api_key_id, caller)
    if (row.revoked_at !== null) throw new Refusal('E_STATE', DETAILS.E_STATE.apiKey)
    const permissions = wanted.permissions ?? row.permissions
    assertBudgetHolds({ ...row, ...wanted })
    assertGrantable(
      caller,
      permissions.filter((permission) => !row.permissions.includes(permission)),
    )
    if (loosens(row, { ...row, ...wanted })) assertGrantable(caller, permissions)
    if (changes.keys !== undefined) {
      wanted.keys = await readKeyList(state, caller, changes.keys)
      // Each permission counts for each key: a caller that adds keys grants every permission on them.
      if (await addsKeys(state, row.keys, wanted.keys)) assertGrantable(caller, permissions)
    }
    const isResumed = wanted.expires_at !== undefined && apiKeyStatus(row, now) === 'expired'
    if (isResumed) {
      if (!services.peppers.accepts(row.pepper)) throw new Refusal('E_STATE', PEPPER_GONE)
      await assertRoomForOne(sql, row.tenant_id, now)
    }
    return decision({
      ...recordedChange(state, row, wanted),
      release: ({ apiKey }) => viewApiKey(apiKey, services.now()),
    })
  }
}

/** The entry and the row of a change. */
function recordedChange({ rowKey }: TenantState, row: ApiKeyRow, changes: Partial<ApiKeyRow>) {
  const changed = { ...row, ...changes }
  const metadata = {
    api_key_id: row.api_key_id,
    replaces: row.entry_id,
    changed: Object.keys(changes).sort().join(' '),
    ...recordGrant(changed),
    ...recordGrantBefore(row, changed),
  }
  return {
    entries: [{ action: 'api_key.update' as const, metadata }],
    change: async (transaction: Transaction, at: EntryPosition) => ({
      apiKey: await writeApiKey(transaction, { row, changes, at, rowKey }),
    }),
  }
}

/**
 * Makes an API key that is over its budget expire now; a person resumes it with another `expires_at`. `row` comes from
 * the state that is decided on.
 */
export function expireApiKey(row: ApiKeyRow): Operation<void> {
  return ({ state, services }) => {
    const now = services.now()
    if (apiKeyStatus(row, now) !== 'active') return { entries: [], release: () => undefined }
    const expires_at = new Date(now).toISOString()
    return decision({ ...recordedChange(state, row, { expires_at }), release: () => undefined })
  }
}

/**
 * Revokes an API key for good; one that is revoked stays so, without an entry. @throws Refusal E_NOT_FOUND
 */
export function revokeApiKey({ api_key_id }: { api_key_id: string }): Operation<void> {
  return async ({ state, caller }) => revocation(state, await getApiKey(state, api_key_id, caller))
}

/** Revokes the API key that calls, whatever keys it is limited to. */
export const revokeSelf: Operation<void> = ({ state, caller: { apiKey } }) => {
  if (!apiKey) throw new Error('only an API key revokes itself')
  return revocation(state, apiKey)
}

function revocation({ rowKey }: TenantState, row: ApiKeyRow): Decision<void> {
  if (row.revoked_at !== null) return { entries: [], release: () => undefined }
  return decision({
    entries: [{ action: 'api_key.revoke', metadata: { api_key_id: row.api_key_id, replaces: row.entry_id } }],
    change: async (transaction, at) => ({
      apiKey: await writeApiKey(transaction, { row, changes: { revoked_at: at.created_at }, at, rowKey }),
    }),
    release: () => undefined,
  })
}
