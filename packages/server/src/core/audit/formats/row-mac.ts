/** The MACs of the rows that grant rights (row-mac.md): tenants, keys, key versions, API keys. */
import type { KeyObject } from 'node:crypto'
import { hmac } from '../../crypto/hmac.js'
import type { ApiKeyRow } from '../../store/api-keys.js'
import type { KeyRow, KeyVersionRow } from '../../store/keys.js'
import { TamperedRowError } from '../../store/tampered-row.js'
import type { TenantRow } from '../../store/tenants.js'
import { equalBytes } from './chain.js'

type WithoutMac<Row> = Omit<Row, 'mac'>

// A MAC covers only whether there is a sealed secret (row-mac.md 1): the seal, bound to its row, changes with the store key.
function isPresent(sealed: Uint8Array | null): true | null {
  return sealed === null ? null : true
}

export function tenantMac(rowKey: KeyObject, row: WithoutMac<TenantRow>): Uint8Array {
  return rowMac(rowKey, 'tenants', [
    row.tenant_id,
    row.name,
    row.envelope_only,
    row.monthly_encrypt_quota,
    isPresent(row.wrapped_audit_key),
    row.created_at,
    row.entry_id,
    row.plaintext_encoding,
    row.status,
  ])
}

export function keyMac(rowKey: KeyObject, row: WithoutMac<KeyRow>): Uint8Array {
  return rowMac(rowKey, 'keys', [
    row.tenant_id,
    row.key_id,
    row.name,
    row.algorithm,
    row.status,
    row.current_version,
    row.rotation_interval_days,
    row.next_rotation_at,
    row.destroy_at,
    isPresent(row.wrapped_hash_key),
    row.created_at,
    row.updated_at,
    row.entry_id,
    row.min_unwrap_version,
    row.min_unwrap_since,
    row.destroyed_through,
  ])
}

export function keyVersionMac(rowKey: KeyObject, row: WithoutMac<KeyVersionRow>): Uint8Array {
  return rowMac(rowKey, 'key_versions', [
    row.tenant_id,
    row.key_id,
    row.version,
    row.status,
    isPresent(row.wrapped_kek),
    row.created_at,
    row.entry_id,
  ])
}

/** Leaves out `last_used_at`, and the number of the pepper, which the digest implies. */
export function apiKeyMac(rowKey: KeyObject, row: Omit<WithoutMac<ApiKeyRow>, 'last_used_at' | 'pepper'>): Uint8Array {
  return rowMac(rowKey, 'api_keys', [
    row.tenant_id,
    row.api_key_id,
    row.digest,
    row.name,
    row.prefix,
    row.permissions,
    row.allowed_ips,
    row.expires_at,
    row.revoked_at,
    row.created_at,
    row.entry_id,
    row.keys,
    row.budgets,
  ])
}

type Mac<Row> = (rowKey: KeyObject, row: Row) => Uint8Array

/**
 * Gives the row's bytes memory of their own: the driver puts them into Node's pool, and a kept row would keep 8 KiB of it.
 * @throws TamperedRowError if its MAC is not the server's
 */
export function authentic<Row extends { tenant_id: string; mac: Uint8Array }>(
  row: Row,
  mac: Mac<Row>,
  rowKey: KeyObject,
): Row {
  const tampering = findTampering(row, mac, rowKey)
  if (tampering) throw tampering
  const members: Record<string, unknown> = row
  for (const [name, bytes] of Object.entries(row)) {
    if (!(bytes instanceof Uint8Array)) continue
    const own = Buffer.allocUnsafeSlow(bytes.length)
    own.set(bytes)
    members[name] = own
  }
  return row
}

/** A row that was hidden during the change must not reappear unchanged. @throws TamperedRowError if there was no row */
export function assertWritten(written: boolean, { tenant_id }: { tenant_id: string }): void {
  if (!written) throw new TamperedRowError(`a row of tenant ${tenant_id} was deleted outside the server`)
}

/** Undefined if the row is as the server wrote it. */
export function findTampering<Row extends { tenant_id: string; mac: Uint8Array }>(
  row: Row,
  mac: Mac<Row>,
  rowKey: KeyObject,
): TamperedRowError | undefined {
  if (equalBytes(row.mac, mac(rowKey, row))) return undefined
  return new TamperedRowError(`${ROWS.get(mac) ?? 'a row'} of tenant ${row.tenant_id} was changed outside the server`)
}

export function withMac<Row>(row: Row, mac: Mac<Row>, rowKey: KeyObject): Row & { mac: Uint8Array } {
  return { ...row, mac: mac(rowKey, row) }
}

const ROWS: ReadonlyMap<unknown, string> = new Map<unknown, string>([
  [tenantMac, 'the row'],
  [keyMac, 'the row of a key'],
  [keyVersionMac, 'the row of a version of a key'],
  [apiKeyMac, 'the row of an API key'],
])

type Column = string | number | boolean | null | readonly string[]

function rowMac(rowKey: KeyObject, table: string, columns: readonly Column[]): Uint8Array {
  return hmac(rowKey, JSON.stringify(['eaas/row/v1', table, columns]))
}
