// Replaces an entry by another one that is genuine in itself: a server wrote it in another history of the log.

import type { ChainedEntry } from '../../../packages/audit/src/formats/chain.js'
import type { AuditKey } from '../../../packages/server/src/core/audit/formats/chain.js'
import { extendChain } from '../../../packages/server/src/core/audit/formats/chain.js'
import { readChain } from '../../../packages/server/src/core/store/audit.js'
import type { Sql } from '../../../packages/server/src/core/store/db.js'

/** Replaces the entry; returns a function that restores the true one. */
export async function exchangeEntry(
  sql: Sql,
  { tenant_id, id, auditKey }: { tenant_id: string; id: number; auditKey: AuditKey },
): Promise<() => Promise<void>> {
  const [before, entry] = await readChain(sql, { tenant_id, after_id: id - 2, through_id: id, limit: 2 })
  if (!before || !entry) throw new Error('there should be two entries')
  const head = { tenant_id, last_id: before.id, hash: before.hash, policy_version: 1, created_at: entry.created_at }
  const draft = { ...entry, ip_address: '203.0.113.9' }
  const [other] = extendChain({ ...head, mac: before.mac }, [draft], { auditKey, now: 0 }).entries
  const put = async ({ ip_address, hash, mac }: ChainedEntry) => {
    await sql`update audit_log set ip_address = ${ip_address}, hash = ${hash}, mac = ${mac} where tenant_id = ${tenant_id} and id = ${id}`
  }
  if (other) await put(other)
  return () => put(entry)
}
