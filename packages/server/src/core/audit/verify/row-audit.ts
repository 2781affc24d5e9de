/**
 * Compares the rows that grant rights with the log: the entry whose id a row carries must be the last one that changed
 * the row. A row with a valid MAC but an older entry id was restored from a backup.
 */
import type { KeyObject } from 'node:crypto'
import { type ChainedEntry, entryHash, readMetadata } from '@eaas/audit/formats'
import { opens, type SecretBinding, type StoreKeys } from '../../crypto/key-hierarchy.js'
import { readChain } from '../../store/audit.js'
import type { RightsRows } from '../../store/audit-evidence.js'
import type { Queryable } from '../../store/db.js'
import type { KeyRow, KeyVersionRow } from '../../store/keys.js'
import { opensAuditKey } from '../audit-key.js'
import { type AuditKey, equalBytes, type Head, isHeadAuthentic, type Witness } from '../formats/chain.js'
import { apiKeyMac, keyMac, keyVersionMac, tenantMac } from '../formats/row-mac.js'

interface RowFault {
  fault: 'row_forged' | 'row_missing' | 'row_replaced'
  /** the entry that should have written the row; Infinity if there is none, as a forged row's own entry id is not trusted */
  entry_id: number
}

/** The last entry that wrote each row that grants rights, by the name of the row (`rowsWrittenBy`). */
export type WrittenBy = ReadonlyMap<string, number>

export function createRowAudit(rowKey: KeyObject, storeKeys: StoreKeys) {
  const written = new Map<string, number>()
  let purged = 0

  return {
    /** Call it for each entry, in order. */
    note(entry: ChainedEntry): void {
      if (entry.action === 'audit.purge') purged = Number(readMetadata(entry).purged_through ?? 0)
      for (const name of rowsWrittenBy(entry)) written.set(name, entry.id)
    },
    /** The last entry that purges deleted, according to the last `audit.purge` entry; 0 if there is none. */
    purgedThrough: (): number => purged,
    /**
     * Of several faults, returns the one whose entry comes first (chain.md 9). A version whose entry was purged needs
     * only a valid MAC, and the status that the row of its key requires.
     */
    findFault(rows: RightsRows, purged_through: number): RowFault | undefined {
      const present = nameRows(rows, rowKey, storeKeys)
      const faults: RowFault[] = []
      for (const [name, entry_id] of written) {
        if (!present.has(name)) faults.push({ fault: 'row_missing', entry_id })
      }
      for (const [name, row] of present) {
        const expected = written.get(name)
        if (!row.isAuthentic) faults.push({ fault: 'row_forged', entry_id: expected ?? Number.POSITIVE_INFINITY })
        else if (
          expected === undefined ? !isVersion(name) || row.entry_id > purged_through : row.entry_id !== expected
        ) {
          faults.push({ fault: 'row_replaced', entry_id: expected ?? row.entry_id })
        }
      }
      const sound = (name: string) => {
        const row = present.get(name)
        return row?.isAuthentic && (written.get(name) ?? row.entry_id) === row.entry_id
      }
      for (const key of rows.keys) {
        const name = `key ${key.key_id}`
        if (!sound(name)) continue
        for (let version = 1; version <= key.current_version; version++) {
          const isMissing = !present.has(`${name} version ${version}`) && !written.has(`${name} version ${version}`)
          if (isMissing) faults.push({ fault: 'row_missing', entry_id: written.get(name) ?? Number.POSITIVE_INFINITY })
        }
      }
      const keys = new Map(rows.keys.map((key) => [key.key_id, key]))
      for (const { key_id, version, status, entry_id } of rows.versions) {
        const key = keys.get(key_id)
        const name = `key ${key_id} version ${version}`
        if (!key || !sound(`key ${key_id}`) || !sound(name) || status === versionStatus(key, version)) continue
        faults.push({ fault: 'row_replaced', entry_id: written.get(name) ?? entry_id })
      }
      return faults.sort((a, b) => (a.entry_id === b.entry_id ? 0 : a.entry_id - b.entry_id))[0]
    },
  }
}

/** The status by the row of its key; undefined if the key has no such version (chain.md 9). */
export function versionStatus(
  { status, current_version, destroyed_through }: Pick<KeyRow, 'status' | 'current_version' | 'destroyed_through'>,
  version: number,
): KeyVersionRow['status'] | undefined {
  if (version < 1 || version > current_version) return undefined
  if (status === 'destroyed' || version <= destroyed_through) return 'destroyed'
  return version === current_version ? 'active' : 'retired'
}

/** One array for all entries that change nothing, which most entries are. */
const NO_ROWS: readonly string[] = []

