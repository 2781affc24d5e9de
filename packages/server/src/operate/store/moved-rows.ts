/** The rows of one tenant that move to another database, and the rows written there before the tenant arrives. */
import { encodeHex, INSTALLATION_ID } from '@eaas/protocol'
import { NIL_UUID } from '../../core/store/audit.js'
import { assertInserted, type Queryable, type Transaction } from '../../core/store/db.js'
import { listTenantPeppers, type TenantPepperRow } from '../../core/store/peppers.js'
import { listTenantIds } from '../../core/store/tenants.js'
import { listColumns } from './all-rows.js'

const PAGE_ROWS = 500

/** Tables whose rows are copied unchanged, since no MAC covers them. */
export const COPIED_TABLES = ['audit_counts', 'budget_uses', 'unrecorded_calls'] as const
/** All tables with rows of a tenant, except its log and the peppers. */
const TABLES = ['tenants', 'heads', 'purge_marks', 'keys', 'key_versions', 'api_keys', ...COPIED_TABLES] as const

/** Ignores the tenant that the rows name, since it comes from another database. */
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
 * Copies a tenant's rows of a table to another database, in pages, since all of them may be longer than a string can be.
 * They become that tenant's, whatever tenant they name: the administrator of a database can make it answer with any rows.
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

/** Whether this connection's role may delete a tenant's rows, as the owner of the tables may. */
export async function mayDelete(sql: Queryable): Promise<boolean> {
  const [row] = await sql<{ may: boolean }[]>`
    select pg_catalog.bool_and(pg_catalog.has_table_privilege(pg_catalog.to_regclass(name)::oid, 'delete')) as may
    from pg_catalog.unnest(${[...TABLES, 'audit_log']}::text[]) as t (name)`
  return row?.may ?? false
}

/** Deletes what a tenant left when it moved away, except what `deleteCopied` deletes. */
export async function deleteLeft(sql: Transaction, tenant_id: string): Promise<void> {
  for (const table of TABLES) await sql`delete from ${sql(table)} where tenant_id = ${tenant_id}`
}

/** Replaces the peppers with which a tenant will arrive, dated by the database's clock. */
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

/** Whether the peppers of a tenant have been there for `seconds`. */
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

/** Deletes the peppers and the entries, which are written before a tenant arrives. Returns how many entries they were. */
export async function deleteCopied(sql: Transaction, tenant_id: string): Promise<number> {
  await sql`delete from tenant_peppers where tenant_id = ${tenant_id}`
  return (await sql`delete from audit_log where tenant_id = ${tenant_id}`).count
}

export type Stray = { tenant_id: string; entries: number }

export async function findStray(sql: Queryable, tenant_id: string): Promise<Stray | undefined> {
  const [row] = await sql<{ entries: number; is_there: boolean }[]>`
    select pg_catalog.count(*) as entries,
           pg_catalog.count(*) > 0 or exists (select from tenant_peppers where tenant_id = ${tenant_id}) as is_there
    from audit_log where tenant_id = ${tenant_id}`
  return row?.is_there ? { tenant_id, entries: row.entries } : undefined
}

/** Of all tenants without a row. Uses a query for each log, in which the index skips the entries of one log. */
export async function listStrays(sql: Queryable): Promise<Stray[]> {
  const copied = new Set((await listTenantPeppers(sql)).map(({ tenant_id }) => tenant_id))
  for (let after: string | undefined = NIL_UUID; after !== undefined; ) {
    const [row]: { tenant_id: string }[] = await sql<{ tenant_id: string }[]>`
      select tenant_id from audit_log where tenant_id > ${after} order by tenant_id limit 1`
    after = row?.tenant_id
    if (after !== undefined) copied.add(after)
  }
  for (const tenant_id of [...(await listTenantIds(sql)), INSTALLATION_ID]) copied.delete(tenant_id)
  const strays = await Promise.all([...copied].map((tenant_id) => findStray(sql, tenant_id)))
  return strays.filter((stray) => stray !== undefined)
}
