/** The rows that rotations of the root key and the store key change: sealed secrets, and MACs under new keys. */
import type { PurgeMark } from '../../core/audit/formats/chain.js'
import type { Queryable, Transaction } from '../../core/store/db.js'
import { writeArray, writeBytes } from '../../core/store/entry-columns.js'
import type { KeyRow } from '../../core/store/keys.js'
import type { StoreKeyRow } from '../../core/store/store-keys.js'

export async function rewrapStoreKey(
  sql: Transaction,
  { number, wrapped }: Pick<StoreKeyRow, 'number' | 'wrapped'>,
): Promise<void> {
  await sql`update store_keys set wrapped = ${wrapped} where number = ${number}`
}

/** Deletes the store keys before a number. The database refuses that while a secret is sealed under one. */
export async function deleteStoreKeysBefore(sql: Transaction, number: number): Promise<void> {
  await sql`delete from store_keys where number < ${number}`
}

export interface SealedRow {
  tenant_id: string
  id: string // the key; for the tenant's own row, the tenant
  version: number // 0 if the row has no version
  sealed: Uint8Array
}

export type ResealedRow = SealedRow & { resealed: Uint8Array }

export const SEALED_TABLES = [
  { purpose: 'audit-key', table: 'tenants', column: 'wrapped_audit_key', id: 'tenant_id', version: undefined },
  { purpose: 'hash-key', table: 'keys', column: 'wrapped_hash_key', id: 'key_id', version: undefined },
  { purpose: 'kek', table: 'key_versions', column: 'wrapped_kek', id: 'key_id', version: 'version' },
  { purpose: 'api-key-pepper', table: 'tenant_peppers', column: 'wrapped_pepper', id: 'tenant_id', version: 'number' },
] as const

type SealedTable = (typeof SEALED_TABLES)[number]

/** A page of a table's rows whose secret is not sealed under the store key `number` or a later one, after the row `after`. */
export function listSealedBefore(
  sql: Queryable,
  { table, column, id, version }: SealedTable,
  { number, after, limit }: { number: number; after: SealedRow | undefined; limit: number },
): Promise<SealedRow[]> {
  const numbered = version === undefined ? sql`0::integer` : sql(version)
  const place = version === undefined ? sql`tenant_id, ${sql(id)}` : sql`tenant_id, ${sql(id)}, ${sql(version)}`
  return sql<SealedRow[]>`
    select tenant_id, ${sql(id)} as id, ${numbered} as version, pg_catalog.substr(${sql(column)}, 1, 256) as sealed
    from ${sql(table)}
    where ${isSealedBefore(sql, number)}
      ${after ? sql`and (tenant_id, ${sql(id)}, ${numbered}) > (${after.tenant_id}, ${after.id}, ${after.version})` : sql``}
    order by ${place} limit ${limit}`
}

/** How many rows that is in all tables, with the installation's own row. */
export async function countSealedBefore(sql: Queryable, number: number): Promise<number> {
  let count = 0
  for (const table of ['instance', ...SEALED_TABLES.map((each) => each.table)]) {
    const [row] = await sql<{ rows: number }[]>`
      select pg_catalog.count(*)::integer as rows from ${sql(table)} where ${isSealedBefore(sql, number)}`
    count += row?.rows ?? 0
  }
  return count
}

// Only somebody who turns the foreign keys off can name a store key that does not exist; its secret may need an old one.
function isSealedBefore(sql: Queryable, number: number) {
  return sql`(store_key < ${number} or store_key not in (select number from store_keys))`
}

/** Writes secrets that were sealed again, unless they have changed meanwhile; returns how many it wrote. */
export async function writeResealed(
  sql: Queryable,
  { table, column, id, version }: SealedTable,
  rows: readonly ResealedRow[],
): Promise<number> {
  const result = await sql`
    update ${sql(table)} as t set ${sql(column)} = n.resealed
    from unnest(
      ${writeArray(rows.map(({ tenant_id }) => tenant_id))}::uuid[], ${writeArray(rows.map((row) => row.id))}::uuid[],
      ${writeArray(rows.map((row) => row.version))}::integer[], ${writeBytes(rows.map(({ sealed }) => sealed))}::bytea[],
      ${writeBytes(rows.map(({ resealed }) => resealed))}::bytea[]
    ) as n (tenant_id, id, version, sealed, resealed)
    where t.tenant_id = n.tenant_id and t.${sql(id)} = n.id
      ${version === undefined ? sql`` : sql`and t.${sql(version)} = n.version`} and t.${sql(column)} = n.sealed`
  return result.count
}

