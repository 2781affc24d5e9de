/**
 * Compares the rows that grant rights with the log: each row carries the id of the entry that wrote it, which must be the last entry
 * that records a change of the row. A row with a valid MAC but an older entry id was put back from a backup.
 */
import type { KeyObject } from 'node:crypto'
import type { RightsRows } from '../store/audit-evidence.js'
import { type ChainedEntry, equalBytes } from './chain.js'
import { apiKeyMac, keyMac, keyVersionMac, tenantMac } from './row-mac.js'

export interface RowFault {
  fault: 'row_forged' | 'row_missing' | 'row_replaced'
  /** the entry that should have written the row; Infinity if there is none, because a forged row's own entry id is not believed */
  entry_id: number
}

export interface RowAudit {
  /** Records an entry; to be called for each entry, in order. */
  note(entry: ChainedEntry): void
  /** The id up to which entries were purged according to the last `audit.purge` entry; 0 if there is none. */
  purgedThrough(): number
  /**
   * Finds a row that does not follow from the entries; of several, the one whose entry comes first (chain.md 9). Of a row whose
   * entry was purged, only the MAC is checked.
   */
  findFault(rows: RightsRows, purged_through: number): RowFault | undefined
}

/** Creates the audit of one tenant's rows. */
export function createRowAudit(rowKey: KeyObject): RowAudit {
  /** the last entry that wrote each row, by a unique name of the row */
  const written = new Map<string, number>()
  let purged = 0

  return {
    note(entry) {
      if (entry.action === 'audit.purge') purged = Number(metadataOf(entry).purged_through ?? 0)
      for (const name of rowsWrittenBy(entry)) written.set(name, entry.id)
    },
    purgedThrough: () => purged,
    findFault(rows, purged_through) {
      const present = nameRows(rows, rowKey)
      const faults: RowFault[] = []
      for (const [name, entry_id] of written) {
        if (!present.has(name)) faults.push({ fault: 'row_missing', entry_id })
      }
      for (const [name, row] of present) {
        const expected = written.get(name)
        if (!row.isAuthentic) faults.push({ fault: 'row_forged', entry_id: expected ?? Number.POSITIVE_INFINITY })
        else if (expected === undefined ? row.entry_id > purged_through : row.entry_id !== expected) {
          faults.push({ fault: 'row_replaced', entry_id: expected ?? row.entry_id })
        }
      }
      return faults.sort((a, b) => (a.entry_id === b.entry_id ? 0 : a.entry_id - b.entry_id))[0]
    },
  }
}

/** The names of the rows whose change an entry records: `tenant`, `key <id>`, `key <id> version <n>`, `api key <id>`. */
export function rowsWrittenBy(entry: ChainedEntry): string[] {
  const { action, key_id, key_version, id } = entry
  const key = `key ${key_id}`
  const version = (number: number) => `${key} version ${number}`
  switch (action) {
    case 'key.create':
      return [key, version(1)]
    case 'key.rotate':
      return [key, version(key_version ?? 0), version((key_version ?? 0) - 1)]
    case 'key.destroy': {
      const { step, versions } = metadataOf(entry)
      const all = step === 'completed' ? Array.from({ length: Number(versions) }, (_, at) => version(at + 1)) : []
      return [key, ...all]
    }
    case 'key.enable':
    case 'key.disable':
    case 'key.rotation_policy':
      return [key]
    case 'api_key.create':
      // The first entry of a tenant creates the tenant's row too.
      return id === 1 ? [apiKeyName(entry), 'tenant'] : [apiKeyName(entry)]
    case 'api_key.update':
    case 'api_key.revoke':
      return [apiKeyName(entry)]
    case 'tenant.update':
      return ['tenant']
    default:
      return []
  }
}

function apiKeyName(entry: ChainedEntry): string {
  return `api key ${metadataOf(entry).api_key_id}`
}

interface NamedRow {
  entry_id: number
  isAuthentic: boolean
}

function nameRows({ tenant, keys, versions, apiKeys }: RightsRows, rowKey: KeyObject): Map<string, NamedRow> {
  const named = new Map<string, NamedRow>()
  const add = <Row extends { entry_id: number; mac: Uint8Array }>(
    name: string,
    row: Row,
    mac: (rowKey: KeyObject, row: Row) => Uint8Array,
  ) => named.set(name, { entry_id: row.entry_id, isAuthentic: equalBytes(row.mac, mac(rowKey, row)) })
  if (tenant) add('tenant', tenant, tenantMac)
  for (const row of keys) add(`key ${row.key_id}`, row, keyMac)
  for (const row of versions) add(`key ${row.key_id} version ${row.version}`, row, keyVersionMac)
  for (const row of apiKeys) add(`api key ${row.api_key_id}`, row, apiKeyMac)
  return named
}

function metadataOf({ metadata }: ChainedEntry): Record<string, unknown> {
  const value: unknown = metadata === null ? null : JSON.parse(metadata)
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}
