/** The rows of one tenant that are moved to another database, and what is written there before the tenant arrives. */
import { encodeHex } from '@eaas/protocol'
import { assertInserted, type Queryable, type Transaction } from '../../core/store/db.js'
import type { TenantPepperRow } from '../../core/store/peppers.js'
import { listColumns } from './all-rows.js'

const PAGE_ROWS = 500

/** Rows that are copied as they are: no MAC covers them. */
export const COPIED_TABLES = ['audit_counts', 'budget_uses', 'unrecorded_calls'] as const
/** All rows of a tenant but its log and the peppers. */
const TABLES = ['tenants', 'heads', 'purge_marks', 'keys', 'key_versions', 'api_keys', ...COPIED_TABLES] as const

/** Whatever tenant the rows name: another database says what is in them. */
export async function insertRows(
  sql: Queryable,
  table: string,
  { tenant_id, rows }: { tenant_id: string; rows: readonly object[] },
): Promise<void> {
  const columns = Object.keys(rows[0] ?? {}).filter((name) => name !== 'tenant_id')
  for (let at = 0; at < rows.length; at += PAGE_ROWS) {
    const page = rows.slice(at, at + PAGE_ROWS)
    const result = await sql`
      insert into ${sql(table)} (${sql(columns)}, tenant_id)
      select ${sql(columns)}, ${tenant_id}::uuid from pg_catalog.json_populate_recordset(null::${sql(table)}, ${JSON.stringify(page.map(asTexts))}::text::json)`
    assertInserted(result, table, page.length)
  }
}

function asTexts(row: object): object {
  const members = Object.entries(row) as [string, unknown][]
  return Object.fromEntries(
    members.map(([name, value]) => [name, value instanceof Uint8Array ? `\\x${encodeHex(value)}` : value]),
  )
}

/**
 * Copies a tenant's rows of a table to another database, in pages: all of them may be longer than a string can be. They
 * become that tenant's, whatever tenant they name: the administrator of a database can define what it answers.
 */
export async function copyRows(from: Transaction, to: Transaction, table: string, tenant_id: string): Promise<void> {
  const columns = (await listColumns(to, table)).filter((name) => name !== 'tenant_id')
  await from`
    declare copied no scroll cursor for
    select pg_catalog.row_to_json(t)::text as row from ${from(table)} as t where tenant_id = ${tenant_id}`
  for (;;) {
    const page = await from<{ row: string }[]>`fetch 10000 from copied`
    if (page.length === 0) break
    const rows = `[${page.map(({ row }) => row).join()}]`
    const result = await to`
      insert into ${to(table)} (${to(columns)}, tenant_id)
      select ${to(columns)}, ${tenant_id}::uuid from pg_catalog.json_populate_recordset(null::${to(table)}, ${rows}::text::json)`
    assertInserted(result, table, page.length)
  }
  await from`close copied`
}

/** Deletes what a tenant left when it was moved away, before it comes back; its log stays, and is continued. */
export async function deleteLeft(sql: Transaction, tenant_id: string): Promise<void> {
  for (const table of TABLES) await sql`delete from ${sql(table)} where tenant_id = ${tenant_id}`
}

/** Replaces the peppers with which a tenant is to arrive; they are dated by the database's clock. */
export async function replacePeppersOf(
  sql: Transaction,
  tenant_id: string,
  rows: readonly TenantPepperRow[],
): Promise<void> {
  await sql`delete from tenant_peppers where tenant_id = ${tenant_id}`
  for (const { number, wrapped_pepper } of rows) {
    await sql`
      insert into tenant_peppers (tenant_id, number, wrapped_pepper, created_at)
      values (${tenant_id}, ${number}, ${wrapped_pepper}, pg_catalog.statement_timestamp())`
  }
}

/** Whether the peppers of a tenant have been there for so many seconds. */
export async function arePeppersKnown(sql: Queryable, tenant_id: string, seconds: number): Promise<boolean> {
  const [row] = await sql<{ known: boolean | null }[]>`
    select pg_catalog.bool_and(created_at + ${seconds} * interval '1 second' <= pg_catalog.clock_timestamp()) as known
    from tenant_peppers where tenant_id = ${tenant_id}`
  return row?.known ?? false
}

export function lockPeppersOf(sql: Transaction, tenant_id: string): Promise<TenantPepperRow[]> {
  return sql<TenantPepperRow[]>`
    select tenant_id, number, pg_catalog.substr(wrapped_pepper, 1, 256) as wrapped_pepper from tenant_peppers
    where tenant_id = ${tenant_id} order by number for update`
}

export async function deletePeppersOf(sql: Transaction, tenant_id: string): Promise<void> {
  await sql`delete from tenant_peppers where tenant_id = ${tenant_id}`
}

export async function withoutTimeouts(sql: Transaction): Promise<void> {
  await sql`
    select pg_catalog.set_config('statement_timeout', '0', true),
           pg_catalog.set_config('idle_in_transaction_session_timeout', '0', true)`
}

export async function countEntries(
  sql: Queryable,
  tenant_id: string,
  { after_id, through_id }: { after_id: number; through_id: number },
): Promise<number> {
  const [row] = await sql<{ entries: number }[]>`
    select pg_catalog.count(*) as entries from audit_log
    where tenant_id = ${tenant_id} and id > ${after_id} and id <= ${through_id}`
  return row?.entries ?? 0
}

export async function deleteEntriesAfter(sql: Transaction, tenant_id: string, after_id: number): Promise<void> {
  await sql`delete from audit_log where tenant_id = ${tenant_id} and id > ${after_id}`
}
