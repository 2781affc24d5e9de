/** Opens keys from their rows. */

import type { KeyObject } from 'node:crypto'
import { wrappedKeyAad } from '@eaas/protocol'
import { authentic, keyMac, keyVersionMac, TamperedRowError } from '../audit/row-mac.js'
import { openSecret } from '../crypto/key-hierarchy.js'
import type { Queryable } from '../store/db.js'
import { findKey, type KeyRow, type KeyVersionRow, listKeyVersions } from '../store/keys.js'
import { mapInStretches } from '../turn.js'

/** Versions that are read at once. */
const PAGE_VERSIONS = 250

/** One version of a key; `kek` is undefined once it is destroyed. */
export interface OpenKeyVersion {
  row: KeyVersionRow
  kek: KeyObject | undefined
  /** the AAD that a wrapped key of this version is bound to */
  aad: Uint8Array
}

/** A key with its secrets opened. */
export interface OpenKey {
  row: KeyRow
  versions: ReadonlyMap<number, OpenKeyVersion>
  /** undefined once the key is destroyed */
  hashKey: KeyObject | undefined
}

/** Loads a key. @throws TamperedRowError */
export async function loadKey(
  { sql, rootKey, rowKey, tenant_id }: { sql: Queryable; rootKey: KeyObject; rowKey: KeyObject; tenant_id: string },
  key_id: string,
): Promise<OpenKey | undefined> {
  const found = await findKey(sql, tenant_id, key_id)
  if (!found) return undefined
  const row = authentic(found, keyMac, rowKey)
  const versions: OpenKeyVersion[] = []
  for (let rows = PAGE_VERSIONS; rows === PAGE_VERSIONS; ) {
    const page = { after: versions.at(-1)?.row.version ?? 0, limit: PAGE_VERSIONS }
    const found = await listKeyVersions(sql, row, page)
    const open = (version: KeyVersionRow) => openVersion(rootKey, authentic(version, keyVersionMac, rowKey))
    versions.push(...(await mapInStretches(found, open)))
    rows = found.length
  }
  assertVersions(row, versions)
  return { row, versions: byNumber(versions), hashKey: openHashKey(rootKey, row) }
}

/** Opens a key from the rows of all of its versions, or an already open key from those that changed. */
export function openKey(
  rootKey: KeyObject,
  { row, versions, known }: { row: KeyRow; versions: readonly KeyVersionRow[]; known?: OpenKey | undefined },
): OpenKey {
  return {
    row,
    versions: new Map([
      ...(known?.versions ?? []),
      ...byNumber(versions.map((version) => openVersion(rootKey, version))),
    ]),
    hashKey: openHashKey(rootKey, row, known),
  }
}

function byNumber(versions: readonly OpenKeyVersion[]): Map<number, OpenKeyVersion> {
  return new Map(versions.map((version) => [version.row.version, version]))
}

function openHashKey(
  rootKey: KeyObject,
  { tenant_id, key_id: id, wrapped_hash_key }: KeyRow,
  known?: OpenKey,
): KeyObject | undefined {
  if (wrapped_hash_key === null) return undefined
  return known?.hashKey ?? openSecret(rootKey, { purpose: 'hash-key', tenant_id, id }, wrapped_hash_key)
}

function openVersion(rootKey: KeyObject, row: KeyVersionRow): OpenKeyVersion {
  const { tenant_id, key_id: id, version, wrapped_kek } = row
  return {
    row,
    kek:
      wrapped_kek === null ? undefined : openSecret(rootKey, { purpose: 'kek', tenant_id, id, version }, wrapped_kek),
    aad: wrappedKeyAad(tenant_id, id, version),
  }
}

// A hidden version would escape destruction, and its wrapped keys would seem forged. A rotation between the two reads adds a version beyond
// the current one; no version is ever removed.
function assertVersions({ tenant_id, key_id, current_version }: KeyRow, versions: readonly OpenKeyVersion[]): void {
  const known = versions.filter(({ row: { version } }) => version >= 1 && version <= current_version)
  if (known.length === current_version) return
  throw new TamperedRowError(`a version of key ${key_id} of tenant ${tenant_id} was deleted outside the server`)
}
