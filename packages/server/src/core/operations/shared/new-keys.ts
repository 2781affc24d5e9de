/** What creating one key and creating many share: their secrets and their rows. */
import { type KeyObject, randomUUID } from 'node:crypto'
import { DETAILS, folderOf, isListed, MAX_KEYS, wire } from '@eaas/protocol'
import { keyMac, keyVersionMac, withMac } from '../../audit/formats/row-mac.js'
import { sealNewSecret } from '../../crypto/key-hierarchy.js'
import { mapInStretches } from '../../event-loop.js'
import { type OpenKey, openKey } from '../../runner/load-key.js'
import type { Caller, Context, EntryNote, EntryPosition } from '../../runner/operation.js'
import { Refusal } from '../../runner/refusal.js'
import type { Transaction } from '../../store/db.js'
import { insertKeys, insertKeyVersions, type NewKeyRow, type NewKeyVersionRow } from '../../store/keys.js'

/** A key that is about to be created, with its secrets sealed under the store key. */
export interface NewKey {
  key_id: string
  name: string
  wrapped_kek: Uint8Array
  wrapped_hash_key: Uint8Array
}

/** Draws the id and the secrets of a new key; writes nothing. */
export function newKey({ state, services }: Context, name: string): NewKey {
  const { tenant_id } = state.tenant
  const key_id = randomUUID()
  return {
    key_id,
    name,
    wrapped_kek: sealNewSecret(services.storeKeys, { purpose: 'kek', tenant_id, id: key_id, version: 1 }),
    wrapped_hash_key: sealNewSecret(services.storeKeys, { purpose: 'hash-key', tenant_id, id: key_id }),
  }
}

/** The entry that records a new key. */
export function creationEntry({ key_id, name }: NewKey): EntryNote {
  return { action: 'key.create', key_id, key_version: 1, metadata: { folder: folderOf(name), name } }
}

/** Whether a caller may create a key of this name; a caller that is limited to keys may only in its own folders. */
export function mayCreate({ apiKey }: Caller, name: string): boolean {
  return !apiKey || isListed(apiKey.keys, { key_id: '', folder: folderOf(name) })
}

/** Refuses a name outside the folders of a caller that is limited to keys. */
export function outsideFolders(): Refusal {
  return new Refusal('E_MISSING_PERMISSION', DETAILS.E_MISSING_PERMISSION.createKey)
}

/** Writes the rows of new keys, whose entries begin at a position, in the same order; returns the keys. */
export async function writeNewKeys(
  { state, services }: Context,
  transaction: Transaction,
  { keys, at }: { keys: readonly NewKey[]; at: EntryPosition },
): Promise<OpenKey[]> {
  const { rowKey, tenant } = state
  const rows = await mapInStretches(keys.entries(), ([number, key]) => {
    const entry = { created_at: at.created_at, entry_id: at.entry_id + number }
    return rowsOf(key, { tenant_id: tenant.tenant_id, ...entry, rowKey })
  })
  await insertKeys(
    transaction,
    tenant.tenant_id,
    rows.map(({ row }) => row),
  )
  await insertKeyVersions(
    transaction,
    tenant.tenant_id,
    rows.map(({ version }) => version),
  )
  return mapInStretches(rows, ({ row, version }) => openKey(services.storeKeys, { row, versions: [version] }))
}

/** Refuses a name that another key of the tenant has, or had. */
export function nameTaken(): Refusal {
  return new Refusal('E_NAME_TAKEN', DETAILS.E_NAME_TAKEN.key)
}

/** Refuses a key beyond the limit. */
export function tooManyKeys(): Refusal {
  return new Refusal('E_LIMIT', DETAILS.E_LIMIT.keys(MAX_KEYS))
}

function rowsOf(
  { key_id, name, wrapped_kek, wrapped_hash_key }: NewKey,
  { rowKey, ...entry }: { tenant_id: string; created_at: string; entry_id: number; rowKey: KeyObject },
): { row: NewKeyRow; version: NewKeyVersionRow } {
  const unset = { rotation_interval_days: null, next_rotation_at: null, destroy_at: null }
  const state = {
    algorithm: wire.ALGORITHM,
    status: 'active' as const,
    current_version: 1 as const,
    min_unwrap_version: 1 as const,
    min_unwrap_since: null,
    destroyed_through: 0 as const,
  }
  const row = { key_id, name, ...state, ...unset, wrapped_hash_key, updated_at: entry.created_at, ...entry }
  const version = { key_id, version: 1, status: 'active' as const, wrapped_kek, ...entry }
  return { row: withMac(row, keyMac, rowKey), version: withMac(version, keyVersionMac, rowKey) }
}
