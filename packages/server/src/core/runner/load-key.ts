/**
 * Loads keys: authenticates their rows and opens the secrets in them. api/key-use.ts decides which states allow a call.
 */
import type { KeyObject } from 'node:crypto'
import { OpenError, wrappedKeyAad } from '@eaas/protocol'
import { authentic, keyMac, keyVersionMac } from '../audit/formats/row-mac.js'
import { versionStatus } from '../audit/verify/row-audit.js'
import { openSecret, type SecretBinding, type StoreKeys } from '../crypto/key-hierarchy.js'
import { mapInStretches } from '../event-loop.js'
import type { Queryable } from '../store/db.js'
import { findKey, type KeyRow, type KeyVersionRow, listKeyVersions } from '../store/keys.js'
import { findPutBack } from '../store/newest-entry.js'
import { TamperedRowError } from '../store/tampered-row.js'

/** How many versions to read at once: so few that the driver parses them in about a millisecond. */
const PAGE_VERSIONS = 200

/** A version of a key; `kek` is undefined once it is destroyed. */
export type OpenKeyVersion = { row: KeyVersionRow; kek: KeyObject | undefined; aad: Uint8Array }

export interface OpenKey {
  row: KeyRow
  versions: ReadonlyMap<number, OpenKeyVersion>
  /** undefined once the key is destroyed */
  hashKey: KeyObject | undefined
}

export function nameVersion({ key_id, current_version }: Pick<KeyRow, 'key_id' | 'current_version'>): string {
  return `${key_id} ${current_version}`
}

export type KeySource = { sql: Queryable; storeKeys: StoreKeys; rowKey: KeyObject; tenant_id: string }

/**
 * `written` is the entry of the key's row if this transaction wrote it, since the log does not have that entry yet.
 * @throws TamperedRowError
 */
export async function loadKey(source: KeySource, key_id: string, written?: number): Promise<OpenKey | undefined> {
  for (;;) {
    const row = await findRow(source, key_id, written)
    if (!row) return undefined
    const versions = await loadVersions(source, row)
    if (areVersionsOf(row, versions))
      return { row, versions: byNumber(versions), hashKey: openHashKey(source.storeKeys, row) }
    // If the key did not change between the two reads, a version was changed outside the server.
    const again = await findRow(source, key_id, written)
    if (again?.entry_id === row.entry_id) {
      throw new TamperedRowError(
        `a version of key ${key_id} of tenant ${row.tenant_id} was deleted or put back outside the server`,
      )
    }
  }
}

async function findRow(
  { sql, rowKey, tenant_id }: KeySource,
  key_id: string,
  written: number | undefined,
): Promise<KeyRow | undefined> {
  const found = await findKey(sql, tenant_id, key_id)
  if (!found) return undefined
  const { newest_entry, ...row } = authentic(found, keyMac, rowKey)
  const putBack = findPutBack({ ...row, newest_entry: written ?? newest_entry }, `key ${key_id}`)
  if (putBack) throw putBack
  return row
}

async function loadVersions({ sql, storeKeys, rowKey }: KeySource, row: KeyRow): Promise<OpenKeyVersion[]> {
  const versions: OpenKeyVersion[] = []
  for (let rows = PAGE_VERSIONS; rows === PAGE_VERSIONS; ) {
    const page = { after: versions.at(-1)?.row.version ?? 0, limit: PAGE_VERSIONS }
    const found = await listKeyVersions(sql, row, page)
    const open = (version: KeyVersionRow) => openVersion(storeKeys, authentic(version, keyVersionMac, rowKey))
    versions.push(...(await mapInStretches(found, open)))
    rows = found.length
  }
  return versions
}

/** Opens a key from the rows of all its versions, or updates an open key from those that changed. */
export function openKey(
  storeKeys: StoreKeys,
  { row, versions, known }: { row: KeyRow; versions: readonly KeyVersionRow[]; known?: OpenKey | undefined },
): OpenKey {
  return {
    row,
    versions: new Map([
      ...(known?.versions ?? []),
      ...byNumber(versions.map((version) => openVersion(storeKeys, version, known))),
    ]),
    hashKey: openHashKey(storeKeys, row, known),
  }
}

function byNumber(versions: readonly OpenKeyVersion[]): Map<number, OpenKeyVersion> {
  return new Map(versions.map((version) => [version.row.version, version]))
}

function openHashKey(
  storeKeys: StoreKeys,
  { tenant_id, key_id: id, wrapped_hash_key: sealed }: KeyRow,
  known?: OpenKey,
): KeyObject | undefined {
  return openOwn(storeKeys, { purpose: 'hash-key', tenant_id, id }, { sealed, known: known?.hashKey })
}

function openVersion(storeKeys: StoreKeys, row: KeyVersionRow, knownKey?: OpenKey): OpenKeyVersion {
  const { tenant_id, key_id: id, version, wrapped_kek: sealed } = row
  const known = knownKey?.versions.get(version)?.kek
  const kek = openOwn(storeKeys, { purpose: 'kek', tenant_id, id, version }, { sealed, known })
  return { row, kek, aad: wrappedKeyAad(tenant_id, id, version) }
}

function openOwn(
  storeKeys: StoreKeys,
  binding: SecretBinding,
  { sealed, known }: { sealed: Uint8Array | null; known: KeyObject | undefined },
): KeyObject | undefined {
  if (sealed === null) return undefined
  if (known) return known // the seal in the row may be under a store key that is gone
  try {
    return openSecret(storeKeys, binding, sealed)
  } catch (error) {
    if (!(error instanceof OpenError)) throw error
    const { id, tenant_id } = binding
    throw new TamperedRowError(`a secret of key ${id} of tenant ${tenant_id} was changed outside the server`)
  }
}

// A hidden version would escape destruction. Each version is written once for each of its states, and the row of the
// key says in which state it is. So an older row of a version is recognized without the log.
function areVersionsOf(key: KeyRow, versions: readonly OpenKeyVersion[]): boolean {
  return (
    versions.length === key.current_version &&
    versions.every(
      ({ row: { key_id, version, status } }, at) =>
        key_id === key.key_id && version === at + 1 && status === versionStatus(key, version),
    )
  )
}
