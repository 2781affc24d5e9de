import type { KeyObject } from 'node:crypto'
import type { wire } from '@eaas/protocol'
import type { EntryPosition } from '../audit/append/tenant-log.js'
import { assertWritten, keyMac, keyVersionMac, withMac } from '../audit/formats/row-mac.js'
import { mapInStretches } from '../event-loop.js'
import type { OpenKey, OpenKeyVersion } from '../runner/load-key.js'
import { type Decision, decision, type EntryNote } from '../runner/operation.js'
import type { TenantState } from '../runner/tenant-state.js'
import type { Transaction } from '../store/db.js'
import { type KeyRow, type KeyVersionRow, updateKey, updateKeyVersions } from '../store/keys.js'

const MS_PER_DAY = 86_400_000

/** A change of a row, the entry that records it, and the key of the row's MAC. */
export interface RowChange<Row> {
  row: Row
  changes: Partial<Row>
  at: Omit<EntryPosition, 'entry_hash'>
  rowKey: KeyObject
}

/** Decides to change only the key's row, and to answer with the changed key. */
export function changeKey(
  { rowKey }: TenantState,
  { row }: OpenKey,
  { entry, changes }: { entry: EntryNote; changes: (at: EntryPosition) => Partial<KeyRow> },
): Decision<wire.Key> {
  return decision({
    entries: [{ ...entry, metadata: { ...entry.metadata, replaces: row.entry_id } }],
    change: async (sql, at) => ({ key: await writeKey(sql, { row, changes: changes(at), at, rowKey }) }),
    release: ({ key }) => viewKey(key),
  })
}

/** Writes a key's changed columns, with the id of the entry; returns the row. @throws TamperedRowError if it is gone */
export async function writeKey(sql: Transaction, { row, changes, at, rowKey }: RowChange<KeyRow>): Promise<KeyRow> {
  const changed = withMac({ ...row, ...changes, updated_at: at.created_at, entry_id: at.entry_id }, keyMac, rowKey)
  assertWritten(await updateKey(sql, changed), changed)
  return changed
}

export const ERASED = { status: 'destroyed', wrapped_kek: null } as const

type VersionsChange = Omit<RowChange<KeyVersionRow>, 'row'> & { key: KeyRow; versions: readonly OpenKeyVersion[] }

/** Writes changed columns of any number of a key's versions, as `writeKey` does; returns the new rows. */
export async function writeKeyVersions(
  sql: Transaction,
  { key, versions, changes, at, rowKey }: VersionsChange,
): Promise<KeyVersionRow[]> {
  const changed = await mapInStretches(versions, ({ row }) =>
    withMac({ ...row, ...changes, entry_id: at.entry_id }, keyVersionMac, rowKey),
  )
  assertWritten(await updateKeyVersions(sql, key.tenant_id, changed), key)
  return changed
}

/** When the next rotation is due after a moment; null without a policy. */
export function nextRotation(interval_days: number | null, after: string): string | null {
  return interval_days === null ? null : daysLater(Date.parse(after), interval_days)
}

/** The time `days` days after `moment`, which is in milliseconds since 1970. */
export function daysLater(moment: number, days: number): string {
  return new Date(moment + days * MS_PER_DAY).toISOString()
}

/** The key as the API shows it. Some values appear under both of the names by which clients know them. */
export function viewKey(row: KeyRow): wire.Key {
  const { rotation_interval_days: interval_days, next_rotation_at } = row
  return {
    id: row.key_id,
    key_id: row.key_id,
    name: row.name,
    algorithm: 'AES-256-GCM',
    status: row.status,
    current_version: row.current_version,
    key_version: row.current_version,
    min_unwrap_version: row.min_unwrap_version,
    created_at: row.created_at,
    rotation: interval_days === null || next_rotation_at === null ? null : { interval_days, next_rotation_at },
    ...(row.destroy_at === null ? {} : { destroy_at: row.destroy_at }),
  }
}
