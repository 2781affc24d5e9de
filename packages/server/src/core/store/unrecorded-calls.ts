/** How many calls of each API key wrote no entry, by day, kind and address. */
import { MAX_LISTED_COUNTS, type UnrecordedKind } from '@eaas/protocol'
import type { Queryable } from './db.js'

/** A count to add. */
export interface UnrecordedCount {
  tenant_id: string
  api_key_id: string
  /** YYYY-MM-DD, in UTC */
  day: string
  kind: UnrecordedKind
  /** empty for calls that are counted together, from whatever address */
  ip_address: string
  calls: number
}

/**
 * Adds to the counts, of all tenants in one statement. Rows are locked in a fixed order, so that processes
 * adding to the same ones cannot deadlock.
 */
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

interface Listed {
  day: string
  api_key_id: string
  kind: UnrecordedKind
  ip_address: string | null
  count: number
}

/** Lists the largest counts of a tenant in a month, `YYYY-MM` in UTC. */
export async function listUnrecordedCalls(sql: Queryable, tenant_id: string, month: string): Promise<Listed[]> {
  const first = `${month}-01`
  return sql<Listed[]>`
    select day::text as day, api_key_id, kind, nullif(ip_address, '') as ip_address, calls as count from unrecorded_calls
    where tenant_id = ${tenant_id} and day >= ${first}::date and day < ${first}::date + interval '1 month'
    order by calls desc, unrecorded_calls.day, api_key_id, kind, unrecorded_calls.ip_address limit ${MAX_LISTED_COUNTS}`
}
