import type { ChainedEntry } from '@eaas/audit/formats'
import type { Action, LogAction } from '@eaas/protocol'
import type { Head } from '../audit/formats/chain.js'
import { assertInserted, exists, type Fragment, type Queryable, readInteger, readTime, type Transaction } from './db.js'
import { onlyRow } from './tampered-row.js'

/** The key id under which entries without a key are counted. */
export const NIL_UUID = '00000000-0000-0000-0000-000000000000'

/**
 * The columns of a head `h`. An attacker who writes rows can make a value as long as memory, and heads are read each
 * second. So a hash or MAC is read to one byte beyond its length, at which it already differs.
 */
export function headColumns(sql: Queryable) {
  return sql`h.tenant_id, h.last_id, pg_catalog.substr(h.hash, 1, 33) as hash, h.policy_version, h.created_at,
    pg_catalog.substr(h.mac, 1, 33) as mac`
}

export async function findHead(sql: Queryable, tenant_id: string): Promise<Head | undefined> {
  return onlyRow(await listTenantHeads(sql, tenant_id), `the head of tenant ${tenant_id}`)
}

/** Reads at most two heads; there is a second one only if the primary key was dropped. */
export function listTenantHeads(sql: Queryable, tenant_id: string): Promise<Head[]> {
  return sql<Head[]>`select ${headColumns(sql)} from heads h where h.tenant_id = ${tenant_id} limit 2`
}

/** Locks the head until the transaction ends. @throws TamperedRowError if there are several */
export async function lockHead(sql: Transaction, tenant_id: string): Promise<Head | undefined> {
  const rows = await sql<Head[]>`
    select ${headColumns(sql)} from heads h where h.tenant_id = ${tenant_id} limit 2 for update`
  return onlyRow(rows, `the head of tenant ${tenant_id}`)
}

export function listHeads(sql: Queryable): Promise<Head[]> {
  return sql<Head[]>`select ${headColumns(sql)} from heads h order by h.tenant_id`
}

export async function insertHead(sql: Transaction, head: Head): Promise<void> {
  const result = await sql`
    insert into heads (tenant_id, last_id, hash, policy_version, created_at, mac)
    values (${head.tenant_id}, ${head.last_id}, ${head.hash}, ${head.policy_version}, ${head.created_at}, ${head.mac})`
  assertInserted(result, 'heads')
}

export async function findEntryHash(sql: Queryable, tenant_id: string, id: number): Promise<Uint8Array | undefined> {
  const rows = await sql<{ hash: Uint8Array }[]>`
    select hash from audit_log where tenant_id = ${tenant_id} and id = ${id}`
  return onlyRow(rows, `entry ${id} of tenant ${tenant_id}`)?.hash
}

/** `metadata` is also null if it is longer than any that a server writes. */
export type ToldEntry = { id: number; action: string; metadata: string | null }

/** Which entries to list, in order: after an id, with one of the actions, and with metadata that contains the text. */
type Told = { actions: readonly LogAction[]; text?: string | undefined; after_id: number; limit: number }

export function listEntriesOf(
  sql: Queryable,
  tenant_id: string,
  { actions, text = '', after_id, limit }: Told,
): Promise<ToldEntry[]> {
  return sql<ToldEntry[]>`
    select id, action, metadata from (
      select id, action,
             case when pg_catalog.octet_length(metadata) <= ${MAX_METADATA}::integer then metadata end as metadata
      from audit_log
      where tenant_id = ${tenant_id} and action = any(${[...actions]}::text[])
        and id / 4096 >= ${after_id}::bigint / 4096 and id > ${after_id}
    ) as told
    where metadata is null or pg_catalog.strpos(metadata, ${text}) > 0
    order by id limit ${limit}`
}

/** Whether there is an entry from a day on, `YYYY-MM-DD` in UTC, whose metadata has these texts. */
export async function hasEntrySince(
  sql: Queryable,
  { tenant_id, action, day, texts }: { tenant_id: string; action: LogAction; day: string; texts: readonly string[] },
): Promise<boolean> {
  const rows: Fragment = sql`
    select from audit_log
    where tenant_id = ${tenant_id} and action = ${action} and created_at >= ${day}::date::timestamp at time zone 'UTC'
      and not exists (
        select from pg_catalog.unnest(${[...texts]}::text[]) as t (text) where pg_catalog.strpos(audit_log.metadata, t.text) = 0)`
  return exists(sql, rows)
}

/** The largest id of a tenant's entries, including entries that no server wrote; 0 if there are none. */
export async function findLastId(sql: Queryable, tenant_id: string): Promise<number> {
  const [row] = await sql<{ id: number }[]>`
    select id from audit_log where tenant_id = ${tenant_id} order by id desc limit 1`
  return row?.id ?? 0
}