/** Where to find the MACs of the rows that an audit key authenticates, except the tenant's own row. */
export const MAC_TABLES = {
  keys: { table: 'keys', id: 'key_id', version: undefined },
  versions: { table: 'key_versions', id: 'key_id', version: 'version' },
  apiKeys: { table: 'api_keys', id: 'api_key_id', version: undefined },
} as const

export type RenewedMac = { id: string; version: number; was: Uint8Array; mac: Uint8Array }

/** Replaces the MACs of a tenant's rows; returns how many. Leaves a row whose MAC has changed meanwhile. */
export async function replaceMacs(
  sql: Transaction,
  { table, id, version }: (typeof MAC_TABLES)[keyof typeof MAC_TABLES],
  tenant_id: string,
  macs: readonly RenewedMac[],
): Promise<number> {
  const result = await sql`
    update ${sql(table)} as t set mac = n.mac
    from unnest(
      ${writeArray(macs.map((row) => row.id))}::uuid[], ${writeArray(macs.map((row) => row.version))}::integer[],
      ${writeBytes(macs.map(({ was }) => was))}::bytea[], ${writeBytes(macs.map(({ mac }) => mac))}::bytea[]
    ) as n (id, version, was, mac)
    where t.tenant_id = ${tenant_id} and t.${sql(id)} = n.id
      ${version === undefined ? sql`` : sql`and t.${sql(version)} = n.version`} and t.mac = n.was`
  return result.count
}

/** Replaces a tenant's sealed audit keys, and the MAC of its row; false if they have changed meanwhile. */
export async function replaceAuditKey(
  sql: Queryable,
  was: { tenant_id: string; wrapped_audit_key: Uint8Array; mac: Uint8Array },
  next: { wrapped_audit_key: Uint8Array; mac: Uint8Array },
): Promise<boolean> {
  const result = await sql`
    update tenants set wrapped_audit_key = ${next.wrapped_audit_key}, mac = ${next.mac}
    where tenant_id = ${was.tenant_id} and wrapped_audit_key = ${was.wrapped_audit_key} and mac = ${was.mac}`
  return result.count === 1
}

/** Replaces the secrets of the installation's row; false if they have changed meanwhile. */
export async function resealInstance(sql: Queryable, was: InstanceSecrets, next: InstanceSecrets): Promise<boolean> {
  const result = await sql`
    update instance
    set wrapped_pepper = ${next.wrapped_pepper}, wrapped_signing_key = ${next.wrapped_signing_key},
        wrapped_audit_key = ${next.wrapped_audit_key}, wrapped_former_pepper = ${next.wrapped_former_pepper},
        pepper_since = ${next.pepper === was.pepper ? sql`pepper_since` : sql`pg_catalog.statement_timestamp()`},
        pepper = ${next.pepper}
    where id = 1 and pepper = ${was.pepper} and wrapped_pepper = ${was.wrapped_pepper} and wrapped_signing_key = ${was.wrapped_signing_key}
      and wrapped_audit_key = ${was.wrapped_audit_key} and wrapped_former_pepper is not distinct from ${was.wrapped_former_pepper}`
  return result.count === 1
}

/** The secrets of the installation's row, which are all sealed under one store key. */
export interface InstanceSecrets {
  pepper: number // the number of the pepper; the database's clock dates a new one
  wrapped_pepper: Uint8Array
  wrapped_former_pepper: Uint8Array | null
  wrapped_signing_key: Uint8Array
  wrapped_audit_key: Uint8Array
}

/** A page of the keys whose current version an earlier store key seals. Their MACs say which are rotated. */
export function listKeysUnderEarlier(
  sql: Queryable,
  { number, after, limit }: { number: number; after: Pick<KeyRow, 'tenant_id' | 'key_id'> | undefined; limit: number },
): Promise<Pick<KeyRow, 'tenant_id' | 'key_id'>[]> {
  return sql<Pick<KeyRow, 'tenant_id' | 'key_id'>[]>`
    select k.tenant_id, k.key_id from keys as k
    join key_versions as v on v.tenant_id = k.tenant_id and v.key_id = k.key_id and v.version = k.current_version
    where v.store_key < ${number}
      ${after ? sql`and (k.tenant_id, k.key_id) > (${after.tenant_id}, ${after.key_id})` : sql``}
    order by k.tenant_id, k.key_id limit ${limit}`
}

export async function replaceMark(sql: Transaction, mark: PurgeMark): Promise<void> {
  await sql`
    update purge_marks set previous_mac = ${mark.previous_mac}, mac = ${mark.mac}
    where tenant_id = ${mark.tenant_id} and purged_through = ${mark.purged_through}`
}
