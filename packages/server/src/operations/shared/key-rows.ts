/** What the operations on keys share: its parts, its changes, and its view. */
import type { KeyObject } from 'node:crypto'
import { DETAILS, OpenError, type wire } from '@eaas/protocol'
import { assertWritten, keyMac, keyVersionMac, withMac } from '../../audit/formats/row-mac.js'
import { unwrapDek, wrappedKeyVersion } from '../../crypto/wrapped-key.js'
import type { OpenKey, OpenKeyVersion } from '../../runner/load-key.js'
import { type Decision, decision, type EntryNote, type EntryPosition } from '../../runner/operation.js'
import { Refusal } from '../../runner/refusal.js'
import type { TenantState } from '../../runner/tenant-state.js'
import type { Transaction } from '../../store/db.js'
import { type KeyRow, type KeyVersionRow, updateKey, updateKeyVersion } from '../../store/keys.js'

const MS_PER_DAY = 86_400_000

/** The current version of a key, with its KEK. */
export function currentVersion(key: OpenKey): OpenKeyVersion & { kek: NonNullable<OpenKeyVersion['kek']> } {
  const version = key.versions.get(key.row.current_version)
  if (!version?.kek) throw new Error(`key ${key.row.key_id} has no KEK for its current version`)
  return { ...version, kek: version.kek }
}

/**
 * Opens a wrapped key with the version that it names. The caller zeroes the DEK. @throws Refusal
 * E_WRAPPED_KEY
 */
export function openWrappedKey(key: OpenKey, wrapped_key: string): { dek: Uint8Array; version: number } {
  const opened = tryWrappedKey(key, wrapped_key)
  if (!opened) throw new Refusal('E_WRAPPED_KEY', DETAILS.E_WRAPPED_KEY.wrappedKey)
  return opened
}

/**
 * Opens a wrapped key with the version that it names; undefined if it is not authentic for this key. The
 * caller zeroes the DEK.
 */
export function tryWrappedKey(key: OpenKey, wrapped_key: string): { dek: Uint8Array; version: number } | undefined {
  try {
    const wrapped = Buffer.from(wrapped_key, 'base64') // no secret, so it may be in memory that Buffers share
    const version = wrappedKeyVersion(wrapped)
    if (wrapped.toString('base64') !== wrapped_key) throw new OpenError() // not canonical
    const { kek, aad } = key.versions.get(version) ?? {}
    return kek && aad && { dek: unwrapDek(kek, aad, wrapped), version }
  } catch (error) {
    if (!(error instanceof OpenError)) throw error
    return undefined
  }
}

/** Decides to change the key's row alone, and to answer with the changed key. */
export function changeKey(
  { rowKey }: TenantState,
  { row }: OpenKey,
  { entry, changes }: { entry: EntryNote; changes: (at: Omit<EntryPosition, 'entry_hash'>) => Partial<KeyRow> },
): Decision<wire.Key> {
  return decision({
    entries: [{ ...entry, metadata: { ...entry.metadata, replaces: row.entry_id } }],
    change: async (sql, at) => ({ key: await writeKey(sql, { row, changes: changes(at), at, rowKey }) }),
    release: ({ key }) => viewKey(key),
  })
}

/**
 * Writes a key's changed columns, with the id of the entry that records the change; returns the new row.
 * @throws TamperedRowError if the row is gone
 */
export async function writeKey(
  sql: Transaction,
  {
    row,
    changes,
    at,
    rowKey,
  }: { row: KeyRow; changes: Partial<KeyRow>; at: Omit<EntryPosition, 'entry_hash'>; rowKey: KeyObject },
): Promise<KeyRow> {
  const changed = withMac({ ...row, ...changes, updated_at: at.created_at, entry_id: at.entry_id }, keyMac, rowKey)
  assertWritten(await updateKey(sql, changed), changed)
  return changed
}

/**
 * Writes a key version's changed columns, as `writeKey` does; returns the new row. @throws TamperedRowError
 * if the row is gone
 */
export async function writeKeyVersion(
  sql: Transaction,
  {
    row,
    changes,
    at,
    rowKey,
  }: { row: KeyVersionRow; changes: Partial<KeyVersionRow>; at: Omit<EntryPosition, 'entry_hash'>; rowKey: KeyObject },
): Promise<KeyVersionRow> {
  const changed = withMac({ ...row, ...changes, entry_id: at.entry_id }, keyVersionMac, rowKey)
  assertWritten(await updateKeyVersion(sql, changed), changed)
  return changed
}

/** When the next rotation is due after a moment; null without a policy. */
export function nextRotation(interval_days: number | null, after: string): string | null {
  return interval_days === null ? null : daysLater(Date.parse(after), interval_days)
}

/** The time some days after a moment, which is in milliseconds since 1970. */
export function daysLater(moment: number, days: number): string {
  return new Date(moment + days * MS_PER_DAY).toISOString()
}

/** The key as the API shows it. Clients know some values under two names, so they appear under both. */
export function viewKey(row: KeyRow): wire.Key {
  return {
    id: row.key_id,
    key_id: row.key_id,
    name: row.name,
    algorithm: 'AES-256-GCM',
    status: row.status,
    current_version: row.current_version,
    key_version: row.current_version,
    created_at: row.created_at,
    rotation:
      row.rotation_interval_days === null || row.next_rotation_at === null
        ? null
        : { interval_days: row.rotation_interval_days, next_rotation_at: row.next_rotation_at },
    ...(row.destroy_at === null ? {} : { destroy_at: row.destroy_at }),
  }
}
