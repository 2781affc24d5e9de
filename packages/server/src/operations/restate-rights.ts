/**
 * key.restate, api_key.restate, tenant.restate: before a purge takes the last entry about a row that grants rights, another entry says
 * what the row says. So the log has an entry about each row, an older row is refused at use however old it is, and what an API key may do
 * is on record for every entry that is left. A few rows at a time, because calls wait meanwhile.
 */
import { assertWritten, TamperedRowError, tenantMac, withMac } from '../audit/formats/row-mac.js'
import type { WrittenRows } from '../runner/opened-keys.js'
import { decision, type EntryNote, type EntryPosition, type Operation } from '../runner/operation.js'
import type { TenantState } from '../runner/tenant-state.js'
import { listRightsThrough, type Right } from '../store/audit-retention.js'
import type { Transaction } from '../store/db.js'
import { updateTenant } from '../store/tenants.js'
import type { VerifyOnce } from './purge-audit.js'
import { getApiKey, writeApiKey } from './shared/api-key.js'
import { writeKey } from './shared/key-rows.js'
import { getKey } from './shared/key-states.js'
import { recordGrant } from './shared/recorded-values.js'

/** Rows that are restated in one transaction. */
const MOST_ROWS = 100

export interface RestateOptions {
  /** the last entry that will be purged */
  through_id: number
  /** the verification of the log that the purge relies on */
  verify: VerifyOnce
}

/** A row to restate: its entry, and how it is written with the id of that entry. */
interface Restatement {
  entry: EntryNote & { metadata: { replaces: number } }
  write(sql: Transaction, at: EntryPosition): Promise<WrittenRows>
}

/**
 * Restates rows whose last entry will be purged; to be called until it restates none. Returns how many. @throws TamperedRowError if a row is not the one that
 * was verified
 */
export function restateRights({ through_id, verify }: RestateOptions): Operation<number> {
  return async ({ state, services, sql }) => {
    const { tenant_id } = state.tenant
    const { writtenBy, last_id } = await verify(services, state)
    // The purge takes no entry that was written after the verification.
    const written = { tenant_id, through_id: Math.min(through_id, last_id) }
    const due = await listRightsThrough(sql, { ...written, limit: MOST_ROWS })
    const rows: Restatement[] = []
    for (const right of due) {
      const row = await restatementOf(state, right)
      const { replaces } = row.entry.metadata
      if (replaces > written.through_id) continue // another process has written it since
      // Somebody may put a row back, and hide its newest entry, between the verification and now.
      if (writtenBy.get(right.name) !== replaces) throw putBackSince(tenant_id, right.name, replaces)
      rows.push(row)
    }
    if (rows.length === 0) return { entries: [], release: () => 0 }
    return decision({
      entries: rows.map(({ entry }) => entry),
      async change(transaction, at) {
        const restated: WrittenRows[] = []
        for (const [number, row] of rows.entries()) {
          restated.push(await row.write(transaction, { ...at, entry_id: at.entry_id + number }))
        }
        return { ...restated.find(({ tenant }) => tenant), restated }
      },
      release: () => rows.length,
    })
  }
}

async function restatementOf(state: TenantState, { kind, id }: Right): Promise<Restatement> {
  const { rowKey } = state
  switch (kind) {
    case 'key': {
      const { row } = await getKey(state, id)
      const { key_id, current_version: key_version, status, rotation_interval_days: interval_days, destroy_at } = row
      const metadata = { status, interval_days, destroy_at, replaces: row.entry_id }
      return {
        entry: { action: 'key.restate', key_id, key_version, metadata },
        write: async (sql, at) => ({ key: await writeKey(sql, { row, changes: {}, at, rowKey }) }),
      }
    }
    case 'api key': {
      const row = await getApiKey(state, id)
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

function putBackSince(tenant_id: string, name: string, entry_id: number): TamperedRowError {
  return new TamperedRowError(
    `an older row of ${name} of tenant ${tenant_id} was put back outside the server while its log was purged: it names entry ${entry_id}`,
  )
}