/** `tenant`, `key <id>`, `key <id> version <n>`, `api key <id>`: the rows whose change an entry records. */
function rowsWrittenBy(entry: ChainedEntry): readonly string[] {
  const { action, key_id, key_version, id } = entry
  const key = `key ${key_id}`
  const version = (number: number) => `${key} version ${number}`
  switch (action) {
    case 'key.create':
      return [key, version(1)]
    case 'key.rotate':
      return [key, version(key_version ?? 0), version((key_version ?? 0) - 1)]
    case 'key.destroy': {
      const { step, versions, version: one } = readMetadata(entry)
      if (step === 'version') return [key, version(Number(one))]
      const all = step === 'completed' ? Array.from({ length: Number(versions) }, (_, at) => version(at + 1)) : []
      return [key, ...all]
    }
    case 'key.update':
    case 'key.enable':
    case 'key.disable':
    case 'key.rotation_policy':
    case 'key.restate':
      return [key]
    case 'api_key.create':
      // The first entry of a tenant also creates the tenant's row.
      return id === 1 ? [apiKeyName(entry), 'tenant'] : [apiKeyName(entry)]
    case 'api_key.update':
    case 'api_key.revoke':
    case 'api_key.restate':
      return [apiKeyName(entry)]
    case 'tenant.update':
    case 'tenant.restate':
      return ['tenant']
    default:
      return NO_ROWS
  }
}

/** A purge does not restate versions, since their state follows from the row of their key. */
function isVersion(name: string): boolean {
  return name.startsWith('key ') && name.includes(' version ')
}

function apiKeyName(entry: ChainedEntry): string {
  return `api key ${readMetadata(entry).api_key_id}`
}

export function writersOf({ tenant, keys, apiKeys }: RightsRows): WrittenBy {
  return new Map([
    ...(tenant ? [['tenant', tenant.entry_id] as const] : []),
    ...keys.map(({ key_id, entry_id }) => [`key ${key_id}`, entry_id] as const),
    ...apiKeys.map(({ api_key_id, entry_id }) => [`api key ${api_key_id}`, entry_id] as const),
  ])
}

type NamedRow = { entry_id: number; isAuthentic: boolean }

// A row is as the server wrote it if its MAC is right and its sealed secret opens for this row.
function nameRows(
  { tenant, keys, versions, apiKeys }: RightsRows,
  rowKey: KeyObject,
  storeKeys: StoreKeys,
): Map<string, NamedRow> {
  const named = new Map<string, NamedRow>()
  const add = <Row extends { entry_id: number; mac: Uint8Array }>(
    name: string,
    row: Row,
    mac: (rowKey: KeyObject, row: Row) => Uint8Array,
    secret?: { binding: SecretBinding; sealed: Uint8Array | null },
  ) => {
    const isAuthentic =
      equalBytes(row.mac, mac(rowKey, row)) &&
      (!secret || secret.sealed === null || opens(storeKeys, secret.binding, secret.sealed))
    named.set(name, { entry_id: row.entry_id, isAuthentic })
  }
  if (tenant) {
    const isAuthentic = equalBytes(tenant.mac, tenantMac(rowKey, tenant)) && opensAuditKey(storeKeys, tenant)
    named.set('tenant', { entry_id: tenant.entry_id, isAuthentic })
  }
  for (const row of keys) {
    const { tenant_id, key_id: id, wrapped_hash_key: sealed } = row
    add(`key ${id}`, row, keyMac, { binding: { purpose: 'hash-key', tenant_id, id }, sealed })
  }
  for (const row of versions) {
    const { tenant_id, key_id: id, version, wrapped_kek: sealed } = row
    const binding = { purpose: 'kek', tenant_id, id, version } as const
    add(`key ${id} version ${version}`, row, keyVersionMac, { binding, sealed })
  }
  for (const row of apiKeys) add(`api key ${row.api_key_id}`, row, apiKeyMac)
  return named
}

/** The most entries to read: beyond that, loading all rows in use again is faster. */
const MOST_ENTRIES = 512

/**
 * Finds the rows that other processes wrote between two heads; undefined if any row may have changed. The entries must
 * lead from one head to the other, so an attacker who can only write to the database cannot hide a change.
 */
export async function findRowsWritten(
  sql: Queryable,
  { known, head, auditKey }: { known: Witness; head: Head; auditKey: AuditKey },
): Promise<{ keys: ReadonlySet<string>; apiKeys: ReadonlySet<string>; tenant: boolean } | undefined> {
  const { tenant_id } = head
  const entries = head.last_id - known.last_id
  if (entries < 1 || entries > MOST_ENTRIES || !isHeadAuthentic(auditKey, head)) return undefined
  const range = { tenant_id, after_id: known.last_id, through_id: head.last_id, limit: entries }
  const stretch = await readChain(sql, range)
  const hash = stretch.reduce(entryHash, known.hash)
  if (!equalBytes(hash, head.hash)) return undefined
  const changes = stretch.filter((entry) => entry.action === 'audit.purge' || rowsWrittenBy(entry).length > 0)
  // A renewal of the audit key (chain.md 14) and actions of newer releases also raise the version: any row may differ.
  if (changes.length !== head.policy_version - known.policy_version) return undefined
  const names = new Set(changes.flatMap(rowsWrittenBy))
  const idsOf = (kind: string) => {
    const own = [...names].filter((name) => name.startsWith(kind))
    return new Set(own.map((name) => name.slice(kind.length).split(' ', 1).join()))
  }
  return {
    keys: idsOf('key '),
    apiKeys: idsOf('api key '),
    tenant: names.has('tenant') || changes.some(({ action }) => action === 'audit.purge'),
  }
}
