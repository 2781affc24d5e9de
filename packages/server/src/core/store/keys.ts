import { type KeyListParts, MAX_NAME_CHARACTERS, type wire } from '@eaas/protocol'
import { assertInserted, exists, type Fragment, type PageOf, type Queryable, type Transaction } from './db.js'
import { writeArray, writeBytes } from './entry-columns.js'
import { newestEntryOfKey, type WithNewestEntry } from './newest-entry.js'
import { onlyRow } from './tampered-row.js'

export interface KeyRow {
  tenant_id: string
  key_id: string
  name: string
  algorithm: string
  status: wire.KeyStatus
  current_version: number
  /** wrapped keys of older versions no longer open */
  min_unwrap_version: number
  /** since when these versions are closed; null if min_unwrap_version never changed */
  min_unwrap_since: string | null
  /** this version and all before it are destroyed; 0 for none */
  destroyed_through: number
  rotation_interval_days: number | null
  next_rotation_at: string | null
  destroy_at: string | null
  wrapped_hash_key: Uint8Array | null
  created_at: string
  updated_at: string
  entry_id: number
  mac: Uint8Array
}

export type KeyPlace = Pick<KeyRow, 'tenant_id' | 'key_id'>
type RecordedKey = WithNewestEntry<KeyRow>

export interface KeyVersionRow {
  tenant_id: string
  key_id: string
  version: number
  status: wire.VersionStatus
  wrapped_kek: Uint8Array | null
  created_at: string
  entry_id: number
  mac: Uint8Array
}

export interface NewKeyRow extends KeyRow {
  status: 'active'
  current_version: 1
  min_unwrap_version: 1
  min_unwrap_since: null
  destroyed_through: 0
  rotation_interval_days: null
  next_rotation_at: null
  destroy_at: null
  wrapped_hash_key: Uint8Array
}

export type NewKeyVersionRow = KeyVersionRow & { status: 'active'; wrapped_kek: Uint8Array }

export async function insertKeys(sql: Transaction, tenant_id: string, rows: readonly NewKeyRow[]): Promise<void> {
  const result = await sql`
    insert into keys (tenant_id, key_id, name, algorithm, status, current_version, wrapped_hash_key, created_at,
                      updated_at, entry_id, mac)
    select ${tenant_id}, k.key_id, k.name, k.algorithm, 'active', 1, k.wrapped_hash_key, k.created_at, k.updated_at,
           k.entry_id, k.mac
    from unnest(
      ${writeArray(rows.map(({ key_id }) => key_id))}::uuid[], ${rows.map(({ name }) => name)}::text[],
      ${rows.map(({ algorithm }) => algorithm)}::text[],
      ${writeBytes(rows.map(({ wrapped_hash_key }) => wrapped_hash_key))}::bytea[],
      ${writeArray(rows.map(({ created_at }) => created_at))}::timestamptz[],
      ${writeArray(rows.map(({ updated_at }) => updated_at))}::timestamptz[],
      ${writeArray(rows.map(({ entry_id }) => entry_id))}::bigint[], ${writeBytes(rows.map(({ mac }) => mac))}::bytea[]
    ) as k (key_id, name, algorithm, wrapped_hash_key, created_at, updated_at, entry_id, mac)`
  assertInserted(result, 'keys', rows.length)
}

/**
 * Updates a key's columns that can change; returns whether the row exists. Erases or keeps the sealed secret, but never
 * writes one: it may have been sealed again since the row was read.
 */
export async function updateKey(sql: Transaction, row: KeyRow): Promise<boolean> {
  const result = await sql`
    update keys
    set status = ${row.status}, current_version = ${row.current_version}, min_unwrap_version = ${row.min_unwrap_version},
        min_unwrap_since = ${row.min_unwrap_since}, destroyed_through = ${row.destroyed_through},
        rotation_interval_days = ${row.rotation_interval_days}, next_rotation_at = ${row.next_rotation_at},
        destroy_at = ${row.destroy_at}, wrapped_hash_key = ${row.wrapped_hash_key === null ? sql`null` : sql`wrapped_hash_key`}, updated_at = ${row.updated_at},
        entry_id = ${row.entry_id}, mac = ${row.mac}
    where tenant_id = ${row.tenant_id} and key_id = ${row.key_id}`
  return result.count === 1
}

