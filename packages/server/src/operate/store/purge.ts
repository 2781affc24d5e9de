import type { Action } from '@eaas/protocol'
import type { PurgeMark } from '../../core/audit/formats/chain.js'
import { NIL_UUID } from '../../core/store/audit.js'
import { assertInserted, exists, type Queryable, type Transaction } from '../../core/store/db.js'
import { lastIdWithin } from '../../core/store/entry-indexes.js'

/** The last entry older than a time, 0 if there is none. A row with an id below 1 stays, for verification to report. */
export async function findLastIdBefore(sql: Queryable, tenant_id: string, cutoff: string): Promise<number> {
  const [row] = await sql<{ id: number | null }[]>`
    select ${lastIdWithin(sql, tenant_id, sql`< ${cutoff}`, { isOrdered: false })} as id`
  return row?.id ?? 0
}

export type Right = { kind: 'tenant' | 'key' | 'api key'; id: string }

/** Lists at most `limit` rows whose last entry has at most this id. Versions follow from the row of their key. */
export function listRightsThrough(
  sql: Queryable,
  { tenant_id, through_id, limit }: { tenant_id: string; through_id: number; limit: number },
): Promise<Right[]> {
  return sql<Right[]>`
    select kind, id from (
      select 'tenant' as kind, tenant_id as id, entry_id from tenants where tenant_id = ${tenant_id}
      union all
      select 'key', key_id, entry_id from keys where tenant_id = ${tenant_id}
      union all
      select 'api key', api_key_id, entry_id from api_keys where tenant_id = ${tenant_id}
    ) as rights
    where entry_id <= ${through_id}
    order by entry_id, kind, id limit ${limit}`
}

export type KindCount = { day: string; action: Action; key_id: string; key_version: number; entries: number }

/** Counts a stretch of the log in one statement, as `audit_counts` does, but not by API key. */
export function countKinds(
  sql: Queryable,
  { tenant_id, after_id, through_id }: { tenant_id: string; after_id: number; through_id: number },
): Promise<KindCount[]> {
  return sql<KindCount[]>`
    select (created_at at time zone 'UTC')::date as day, action,
           coalesce(key_id, ${NIL_UUID}::uuid) as key_id, coalesce(key_version, 0) as key_version, pg_catalog.count(*) as entries
    from audit_log
    where tenant_id = ${tenant_id} and id > ${after_id} and id <= ${through_id}
    group by 1, 2, 3, 4`
}

/** Records in the counts how many entries a purge deletes: in rows without an API key, since readers sum these. */
export async function countPurged(sql: Transaction, tenant_id: string, counts: readonly KindCount[]): Promise<void> {
  await sql`
    insert into audit_counts as c (tenant_id, day, action, key_id, key_version, entries, purged)
    select ${tenant_id}::uuid, n.day, n.action, n.key_id, n.key_version, 0, n.entries
    from unnest(
      ${counts.map((kind) => kind.day)}::date[], ${counts.map((kind) => kind.action)}::text[],
      ${counts.map((kind) => kind.key_id)}::uuid[], ${counts.map((kind) => kind.key_version)}::integer[],
      ${counts.map((kind) => kind.entries)}::bigint[]
    ) as n (day, action, key_id, key_version, entries)
    on conflict (tenant_id, day, action, key_id, key_version, api_key_id) do update set purged = c.purged + excluded.purged`
}

/** Deletes the oldest entries, at most `limit`, up to and including an id; returns their number. */
export async function deleteOldest(
  sql: Queryable,
  { tenant_id, through_id, limit }: { tenant_id: string; through_id: number; limit: number },
): Promise<number> {
  const result = await sql`
    delete from audit_log where tenant_id = ${tenant_id} and id > 0 and id <= least(${through_id}::bigint, (
      select pg_catalog.min(id) + ${limit} - 1 from audit_log where tenant_id = ${tenant_id} and id > 0
    ))`
  return result.count
}

export async function hasEntryThrough(sql: Queryable, tenant_id: string, through_id: number): Promise<boolean> {
  return exists(sql, sql`select 1 from audit_log where tenant_id = ${tenant_id} and id > 0 and id <= ${through_id}`)
}

/** Whether any log has an entry between two times; may miss one in a log in which times go back. */
export async function hasEntryBetween(sql: Queryable, from: string, to: string): Promise<boolean> {
  const rows: ReturnType<Queryable> = sql`
    select 1 from heads, lateral (
      select 1 from audit_log
      where tenant_id = heads.tenant_id and created_at >= ${from}
        and id = ${lastIdWithin(sql, sql`heads.tenant_id`, sql`< ${to}`, { isOrdered: true })}
    ) as entry`
  return exists(sql, rows)
}

export async function insertMark(sql: Transaction, mark: PurgeMark): Promise<void> {
  const result = await sql`
    insert into purge_marks (tenant_id, purged_through, hash, entries, cutoff, created_at, previous_mac, mac)
    values (${mark.tenant_id}, ${mark.purged_through}, ${mark.hash}, ${mark.entries}, ${mark.cutoff}, ${mark.created_at},
            ${mark.previous_mac}, ${mark.mac})`
  assertInserted(result, 'purge_marks')
}
