/** What API keys used of their budgets, so that all processes count together. */
import type { BudgetKind } from '@eaas/protocol'
import type { Queryable } from './db.js'

/** What an API key requests of a budget. */
export interface BudgetRequest {
  tenant_id: string
  api_key_id: string
  kind: BudgetKind
  calls: number
  per_minute: number
  per_day: number
}

/** What was used before a request, by the windows of the database's clock; one more than the limit once it refused. */
export interface BudgetUse {
  in_minute: number
  in_day: number
  minute_ends_in: number
  day_ends_in: number
}

/**
 * Counts a request as far as the limits grant it, and returns what was used before. The day counts what the minute
 * grants. The lock of the row orders the processes.
 */
export async function countBudgetUse(sql: Queryable, request: BudgetRequest): Promise<BudgetUse> {
  const known = await update(sql, request)
  if (known) return known
  await insert(sql, request)
  const use = await update(sql, request)
  if (!use) throw new Error(`the uses of a budget of API key ${request.api_key_id} are not in the database`)
  return use
}

async function update(
  sql: Queryable,
  { tenant_id, api_key_id, kind, calls, per_minute, per_day }: BudgetRequest,
): Promise<BudgetUse | undefined> {
  const [use] = await sql<BudgetUse[]>`
    with windows as (
      select pg_catalog.date_trunc('minute', pg_catalog.now()) as minute, (pg_catalog.now() at time zone 'UTC')::date as day
    ), before as materialized (
      select w.minute, w.day, case when b.minute = w.minute then b.in_minute else 0 end as in_minute,
             case when b.day = w.day then b.in_day else 0 end as in_day
      from budget_uses as b cross join windows as w
      where b.tenant_id = ${tenant_id} and b.api_key_id = ${api_key_id} and b.kind = ${kind} for update of b
    )
    update budget_uses as b set
      minute = u.minute,
      in_minute = least(greatest(u.in_minute, ${per_minute + 1}::bigint), u.in_minute + ${calls}::bigint),
      day = u.day,
      in_day = least(greatest(u.in_day, ${per_day + 1}::bigint),
                     u.in_day + greatest(0, least(${calls}::bigint, ${per_minute}::bigint - u.in_minute)))
    from before as u
    where b.tenant_id = ${tenant_id} and b.api_key_id = ${api_key_id} and b.kind = ${kind}
    returning u.in_minute, u.in_day,
              pg_catalog.ceil(extract(epoch from u.minute + interval '1 minute' - pg_catalog.now()))::integer as minute_ends_in,
              pg_catalog.ceil(extract(epoch from (u.day + 1)::timestamp at time zone 'UTC' - pg_catalog.now()))::integer as day_ends_in`
  return use
}

async function insert(sql: Queryable, { tenant_id, api_key_id, kind }: BudgetRequest): Promise<void> {
  await sql`
    insert into budget_uses (tenant_id, api_key_id, kind, minute, in_minute, day, in_day)
    values (${tenant_id}, ${api_key_id}, ${kind}, pg_catalog.date_trunc('minute', pg_catalog.now()), 0,
            (pg_catalog.now() at time zone 'UTC')::date, 0)
    on conflict do nothing`
}
