/** The marks that purges leave in place of the entries that they delete (chain.md 8). */
import type { PurgeMark } from '../audit/formats/chain.js'
import { assertInserted, type Queryable, type Transaction } from './db.js'

/** Finds the mark of the last purge. */
export async function findLastMark(sql: Queryable, tenant_id: string): Promise<PurgeMark | undefined> {
  const [row] = await sql<PurgeMark[]>`
    select tenant_id, purged_through, hash, entries, cutoff, created_at, previous_mac, mac
    from purge_marks where tenant_id = ${tenant_id} order by purged_through desc limit 1`
  return row
}

/** The marks of the last purges of these tenants. */
export async function findLastMarks(sql: Queryable, tenant_ids: readonly string[]): Promise<Map<string, PurgeMark>> {
  const rows = await sql<PurgeMark[]>`
    select distinct on (tenant_id) tenant_id, purged_through, hash, entries, cutoff, created_at, previous_mac, mac
    from purge_marks where tenant_id = any(${[...tenant_ids]}::uuid[]) order by tenant_id, purged_through desc`
  return new Map(rows.map((mark) => [mark.tenant_id, mark]))
}

/** In order. */
export async function listMarks(sql: Queryable, tenant_id: string): Promise<PurgeMark[]> {
  return sql<PurgeMark[]>`
    select tenant_id, purged_through, hash, entries, cutoff, created_at, previous_mac, mac
    from purge_marks where tenant_id = ${tenant_id} order by purged_through`
}

export async function insertMark(sql: Transaction, mark: PurgeMark): Promise<void> {
  const result = await sql`
    insert into purge_marks (tenant_id, purged_through, hash, entries, cutoff, created_at, previous_mac, mac)
    values (${mark.tenant_id}, ${mark.purged_through}, ${mark.hash}, ${mark.entries}, ${mark.cutoff}, ${mark.created_at},
            ${mark.previous_mac}, ${mark.mac})`
  assertInserted(result, 'purge_marks')
}

/** Replaces the MACs of a mark, when the audit key was renewed. */
export async function replaceMark(sql: Transaction, mark: PurgeMark): Promise<void> {
  await sql`
    update purge_marks set previous_mac = ${mark.previous_mac}, mac = ${mark.mac}
    where tenant_id = ${mark.tenant_id} and purged_through = ${mark.purged_through}`
}
