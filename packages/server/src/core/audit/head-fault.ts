/** Faults of a log's head that show without the entries before the last one, and entries beyond it (chain.md 5, 9). */
import { entryHash } from '@eaas/audit/formats'
import { findEntryHash, findFirstId, listTenantHeads, readChain } from '../store/audit.js'
import type { Queryable, Sql } from '../store/db.js'
import { isHeadGenuine } from './audit-key.js'
import { type AuditKey, entryMac, equalBytes, type Head } from './formats/chain.js'
import type { Fault } from './verify/verify.js'

const PAGE_ENTRIES = 250

export interface HeadFault {
  /** as a verification names it */
  reason: Fault
  detail: string
}

export const HEAD_MISMATCH: HeadFault = { reason: 'head_mismatch', detail: 'the head does not match the last entry' }
/** In one snapshot, while appends continue; undefined if the head is authentic and of the last entry. */
export function findHeadFault(
  sql: Sql,
  { tenant_id, auditKey }: { tenant_id: string; auditKey: AuditKey },
): Promise<HeadFault | undefined> {
  return sql.begin('isolation level repeatable read read only', async (snapshot): Promise<HeadFault | undefined> => {
    const [head, ...others] = await listTenantHeads(snapshot, tenant_id)
    if (!head) return { reason: 'head_missing', detail: 'the head is missing' }
    if (others.length > 0) return { reason: 'head_repeated', detail: 'there are several heads' }
    if (!(await isHeadGenuine(snapshot, auditKey, head)))
      return { reason: 'head_forged', detail: 'the head was not written by the server' }
    const last = await findEntryHash(snapshot, tenant_id, head.last_id)
    if (!last || !equalBytes(last, head.hash)) return HEAD_MISMATCH
    const beyond = await findBeyond(snapshot, { tenant_id, auditKey }, head)
    const { last_id } = head
    if (beyond?.isGenuine)
      return { reason: 'head_behind', detail: `the head is of entry ${last_id}, and a server wrote entries after it` }
    if (beyond)
      return {
        reason: 'entry_beyond_head',
        detail: `entry ${beyond.id} is beyond the head, and no server wrote it there`,
      }
    const first = await findFirstId(snapshot, tenant_id)
    if (first >= 1) return undefined
    return { reason: 'entry_before_first', detail: `entry ${first} is before the first one, and no server wrote it` }
  }) as Promise<HeadFault | undefined>
}

/**
 * The first entry beyond the head, if there is one; genuine if the server wrote one of those there to follow the entry
 * before it: then an older head was restored.
 */
export async function findBeyond(
  sql: Queryable,
  { tenant_id, auditKey }: { tenant_id: string; auditKey: AuditKey },
  { last_id, hash }: Pick<Head, 'last_id' | 'hash'>,
): Promise<{ id: number; isGenuine: boolean } | undefined> {
  let first: number | undefined
  let previous = { id: last_id, hash }
  while (true) {
    const where = { tenant_id, after_id: previous.id, through_id: Number.MAX_SAFE_INTEGER, limit: PAGE_ENTRIES }
    const page = await readChain(sql, where)
    for (const entry of page) {
      first ??= entry.id
      const mac = entryMac(auditKey, entry.id, entryHash(previous.hash, entry))
      if (equalBytes(entry.mac, mac)) return { id: first, isGenuine: true }
      previous = entry
    }
    if (page.length < PAGE_ENTRIES) return first === undefined ? undefined : { id: first, isGenuine: false }
  }
}
