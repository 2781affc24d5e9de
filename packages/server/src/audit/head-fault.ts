/** What is wrong with the head of a log in itself, without the entries before the last one (chain.md 5). */
import type { KeyObject } from 'node:crypto'
import { findEntryHash, findFirstId, listTenantHeads } from '../store/audit.js'
import type { Sql } from '../store/db.js'
import { findBeyond } from './entries-beyond.js'
import { equalBytes, isHeadAuthentic } from './formats/chain.js'
import type { Fault } from './verify/verify.js'

export interface HeadFault {
  /** the reason by which a verification names it */
  reason: Fault
  /** the same in words */
  detail: string
}

/** Finds it in one snapshot, beside appends; undefined if the head is authentic and of the last entry. */
export function findHeadFault(
  sql: Sql,
  { tenant_id, auditKey }: { tenant_id: string; auditKey: KeyObject },
): Promise<HeadFault | undefined> {
  return sql.begin('isolation level repeatable read read only', async (snapshot): Promise<HeadFault | undefined> => {
    const [head, ...others] = await listTenantHeads(snapshot, tenant_id)
    if (!head) return { reason: 'head_missing', detail: 'the head is missing' }
    if (others.length > 0) return { reason: 'head_repeated', detail: 'there are several heads' }
    if (!isHeadAuthentic(auditKey, head))
      return { reason: 'head_forged', detail: 'the head was not written by the server' }
    const last = await findEntryHash(snapshot, tenant_id, head.last_id)
    if (!last || !equalBytes(last, head.hash))
      return { reason: 'head_mismatch', detail: 'the head does not match the last entry' }
    const beyond = await findBeyond(snapshot, { tenant_id, auditKey }, head)
    if (beyond?.isGenuine)
      return {
        reason: 'head_behind',
        detail: `the head is of entry ${head.last_id}, and a server wrote entries after it`,
      }
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