export async function insertKeyVersions(
  sql: Transaction,
  tenant_id: string,
  rows: readonly NewKeyVersionRow[],
): Promise<void> {
  const result = await sql`
    insert into key_versions (tenant_id, key_id, version, status, wrapped_kek, created_at, entry_id, mac)
    select ${tenant_id}, v.key_id, v.version, 'active', v.wrapped_kek, v.created_at, v.entry_id, v.mac
    from unnest(
      ${writeArray(rows.map(({ key_id }) => key_id))}::uuid[], ${writeArray(rows.map(({ version }) => version))}::integer[],
      ${writeBytes(rows.map(({ wrapped_kek }) => wrapped_kek))}::bytea[],
      ${writeArray(rows.map(({ created_at }) => created_at))}::timestamptz[],
      ${writeArray(rows.map(({ entry_id }) => entry_id))}::bigint[], ${writeBytes(rows.map(({ mac }) => mac))}::bytea[]
    ) as v (key_id, version, wrapped_kek, created_at, entry_id, mac)`
  assertInserted(result, 'key_versions', rows.length)
}

/** Updates as `updateKey` does; returns whether all rows exist. */
export async function updateKeyVersions(
  sql: Transaction,
  tenant_id: string,
  rows: readonly KeyVersionRow[],
): Promise<boolean> {
  const result = await sql`
    update key_versions as t
    set status = v.status, wrapped_kek = case when v.is_erased = 0 then t.wrapped_kek end, entry_id = v.entry_id, mac = v.mac
    from unnest(
      ${writeArray(rows.map(({ key_id }) => key_id))}::uuid[], ${writeArray(rows.map(({ version }) => version))}::integer[],
      ${writeArray(rows.map(({ status }) => status))}::text[],
      ${writeArray(rows.map(({ wrapped_kek }) => (wrapped_kek === null ? 1 : 0)))}::integer[],
      ${writeArray(rows.map(({ entry_id }) => entry_id))}::bigint[], ${writeBytes(rows.map(({ mac }) => mac))}::bytea[]
    ) as v (key_id, version, status, is_erased, entry_id, mac)
    where t.tenant_id = ${tenant_id} and t.key_id = v.key_id and t.version = v.version`
  return result.count === rows.length
}

export async function findKey(sql: Queryable, tenant_id: string, key_id: string): Promise<RecordedKey | undefined> {
  const rows = await sql<RecordedKey[]>`
    select ${keyColumns(sql)}, ${newestEntryOfKey(sql, tenant_id)} from keys where tenant_id = ${tenant_id} and key_id = ${key_id}`
  return onlyRow(rows, `key ${key_id} of tenant ${tenant_id}`, { tenant_id, key_id })
}

/** Whether a key is on a list, by its id or by a folder of its name. */
export function isKeyListed(sql: Queryable, { tenant_id, key_id }: KeyPlace, list: KeyListParts): Promise<boolean> {
  const rows: Fragment = sql`
    select 1 from keys where tenant_id = ${tenant_id} and key_id = ${key_id} and ${isOnList(sql, list)}`
  return exists(sql, rows)
}

function isOnList(sql: Queryable, { ids, folders }: KeyListParts) {
  return sql`(key_id = any(${[...ids]}::uuid[]) or exists (
    select from pg_catalog.unnest(${[...folders]}::text[]) as f (folder) where pg_catalog.starts_with(keys.name, folder)))`
}

/** The names, among these, that keys of the tenant already have, whatever their status. */
export async function listTakenNames(sql: Queryable, tenant_id: string, of: readonly string[]): Promise<Set<string>> {
  const rows = await sql<{ name: string }[]>`
    select name from keys where tenant_id = ${tenant_id} and name = any(${[...of]}::text[])`
  return new Set(rows.map(({ name }) => name))
}

/** Counts keys of every status. */
export async function countKeys(sql: Queryable, tenant_id: string): Promise<number> {
  const [row] = await sql<{ keys: number }[]>`
    select pg_catalog.count(*)::integer as keys from keys where tenant_id = ${tenant_id}`
  if (!row) throw new Error('the keys could not be counted')
  return row.keys
}

/** How many keys and versions of a tenant hold key material. */
export async function countKeyMaterial(sql: Queryable, tenant_id: string): Promise<{ keys: number; versions: number }> {
  const [row] = await sql<{ keys: number; versions: number }[]>`
    select (select pg_catalog.count(*) from keys where tenant_id = ${tenant_id} and wrapped_hash_key is not null)::integer as keys,
           (select pg_catalog.count(*) from key_versions where tenant_id = ${tenant_id} and wrapped_kek is not null)::integer as versions`
  if (!row) throw new Error('the key material could not be counted')
  return row
}

