/** Counts by day: the calls of API keys that wrote no entry, by kind and address, and how much API keys open and hash. */
import { type BudgetKind, COUNTED_AS_UNWRAP, MAX_LISTED_COUNTS, type UnrecordedKind, USUAL_DAYS } from '@eaas/protocol'
import { NIL_UUID } from './audit.js'
import type { Queryable } from './db.js'

export interface UnrecordedCount {
  tenant_id: string
  api_key_id: string
  /** YYYY-MM-DD, in UTC */
  day: string
  kind: UnrecordedKind
  /** empty for calls that are counted together from all addresses */
  ip_address: string
  calls: number
}

/** Locks rows in a fixed order, so that processes adding to the same ones cannot deadlock. */
export async function addUnrecordedCalls(sql: Queryable, counts: readonly UnrecordedCount[]): Promise<void> {
  const column = <Name extends keyof UnrecordedCount>(name: Name) => counts.map((count) => count[name])
  await sql`
    insert into unrecorded_calls as c (tenant_id, day, api_key_id, kind, ip_address, calls)
    select u.tenant_id, u.day, u.api_key_id, u.kind, u.ip_address, u.calls
    from unnest(${column('tenant_id')}::uuid[], ${column('day')}::date[], ${column('api_key_id')}::uuid[],
                ${column('kind')}::text[], ${column('ip_address')}::text[], ${column('calls')}::bigint[])
         as u (tenant_id, day, api_key_id, kind, ip_address, calls)
    order by u.tenant_id, u.day, u.api_key_id, u.kind, u.ip_address
    on conflict (tenant_id, day, api_key_id, kind, ip_address) do update set calls = c.calls + excluded.calls`
}

type Listed = Pick<UnrecordedCount, 'day' | 'api_key_id' | 'kind'> & { ip_address: string | null; count: number }

/** Lists the largest counts of a tenant in a month, `YYYY-MM` in UTC. */
export async function listUnrecordedCalls(sql: Queryable, tenant_id: string, month: string): Promise<Listed[]> {
  const first = `${month}-01`
  return sql<Listed[]>`
    select day::text as day, api_key_id, kind, nullif(ip_address, '') as ip_address, calls as count from unrecorded_calls
    where tenant_id = ${tenant_id} and day >= ${first}::date and day < ${first}::date + interval '1 month'
    order by calls desc, unrecorded_calls.day, api_key_id, kind, unrecorded_calls.ip_address limit ${MAX_LISTED_COUNTS}`
}

/** What an API key did on a day; `median` covers the earlier days on which it did any. */
export interface ApiKeyUsage {
  tenant_id: string
  api_key_id: string
  kind: BudgetKind
  today: number
  median: number | null
}

/** Lists what API keys opened and hashed on a day, `YYYY-MM-DD`, compared with the days before, largest first. */
export function listApiKeyUsage(
  sql: Queryable,
  { tenant_id, day, limit = null }: { tenant_id: string; day: string; limit?: number | null },
): Promise<ApiKeyUsage[]> {
  const isListed = sql`
    tenant_id = ${tenant_id} and day between ${day}::date - ${USUAL_DAYS}::integer and ${day}::date`
  return sql<ApiKeyUsage[]>`
    with counted as (
      select tenant_id, api_key_id, 'unwrap' as kind, day, pg_catalog.sum(entries) as uses from audit_counts
      where ${isListed} and action = any(${[...COUNTED_AS_UNWRAP]}::text[]) and api_key_id <> ${NIL_UUID}
      group by tenant_id, api_key_id, day
      union all
      select tenant_id, api_key_id, kind, day, pg_catalog.sum(calls) from unrecorded_calls
      where ${isListed} and kind = 'hash'
      group by tenant_id, api_key_id, kind, day
    )
    select tenant_id, api_key_id, kind,
           coalesce(pg_catalog.sum(uses) filter (where day = ${day}::date), 0)::bigint as today,
           (pg_catalog.percentile_disc(0.5) within group (order by uses) filter (where day < ${day}::date))::bigint as median
    from counted group by tenant_id, api_key_id, kind
    order by today desc, median desc nulls last, tenant_id, api_key_id, kind limit ${limit}`
}
