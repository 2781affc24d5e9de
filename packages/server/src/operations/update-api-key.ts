/**
 * api_key.update: an absent field is kept, `null` clears it, a value sets it. api_key.revoke, which cannot be
 * undone.
 */
import { DETAILS, type wire } from '@eaas/protocol'
import { decision, type Operation } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import type { ApiKeyRow } from '../store/api-keys.js'
import { assertGrantable, getApiKey, readAllowedIps, readExpiry, viewApiKey, writeApiKey } from './shared/api-key.js'
import { recordGrant, recordGrantBefore } from './shared/recorded-values.js'

/** Updates an API key. @throws Refusal E_VALIDATION, E_NOT_FOUND, E_STATE, E_MISSING_PERMISSION */
export function updateApiKey({
  api_key_id,
  changes,
}: {
  api_key_id: string
  changes: wire.UpdateApiKey
}): Operation<wire.ApiKey> {
  return async ({ state, caller, services }) => {
    const now = services.now()
    const wanted: Partial<ApiKeyRow> = {
      ...(changes.name === undefined ? {} : { name: changes.name }),
      ...(changes.permissions === undefined ? {} : { permissions: [...new Set(changes.permissions)] }),
      ...(changes.expires_at === undefined ? {} : { expires_at: readExpiry(changes.expires_at, now) }),
      ...(changes.allowed_ips === undefined ? {} : { allowed_ips: readAllowedIps(changes.allowed_ips) }),
    }
    const row = await getApiKey(state, api_key_id)
    if (row.revoked_at !== null) throw new Refusal('E_STATE', DETAILS.E_STATE.apiKey)
    const added = (wanted.permissions ?? []).filter((permission) => !row.permissions.includes(permission))
    assertGrantable(caller, added)
    if (Object.keys(wanted).length === 0) return { entries: [], release: () => viewApiKey(row, now) }
    const changed = { ...row, ...wanted }
    return decision({
      entries: [
        {
          action: 'api_key.update',
          metadata: {
            api_key_id,
            replaces: row.entry_id,
            changed: Object.keys(wanted).sort().join(' '),
            ...recordGrant(changed),
            ...recordGrantBefore(row, changed),
          },
        },
      ],
      async change(transaction, at) {
        return { apiKey: await writeApiKey(transaction, { row, changes: wanted, at, rowKey: state.rowKey }) }
      },
      release: ({ apiKey }) => viewApiKey(apiKey, services.now()),
    })
  }
}

/**
 * Revokes an API key for good; one that is revoked stays so, without an entry. @throws Refusal E_NOT_FOUND
 */
export function revokeApiKey({ api_key_id }: { api_key_id: string }): Operation<void> {
  return async ({ state }) => {
    const row = await getApiKey(state, api_key_id)
    if (row.revoked_at !== null) return { entries: [], release: () => undefined }
    return {
      entries: [{ action: 'api_key.revoke', metadata: { api_key_id, replaces: row.entry_id } }],
      async change(transaction, at) {
        const changes = { revoked_at: at.created_at }
        return { apiKey: await writeApiKey(transaction, { row, changes, at, rowKey: state.rowKey }) }
      },
      release: () => undefined,
    }
  }
}