export async function listKeyVersions(
  sql: Queryable,
  { tenant_id, key_id }: KeyPlace,
  { after, limit }: { after: number; limit: number },
): Promise<KeyVersionRow[]> {
  return sql<KeyVersionRow[]>`
    select ${versionColumns(sql)}
    from key_versions where tenant_id = ${tenant_id} and key_id = ${key_id} and version > ${after}
    order by version limit ${limit}`
}

/** A page of the versions of all of a tenant's keys, or all of them. */
export async function listTenantKeyVersions(
  sql: Queryable,
  tenant_id: string,
  { limit, after }: { limit?: number; after?: KeyVersionRow | undefined } = {},
): Promise<KeyVersionRow[]> {
  return sql<KeyVersionRow[]>`
    select ${versionColumns(sql)}
    from key_versions
    where tenant_id = ${tenant_id}
      ${after === undefined ? sql`` : sql`and (key_id, version) > (${after.key_id}, ${after.version})`}
    order by key_id, version limit ${limit ?? null}`
}

export interface KeyFilter {
  status?: wire.KeyStatus | undefined
  name?: string | undefined
  on?: KeyListParts | undefined
  limit?: number | undefined
  offset?: number | undefined
}

/** A page of the tenant's keys, oldest first, or all of them. */
export async function listKeys(
  sql: Queryable,
  tenant_id: string,
  { after, ...filter }: KeyFilter & { after?: KeyRow | undefined },
): Promise<KeyRow[]> {
  return sql<KeyRow[]>`
    select ${keyColumns(sql)} from keys
    where tenant_id = ${tenant_id}
      ${filter.status === undefined ? sql`` : sql`and status = ${filter.status}`}
      ${filter.name === undefined ? sql`` : sql`and name = ${filter.name}`}
      ${filter.on === undefined ? sql`` : sql`and ${isOnList(sql, filter.on)}`}
      ${after === undefined ? sql`` : sql`and (created_at, key_id) > (${after.created_at}, ${after.key_id})`}
    order by created_at, key_id
    limit ${filter.limit ?? null} offset ${filter.offset ?? 0}`
}

/** A key whose rotation or destruction has been due since `due_at`. */
export type DueKey = Pick<KeyRow, 'tenant_id' | 'key_id' | 'status'> & { due_at: string }

/**
 * A page of the keys that are due at a time, longest overdue first. Leaves out keys of suspended tenants, and rotations
 * of deleted tenants' keys.
 */
export async function listDueKeys(sql: Queryable, now: string, { after, limit }: PageOf<DueKey>): Promise<DueKey[]> {
  return sql<DueKey[]>`
    select tenant_id, key_id, status, coalesce(destroy_at, next_rotation_at) as due_at from keys
    where status in ('active', 'pending_destruction') and coalesce(destroy_at, next_rotation_at) <= ${now}
      and exists (
        select 1 from tenants where tenants.tenant_id = keys.tenant_id
          and (tenants.status = 'active' or tenants.status = 'deleted' and keys.status = 'pending_destruction')
      )
      ${after ? sql`and (coalesce(destroy_at, next_rotation_at), tenant_id, key_id) > (${after.due_at}, ${after.tenant_id}, ${after.key_id})` : sql``}
    order by coalesce(destroy_at, next_rotation_at), tenant_id, key_id limit ${limit}`
}

// As for tenants, at most one character or byte beyond what a server writes is read: a longer value breaks the row's MAC.
function keyColumns(sql: Queryable) {
  return sql`tenant_id, key_id, pg_catalog.substr(name, 1, ${MAX_NAME_CHARACTERS + 1}::integer) as name,
             pg_catalog.substr(algorithm, 1, 33) as algorithm, pg_catalog.substr(status, 1, 33) as status, current_version,
             min_unwrap_version, min_unwrap_since, destroyed_through, rotation_interval_days, next_rotation_at, destroy_at, pg_catalog.substr(wrapped_hash_key, 1, 256) as wrapped_hash_key,
             created_at, updated_at, entry_id, pg_catalog.substr(mac, 1, 33) as mac`
}

function versionColumns(sql: Queryable) {
  return sql`tenant_id, key_id, version, pg_catalog.substr(status, 1, 33) as status,
             pg_catalog.substr(wrapped_kek, 1, 256) as wrapped_kek, created_at, entry_id, pg_catalog.substr(mac, 1, 33) as mac`
}
