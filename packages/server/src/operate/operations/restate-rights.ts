// key.restate, api_key.restate, tenant.restate: before a purge deletes the last entry about a row that grants rights,
// another entry states the row again. So an older row is refused at use however old it is, and the rights of an API key
// are on record for every remaining entry. Restates a few rows at a time, since calls wait.
import { folderOf } from '@eaas/protocol'
import { recordGrant } from '../../core/api/api-key-grants.js'
import { getApiKey, writeApiKey } from '../../core/api/api-keys.js'
import { writeKey } from '../../core/api/key-rows.js'
import { getKey } from '../../core/api/key-use.js'
import type { EntryPosition } from '../../core/audit/append/tenant-log.js'
import { assertWritten, tenantMac, withMac } from '../../core/audit/formats/row-mac.js'
import type { WrittenRows } from '../../core/runner/opened-keys.js'
import { type Caller, decision, type EntryNote, type Operation } from '../../core/runner/operation.js'
import type { TenantState } from '../../core/runner/tenant-state.js'
import type { Transaction } from '../../core/store/db.js'
import { updateTenant } from '../../core/store/tenants.js'
import { listRightsThrough, type Right } from '../store/purge.js'

const MOST_ROWS = 100 // in one transaction

interface Restatement {
  entry: EntryNote
  write(sql: Transaction, at: Omit<EntryPosition, 'entry_hash'>): Promise<WrittenRows>
}

/** Restates rows whose last entry has at most this id; returns their number. Call it until it restates none. */
export function restateRights({ through_id }: { through_id: number }): Operation<number> {
  return async ({ state, caller, sql }) => {
    const { tenant_id } = state.tenant
    const due = await listRightsThrough(sql, { tenant_id, through_id, limit: MOST_ROWS })
    const rows: Restatement[] = []
    for (const right of due) rows.push(await restatementOf(state, caller, right))
    if (rows.length === 0) return { entries: [], release: () => 0 }
    return decision({
      entries: rows.map(({ entry }) => entry),
      async change(transaction, { entry_id, created_at }) {
        const restated: WrittenRows[] = []
        for (const [number, row] of rows.entries()) {
          restated.push(await row.write(transaction, { entry_id: entry_id + number, created_at }))
        }
        return { ...restated.find(({ tenant }) => tenant), restated }
      },
      release: () => rows.length,
    })
  }
}

async function restatementOf(state: TenantState, caller: Caller, { kind, id }: Right): Promise<Restatement> {
  const { rowKey } = state
  switch (kind) {
    case 'key': {
      const { row } = await getKey(state, id)
      const { key_id, current_version: key_version, status, rotation_interval_days: interval_days, destroy_at } = row
      const { min_unwrap_version, destroyed_through } = row
      const least = min_unwrap_version === 1 ? {} : { min_unwrap_version } // chain.md 12
      const destroyed = destroyed_through === 0 ? {} : { destroyed_through }
      const named = { name: row.name, folder: folderOf(row.name) }
      const lifecycle = { status, interval_days, destroy_at, ...least, ...destroyed }
      const metadata = { ...named, ...lifecycle, replaces: row.entry_id }
      return {
        entry: { action: 'key.restate', key_id, key_version, metadata },
        write: async (sql, at) => ({ key: await writeKey(sql, { row, changes: {}, at, rowKey }) }),
      }
    }
    case 'api key': {
      const row = await getApiKey(state, id, caller)
      const { api_key_id, revoked_at, entry_id: replaces } = row
      return {
        entry: { action: 'api_key.restate', metadata: { api_key_id, ...recordGrant(row), revoked_at, replaces } },
        write: async (sql, at) => ({ apiKey: await writeApiKey(sql, { row, changes: {}, at, rowKey }) }),
      }
    }
    case 'tenant': {
      const { status, envelope_only, monthly_encrypt_quota, plaintext_encoding, entry_id: replaces } = state.tenant
      const settings = { status, envelope_only, monthly_encrypt_quota, plaintext_encoding }
      return {
        entry: { action: 'tenant.restate', metadata: { ...settings, replaces } },
        async write(sql, { entry_id }) {
          const tenant = withMac({ ...state.tenant, entry_id }, tenantMac, rowKey)
          assertWritten(await updateTenant(sql, tenant), tenant)
          return { tenant }
        },
      }
    }
  }
}
