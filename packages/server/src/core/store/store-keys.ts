/** The rows of store keys, and of the secrets that are sealed under them. */
import type { Queryable, Transaction } from './db.js'
import { writeArray, writeBytes } from './entry-columns.js'

/**
 * How long every process has to read a new store key or pepper before one uses it, in seconds. A process reads
 * them each second.
 */
export const LEARN_SECONDS = 10
/** How long a server may refuse a new store key: its refusal is committed before anything is sealed under that. */
const REFUSE_SECONDS = LEARN_SECONDS - 2

export interface StoreKeyRow {
  number: number
  /** the key and its number, wrapped by the provider of the root key */
  wrapped: Uint8Array
  created_at: string
}

/**
 * All store keys, oldest first; `may_seal` once every process has had the time to read it, unless one of them could not
 * open it. The oldest is never refused.
 */
export function listStoreKeys(sql: Queryable): Promise<(StoreKeyRow & { may_seal: boolean; is_refused: boolean })[]> {
  return sql`
    with k as (
      select s.number, pg_catalog.substr(s.wrapped, 1, 65536) as wrapped, s.created_at,
             s.number = pg_catalog.min(s.number) over () as is_oldest,
             s.refused_at is not null as has_refusal
      from store_keys s
    )
    select number, wrapped, created_at, has_refusal and not is_oldest as is_refused,
           is_oldest or (created_at + ${LEARN_SECONDS} * interval '1 second' <= pg_catalog.clock_timestamp()
                         and not has_refusal) as may_seal
    from k
    order by number`
}

/** Refuses the store keys after a number, which this server cannot open, unless they may have sealed something. */
export async function refuseStoreKeysAfter(sql: Queryable, number: number): Promise<void> {
  await sql`
    update store_keys set refused_at = pg_catalog.clock_timestamp()
    where number > ${number} and refused_at is null
      and created_at + ${REFUSE_SECONDS} * interval '1 second' > pg_catalog.clock_timestamp()`
}

/** Inserts a store key, dated by the database's clock; false if its number is taken. */
export async function insertStoreKey(
  sql: Transaction,
  { number, wrapped }: Pick<StoreKeyRow, 'number' | 'wrapped'>,
): Promise<boolean> {
  const result = await sql`
    insert into store_keys (number, wrapped, created_at) values (${number}, ${wrapped}, pg_catalog.clock_timestamp())
    on conflict (number) do nothing`
  return result.count === 1
}

/** Replaces how a store key is wrapped. */
export async function rewrapStoreKey(
  sql: Transaction,
  { number, wrapped }: Pick<StoreKeyRow, 'number' | 'wrapped'>,
): Promise<void> {
  await sql`update store_keys set wrapped = ${wrapped} where number = ${number}`
}

/** Deletes the store keys before a number. The database refuses it while a secret is sealed under one. */
export async function deleteStoreKeysBefore(sql: Transaction, number: number): Promise<void> {
  await sql`delete from store_keys where number < ${number}`
}

/**
 * Whether the database refused a row whose store key is gone, or the deletion of a store key that a row still needs.
 */
export function isStoreKeyGone(error: unknown): boolean {
  const { code, constraint_name } = (error ?? {}) as { code?: unknown; constraint_name?: unknown }
  return code === FOREIGN_KEY_VIOLATION && /_store_key_fkey$/.test(String(constraint_name))
}

const FOREIGN_KEY_VIOLATION = '23503'

/** How many rows have secrets that are sealed under each store key, oldest first. */
export function countSealed(sql: Queryable): Promise<{ number: number; created_at: string; rows: number }[]> {
  return sql`
    select k.number, k.created_at,
           ((select pg_catalog.count(*) from instance where store_key = k.number)
          + (select pg_catalog.count(*) from tenants where store_key = k.number)
          + (select pg_catalog.count(*) from keys where store_key = k.number)
          + (select pg_catalog.count(*) from key_versions where store_key = k.number))::integer as rows
    from store_keys as k order by k.number`
}

/** A secret in its row. */
export interface SealedRow {
  tenant_id: string
  /** the key; the tenant again where the row is the tenant's */
  id: string
  /** 0 where the row has no version */
  version: number
  sealed: Uint8Array
}

/** A secret that was sealed again. */
export interface ResealedRow extends SealedRow {
  resealed: Uint8Array
}

/** Where each secret of tenants is: table, columns that name the row, and what it is for. */
export const SEALED_TABLES = [
  { purpose: 'audit-key', table: 'tenants', column: 'wrapped_audit_key', id: 'tenant_id', version: undefined },
  { purpose: 'hash-key', table: 'keys', column: 'wrapped_hash_key', id: 'key_id', version: undefined },
  { purpose: 'kek', table: 'key_versions', column: 'wrapped_kek', id: 'key_id', version: 'version' },
] as const

type SealedTable = (typeof SEALED_TABLES)[number]

/** A page of the rows of a table whose secret is sealed under a store key before `number`, after the row `after`. */
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
    where store_key < ${number}
      ${after ? sql`and (tenant_id, ${sql(id)}, ${numbered}) > (${after.tenant_id}, ${after.id}, ${after.version})` : sql``}
    order by ${place} limit ${limit}`
}

/**
 * Writes secrets that were sealed again into their rows, in the order of the rows. A row whose secret has changed
 * meanwhile is left as it is. Returns how many were written.
 */
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

/** Where the MACs are of the rows that an audit key authenticates, apart from the tenant's own row. */
export const MAC_TABLES = {
  keys: { table: 'keys', id: 'key_id', version: undefined },
  versions: { table: 'key_versions', id: 'key_id', version: 'version' },
  apiKeys: { table: 'api_keys', id: 'api_key_id', version: undefined },
} as const

/** The new MAC of a row, and the one that it replaces. */
export interface RenewedMac {
  id: string
  /** 0 where the row has no version */
  version: number
  was: Uint8Array
  mac: Uint8Array
}

/** Replaces the MACs of a tenant's rows; returns how many. A row whose MAC has changed meanwhile is left as it is. */
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
