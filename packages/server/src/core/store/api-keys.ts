import { type HeldPermission, type KeyListParts, MAX_NAME_CHARACTERS } from '@eaas/protocol'
import { assertInserted, exists, type Fragment, type Queryable, type Transaction } from './db.js'
import { newestEntryOfApiKey, type WithNewestEntry } from './newest-entry.js'
import { onlyRow } from './tampered-row.js'

export interface ApiKeyRow {
  tenant_id: string
  api_key_id: string
  /** HMAC of the API key under the pepper, in hexadecimal */
  digest: string
  /** the number of that pepper; not covered by the MAC, since the digest is searched for under every pepper */
  pepper: number
  name: string
  prefix: string
  permissions: HeldPermission[]
  allowed_ips: string[]
  /** the ids and folders that it is limited to; null if it may use all keys */
  keys: string[] | null
  /** what it may open and hash, as text (protocol/api-key-limits.ts); null if it has no budget */
  budgets: string | null
  expires_at: string | null
  revoked_at: string | null
  created_at: string
  entry_id: number
  mac: Uint8Array
  /** accurate to about a minute; not covered by the MAC, so nothing may be decided by it */
  last_used_at: string | null
}

export async function insertApiKey(sql: Transaction, row: ApiKeyRow): Promise<void> {
  const result = await sql`
    insert into api_keys (tenant_id, api_key_id, digest, pepper, name, prefix, permissions, allowed_ips, keys, budgets, expires_at,
                          revoked_at, created_at, entry_id, mac)
    values (${row.tenant_id}, ${row.api_key_id}, ${row.digest}, ${row.pepper}, ${row.name}, ${row.prefix}, ${row.permissions},
            ${row.allowed_ips}, ${row.keys}, ${row.budgets}, ${row.expires_at}, ${row.revoked_at}, ${row.created_at}, ${row.entry_id},
            ${row.mac})`
  assertInserted(result, 'api_keys')
}

type Found = WithNewestEntry<ApiKeyRow> | undefined

export async function findApiKeyByDigest(sql: Queryable, tenant_id: string, digest: string): Promise<Found> {
  const rows = await sql<WithNewestEntry<ApiKeyRow>[]>`
    select ${columns(sql)}, ${newestEntryOfApiKey(sql, tenant_id)} from api_keys where tenant_id = ${tenant_id} and digest = ${digest}`
  return onlyRow(rows, `an API key of tenant ${tenant_id}`, { tenant_id, digest })
}

export async function findApiKey(sql: Queryable, tenant_id: string, api_key_id: string): Promise<Found> {
  const rows = await sql<WithNewestEntry<ApiKeyRow>[]>`
    select ${columns(sql)}, ${newestEntryOfApiKey(sql, tenant_id)} from api_keys where tenant_id = ${tenant_id} and api_key_id = ${api_key_id}`
  return onlyRow(rows, `API key ${api_key_id} of tenant ${tenant_id}`, { tenant_id, api_key_id })
}

interface ApiKeyPage {
  limit?: number
  offset?: number
  after?: ApiKeyRow | undefined
  /** if given, only API keys whose every listed key or folder lies within this list */
  within?: KeyListParts | undefined
}

export async function listApiKeys(
  sql: Queryable,
  tenant_id: string,
  { limit, offset, after, within }: ApiKeyPage = {},
): Promise<ApiKeyRow[]> {
  return sql<ApiKeyRow[]>`
    select ${columns(sql)} from api_keys
    where tenant_id = ${tenant_id}
      ${within === undefined ? sql`` : isWithin(sql, tenant_id, within)}
      ${after === undefined ? sql`` : sql`and (created_at, api_key_id) > (${after.created_at}, ${after.api_key_id})`}
    order by created_at, api_key_id limit ${limit ?? null} offset ${offset ?? 0}`
}

/** Whether each item of the row's list is an id or folder of the given list, or a key in such a folder. */
function isWithin(sql: Queryable, tenant_id: string, { ids, folders }: KeyListParts) {
  return sql`and pg_catalog.cardinality(keys) > 0 and not exists (
    select from pg_catalog.unnest(keys) as item (name)
    where item.name <> all(${[...ids]}::text[])
      and not exists (select from pg_catalog.unnest(${[...folders]}::text[]) as f (folder) where pg_catalog.starts_with(item.name, folder))
      and not exists (
        select from keys as k, pg_catalog.unnest(${[...folders]}::text[]) as f (folder)
        where k.tenant_id = ${tenant_id} and k.key_id::text = item.name and pg_catalog.starts_with(k.name, folder)))`
}

