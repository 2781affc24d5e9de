/** The use of API keys' budgets. It is in the database, so that all processes count together. */
import type { BudgetKind, BudgetWindow } from '@eaas/protocol'
import type { Queryable, Transaction } from './db.js'

export interface BudgetRequest {
  tenant_id: string
  api_key_id: string
  kind: BudgetKind
  calls: number
  per_minute: number
  per_day: number
  /** whether the statement itself marks an exceeded window; otherwise the caller uses `markExceeded` */
  marks: boolean
}

/** Windows follow the database's clock. */
export interface BudgetUse {
  granted: number
  /** what the limit of the minute alone would have granted */
  granted_by_minute: number
  /** whether the window's limit did not grant this request in full, and the window was not yet marked as exceeded */
  is_minute_first: boolean
  is_day_first: boolean
  /** whether the request was not granted in full, and nothing of the day is left */
  is_day_used_up: boolean
  minute_ends_in: number
  day_ends_in: number
}

/**
 * Counts a request as far as the limits grant it. The day counts only what the minute grants. The clock is read under
 * the lock of the row, so that a process that waited for the lock does not reopen a window that has ended.
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
  { tenant_id, api_key_id, kind, calls, per_minute, per_day, marks }: BudgetRequest,
): Promise<BudgetUse | undefined> {
  const [use] = await sql<BudgetUse[]>`
    with locked as materialized (
      select * from budget_uses
      where tenant_id = ${tenant_id} and api_key_id = ${api_key_id} and kind = ${kind} for update
    ), timed as materialized (
      select locked.*, pg_catalog.clock_timestamp() as at from locked
    ), windows as (
      select timed.*, pg_catalog.date_trunc('minute', at) as now_minute, (at at time zone 'UTC')::date as now_day from timed
    ), before as (
      select at, now_minute as minute, now_day as day, case when minute = now_minute then in_minute else 0 end as in_minute,
             case when day = now_day then in_day else 0 end as in_day,
             case when minute = now_minute then minute_over end as minute_over,
             case when day = now_day then day_over end as day_over
      from windows
    ), minutes as materialized (
      select before.*, greatest(0, least(${calls}::bigint, ${per_minute}::bigint - in_minute)) as granted_by_minute from before
    ), days as materialized (
      select minutes.*, greatest(0, least(granted_by_minute, ${per_day}::bigint - in_day)) as granted from minutes
    ), firsts as materialized (
      select days.*, granted_by_minute < ${calls}::bigint and minute_over is distinct from ${per_minute}::bigint as is_minute_first,
             granted < granted_by_minute and day_over is distinct from ${per_day}::bigint as is_day_first,
             pg_catalog.ceil(extract(epoch from minute + interval '1 minute' - at))::integer as minute_ends_in,
             pg_catalog.ceil(extract(epoch from (day + 1)::timestamp at time zone 'UTC' - at))::integer as day_ends_in
      from days
    )
    update budget_uses as b set
      minute = u.minute, in_minute = u.in_minute + u.granted_by_minute,
      minute_over = case when u.is_minute_first and ${marks} then ${per_minute}::bigint else u.minute_over end,
      day = u.day, in_day = u.in_day + u.granted,
      day_over = case when u.is_day_first and ${marks} then ${per_day}::bigint else u.day_over end
    from firsts as u
    where b.tenant_id = ${tenant_id} and b.api_key_id = ${api_key_id} and b.kind = ${kind}
    returning u.granted, u.granted_by_minute, u.is_minute_first, u.is_day_first,
              u.granted < ${calls}::bigint and b.in_day >= ${per_day}::bigint as is_day_used_up,
              u.minute_ends_in, u.day_ends_in`
  return use
}

export type Exceeded = { kind: BudgetKind; window: BudgetWindow; limit: number }

/** Marks a window as exceeded, unless a later one has begun since. */
export async function markExceeded(
  sql: Transaction,
  { tenant_id, api_key_id }: Pick<BudgetRequest, 'tenant_id' | 'api_key_id'>,
  { kind, window, limit }: Exceeded,
): Promise<void> {
  const [over, used] = window === 'minute' ? ['minute_over', 'in_minute'] : ['day_over', 'in_day']
  await sql`
    update budget_uses set ${sql(over)} = ${limit}
    where tenant_id = ${tenant_id} and api_key_id = ${api_key_id} and kind = ${kind} and ${sql(used)} >= ${limit}`
}

async function insert(sql: Queryable, { tenant_id, api_key_id, kind }: BudgetRequest): Promise<void> {
  await sql`
    insert into budget_uses (tenant_id, api_key_id, kind, minute, in_minute, day, in_day)
    values (${tenant_id}, ${api_key_id}, ${kind}, pg_catalog.date_trunc('minute', pg_catalog.now()), 0,
            (pg_catalog.now() at time zone 'UTC')::date, 0)
    on conflict do nothing`
}
