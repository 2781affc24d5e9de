/**
 * How much each API key opens and hashes in a day, against its usual use: from the counts of the entries, which are
 * committed with them, and from those of calls without an entry.
 */
import { type BudgetKind, COUNTED_AS_UNWRAP, USUAL_DAYS } from '@eaas/protocol'
import { NIL_UUID } from './audit.js'
import type { Queryable } from './db.js'

/** What an API key did on a day, of one kind. */
export interface ApiKeyUsage {
  tenant_id: string
  api_key_id: string
  kind: BudgetKind
  today: number
  /** the median of the days before on which it did any; null if there is none */
  median: number | null
}

/** Lists what API keys of a tenant did on a day, `YYYY-MM-DD`, against the days before: the largest first. */
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
