/** The marks that purges leave in place of the entries that they delete (chain.md 8). */
import type { PurgeMark } from '../audit/formats/chain.js'
import type { Queryable } from './db.js'

export async function findLastMark(sql: Queryable, tenant_id: string): Promise<PurgeMark | undefined> {
  const [row] = await sql<PurgeMark[]>`
    select tenant_id, purged_through, hash, entries, cutoff, created_at, previous_mac, mac
    from purge_marks where tenant_id = ${tenant_id} order by purged_through desc limit 1`
  return row
}

/** In order. */
export async function listMarks(sql: Queryable, tenant_id: string): Promise<PurgeMark[]> {
  return sql<PurgeMark[]>`
    select tenant_id, purged_through, hash, entries, cutoff, created_at, previous_mac, mac
    from purge_marks where tenant_id = ${tenant_id} order by purged_through`
}