/** The smallest id of a tenant's entries, including entries that no server wrote; at most 1. */
export async function findFirstId(sql: Queryable, tenant_id: string): Promise<number> {
  const [row] = await sql<{ id: number }[]>`
    select id from audit_log where tenant_id = ${tenant_id} and id < 1 order by id limit 1`
  return row?.id ?? 1
}

/** In bytes. The longest metadata that a server writes is of a change of an API key, with its lists twice. */
export const MAX_METADATA = 16_384
/** In characters. No actor and no address is longer. */
const MAX_ORIGIN = 1_024

type EntryFields = [
  id: number,
  action: Action,
  key_id: string | null,
  key_version: number | null,
  actor: string,
  ip_address: string | null,
  metadata: string | null,
  created_at: string,
  hash: string,
  mac: string,
]

type Stretch = { tenant_id: string; after_id: number; through_id: number }

/**
 * Reads the first `limit` entries of a stretch in order, as one JSON text: as rows, they would take the driver twice as
 * long. As for heads, at most one character beyond what a server writes is read, so that a page fits into memory.
 */
export async function readChain(
  sql: Queryable,
  { tenant_id, after_id, through_id, limit }: Stretch & { limit: number },
): Promise<ChainedEntry[]> {
  const [row] = await sql<{ entries: EntryFields[] | null }[]>`
    select ${entriesJson(sql)} as entries
    from (
      select ${entryColumns(sql)} from audit_log
      where tenant_id = ${tenant_id} and id > ${after_id} and id <= ${through_id}
      order by id limit ${limit}
    ) as stretch`
  return readEntries(tenant_id, row?.entries)
}

/** As `readChain` for several logs: the first `limit` ids of each, by tenant. A log without entries in its stretch is left out. */
export async function readChains(
  sql: Queryable,
  stretches: readonly Stretch[],
  limit: number,
): Promise<Map<string, ChainedEntry[]>> {
  const rows = await sql<{ tenant_id: string; entries: EntryFields[] | null }[]>`
    select tenant_id, ${entriesJson(sql)} as entries
    from (
      select tenant_id, ${entryColumns(sql)}
      from unnest(
        ${stretches.map((stretch) => stretch.tenant_id)}::uuid[], ${stretches.map((stretch) => stretch.after_id)}::bigint[],
        ${stretches.map(({ after_id, through_id }) => Math.min(through_id, after_id + limit))}::bigint[]
      ) as s (of_tenant, after_id, through_id)
      join audit_log on tenant_id = of_tenant and id > after_id and id <= through_id
      limit ${stretches.length * limit}
    ) as stretch
    group by tenant_id`
  return new Map(rows.map(({ tenant_id, entries }) => [tenant_id, readEntries(tenant_id, entries)]))
}

function entriesJson(sql: Queryable) {
  return sql`pg_catalog.json_agg(pg_catalog.json_build_array(
      id, action, key_id, key_version, actor, ip_address, metadata, created_at,
      pg_catalog.encode(hash, 'hex'), pg_catalog.encode(mac, 'hex')
    ) order by id)`
}

function entryColumns(sql: Queryable) {
  return sql`id, pg_catalog.substr(action, 1, ${MAX_ORIGIN + 1}::integer) as action, key_id, key_version,
             pg_catalog.substr(actor, 1, ${MAX_ORIGIN + 1}::integer) as actor,
             pg_catalog.substr(ip_address, 1, ${MAX_ORIGIN + 1}::integer) as ip_address,
             pg_catalog.substr(metadata, 1, ${MAX_METADATA + 1}::integer) as metadata, created_at,
             pg_catalog.substr(hash, 1, 33) as hash, pg_catalog.substr(mac, 1, 33) as mac`
}

function readEntries(tenant_id: string, entries: readonly EntryFields[] | null | undefined): ChainedEntry[] {
  return (entries ?? []).map(
    ([id, action, key_id, key_version, actor, ip_address, metadata, created_at, hash, mac]): ChainedEntry => ({
      tenant_id,
      id: readInteger(id),
      action,
      key_id,
      key_version,
      actor,
      ip_address,
      metadata,
      created_at: readTime(created_at),
      hash: Buffer.from(hash, 'hex'),
      mac: Buffer.from(mac, 'hex'),
    }),
  )
}

type ActionCount = { action: Action; entries: number }

/** Counts the entries of a month, `YYYY-MM` in UTC. Purged entries are included. */
export async function countMonth(sql: Queryable, tenant_id: string, month: string): Promise<ActionCount[]> {
  const first = `${month}-01`
  return sql<ActionCount[]>`
    select action, pg_catalog.sum(entries)::bigint as entries from audit_counts
    where tenant_id = ${tenant_id} and day >= ${first}::date and day < ${first}::date + interval '1 month'
    group by action order by action`
}
