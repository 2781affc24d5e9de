// Makes a log of any length in seconds: computes the chain with the server's own code, and copies it into the tables
// directly.
import { createSecretKey } from 'node:crypto'
import { once } from 'node:events'
import { finished } from 'node:stream/promises'
import type postgres from 'postgres'
import type { ChainedEntry } from '../../../packages/audit/src/formats/chain.js'
import { type EntryDraft, extendChain, type Head } from '../../../packages/server/src/core/audit/formats/chain.js'
import { openAuditKey } from '../../independent/stored.js'

/** Rows sent to the database at a time. */
const CHUNK_ROWS = 2_000

export interface Growth {
  tenant_id: string
  /** base64 */
  rootKey: string
  /** how many entries are added */
  entries: number
  /** the times of the first and the last of them, in milliseconds since 1970; the others are evenly in between */
  from: number
  to: number
  /** entries per commit; they share one time */
  batch?: number
  draft: (at: number) => EntryDraft
}

/** Adds entries to a tenant's log, with its counts and its head, while no server is running. */
export async function growChain(sql: postgres.Sql, growth: Growth): Promise<void> {
  const { tenant_id, rootKey, entries, from, to, batch = 10, draft } = growth
  const auditKey = createSecretKey(await openAuditKey(sql, Buffer.from(rootKey, 'base64'), tenant_id))
  let head = await headOf(sql, tenant_id)
  const before = head.last_id
  const indexes = await dropIndexes(sql)
  const rows = await sql`
    copy audit_log (tenant_id, id, action, key_id, key_version, actor, ip_address, metadata, created_at, hash, mac)
    from stdin`.writable()
  for (let at = 0, lines: string[] = []; at < entries; at += batch) {
    const size = Math.min(batch, entries - at)
    const drafts = Array.from({ length: size }, (_, index) => draft(at + index))
    const now = Math.round(from + ((to - from) * at) / entries)
    const chained = extendChain(head, drafts, { auditKey, now })
    head = chained.head
    for (const entry of chained.entries) lines.push(copyLine(entry))
    if (lines.length < CHUNK_ROWS && at + size < entries) continue
    if (!rows.write(lines.join(''))) await once(rows, 'drain')
    lines = []
  }
  rows.end()
  await finished(rows)
  for (const index of indexes) await sql.unsafe(index)
  await sql`
    update heads set last_id = ${head.last_id}, hash = ${head.hash}, created_at = ${head.created_at}, mac = ${head.mac}
    where tenant_id = ${tenant_id}`
  await sql`
    insert into audit_counts as c (tenant_id, day, action, key_id, key_version, entries)
    select tenant_id, (created_at at time zone 'UTC')::date, action,
           coalesce(key_id, '00000000-0000-0000-0000-000000000000'), coalesce(key_version, 0), count(*)
    from audit_log where tenant_id = ${tenant_id} and id > ${before} group by 1, 2, 3, 4, 5
    on conflict (tenant_id, day, action, key_id, key_version, api_key_id) do update set entries = c.entries + excluded.entries`
  await sql`vacuum (analyze) audit_log`
  await sql`vacuum (analyze) audit_counts`
}

async function headOf(sql: postgres.Sql, tenant_id: string): Promise<Head> {
  const [row] = await sql`
    select last_id::text, hash, policy_version::text, created_at, mac from heads where tenant_id = ${tenant_id}`
  if (!row) throw new Error(`tenant ${tenant_id} has no head`)
  const { hash, mac, created_at } = row
  const numbers = { last_id: Number(row.last_id), policy_version: Number(row.policy_version) }
  return { tenant_id, hash, mac, created_at: created_at.toISOString(), ...numbers }
}

/**
 * Drops all indexes but the primary key, because creating them at the end is faster; returns the statements that
 * create them.
 */
async function dropIndexes(sql: postgres.Sql): Promise<string[]> {
  const indexes = await sql<{ indexname: string; indexdef: string }[]>`
    select indexname, indexdef from pg_indexes where tablename = 'audit_log' and indexname <> 'audit_log_pkey'`
  for (const { indexname } of indexes) await sql`drop index ${sql(indexname)}`
  return indexes.map(({ indexdef }) => indexdef)
}

/** Writes a row in PostgreSQL's text format: tabs between columns, a backslash before characters that would end a column. */
function copyLine(entry: ChainedEntry): string {
  const { tenant_id, id, action, key_id, key_version, actor, ip_address, metadata, created_at, hash, mac } = entry
  const columns = [tenant_id, id, action, key_id, key_version, actor, ip_address, metadata, created_at]
  const bytes = [hash, mac].map((value) => `\\\\x${Buffer.from(value).toString('hex')}`)
  return `${[...columns.map(copyText), ...bytes].join('\t')}\n`
}

function copyText(value: string | number | null): string {
  if (value === null) return '\\N'
  return String(value).replaceAll(
    /[\\\t\n\r]/g,
    (character) => `\\${{ '\t': 't', '\n': 'n', '\r': 'r' }[character] ?? '\\'}`,
  )
}
