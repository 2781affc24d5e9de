/** Writing a changed key: its row, and those of its versions, with the id of the entry that tells of it. */
import type { KeyObject } from 'node:crypto'
import { assertWritten, keyMac, keyVersionMac, withMac } from '../audit/row-mac.js'
import type { EntryPlace } from '../runner/operation.js'
import type { Transaction } from '../store/db.js'
import { type KeyRow, type KeyVersionRow, updateKey, updateKeyVersion } from '../store/keys.js'

/** Writes what changed of a key; returns its new row. @throws TamperedRowError where there is none any more */
export async function writeKey(
  sql: Transaction,
  { row, changes, at, rowKey }: { row: KeyRow; changes: Partial<KeyRow>; at: EntryPlace; rowKey: KeyObject },
): Promise<KeyRow> {
  const changed = withMac({ ...row, ...changes, updated_at: at.created_at, entry_id: at.entry_id }, keyMac, rowKey)
  assertWritten(await updateKey(sql, changed), changed)
  return changed
}

/** Writes what changed of a key version; returns its new row. @throws TamperedRowError where there is none any more */
export async function writeKeyVersion(
  sql: Transaction,
  {
    row,
    changes,
    at,
    rowKey,
  }: { row: KeyVersionRow; changes: Partial<KeyVersionRow>; at: EntryPlace; rowKey: KeyObject },
): Promise<KeyVersionRow> {
  const changed = withMac({ ...row, ...changes, entry_id: at.entry_id }, keyVersionMac, rowKey)
  assertWritten(await updateKeyVersion(sql, changed), changed)
  return changed
}