export function hasApiKey(sql: Queryable, tenant_id: string): Promise<boolean> {
  return exists(sql, sql`select 1 from api_keys where tenant_id = ${tenant_id} and revoked_at is null`)
}

/** Whether a tenant has `count` API keys that are neither revoked nor expired at a time. */
export function hasUsableApiKeys(
  sql: Queryable,
  tenant_id: string,
  { count, at }: { count: number; at: string },
): Promise<boolean> {
  const rows: Fragment = sql`
    select 1 from api_keys
    where tenant_id = ${tenant_id} and revoked_at is null and (expires_at is null or expires_at > ${at})
    offset ${count - 1}`
  return exists(sql, rows)
}

type Digest = Pick<ApiKeyRow, 'digest' | 'pepper' | 'mac'>

/** Locks an API key's row; returns its digest, which `renewDigest` may have replaced. */
export async function lockDigest(
  sql: Transaction,
  { tenant_id, api_key_id }: Pick<ApiKeyRow, 'tenant_id' | 'api_key_id'>,
): Promise<Digest | undefined> {
  const [row] = await sql<Digest[]>`
    select pg_catalog.substr(digest, 1, 65) as digest, pepper, pg_catalog.substr(mac, 1, 33) as mac from api_keys
    where tenant_id = ${tenant_id} and api_key_id = ${api_key_id} for update`
  return row
}

/** Updates an API key's columns that can change; returns whether the row exists. */
export async function updateApiKey(sql: Transaction, row: ApiKeyRow): Promise<boolean> {
  const result = await sql`
    update api_keys
    set name = ${row.name}, permissions = ${row.permissions}, allowed_ips = ${row.allowed_ips}, keys = ${row.keys},
        budgets = ${row.budgets}, expires_at = ${row.expires_at}, revoked_at = ${row.revoked_at}, entry_id = ${row.entry_id}, mac = ${row.mac}
    where tenant_id = ${row.tenant_id} and api_key_id = ${row.api_key_id}`
  return result.count === 1
}

/**
 * Writes when API keys were last used, in milliseconds since 1970, by API key id. A later stored time stays, unless it
 * is after `implausible`. Rows are locked in a fixed order, so that processes writing the same ones cannot deadlock.
 */
export async function noteUses(
  sql: Queryable,
  tenant_id: string,
  uses: ReadonlyMap<string, number>,
  implausible: number,
): Promise<void> {
  const ids = [...uses.keys()]
  const times = [...uses.values()].map((time) => new Date(time).toISOString())
  await sql`
    with locked as (
      select api_key_id from api_keys where tenant_id = ${tenant_id} and api_key_id = any(${ids}::uuid[])
      order by api_key_id for update
    )
    update api_keys as a set last_used_at = u.used_at
    from locked as l, unnest(${ids}::uuid[], ${times}::timestamptz[]) as u (api_key_id, used_at)
    where a.tenant_id = ${tenant_id} and a.api_key_id = l.api_key_id and u.api_key_id = l.api_key_id
      and (a.last_used_at is null or a.last_used_at < u.used_at or a.last_used_at > ${new Date(implausible).toISOString()})`
}

/** Above the size of an API key's longest lists in the database: 256 networks of IPv6, or all permissions. */
const MAX_LIST_BYTES = 16_384
/** Above the length of the longest budgets. */
const MAX_BUDGETS_CHARACTERS = 256

// As for tenants, at most one character or byte beyond what a server writes is read: a longer value breaks the row's MAC.
// Lists that are too long are not read. The size that is compared is that on disk, where compression reaches at best 1:250.
function columns(sql: Queryable) {
  return sql`api_key_id, tenant_id, pg_catalog.substr(digest, 1, 65) as digest, pepper,
             pg_catalog.substr(name, 1, ${MAX_NAME_CHARACTERS + 1}::integer) as name, pg_catalog.substr(prefix, 1, 65) as prefix,
             case when pg_catalog.pg_column_size(permissions) > ${MAX_LIST_BYTES} then '{}' else permissions end as permissions,
             case when pg_catalog.pg_column_size(allowed_ips) > ${MAX_LIST_BYTES} then '{}' else allowed_ips end as allowed_ips,
             case when pg_catalog.pg_column_size(keys) > ${MAX_LIST_BYTES} then '{}' else keys end as keys, pg_catalog.substr(budgets, 1, ${MAX_BUDGETS_CHARACTERS + 1}::integer) as budgets,
             expires_at, revoked_at, created_at, entry_id, pg_catalog.substr(mac, 1, 33) as mac, last_used_at`
}
