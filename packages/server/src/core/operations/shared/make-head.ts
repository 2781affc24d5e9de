/**
 * Makes the head of a log again when it is missing, forged or not of the last entry: from the entries, never from a
 * copy (chain.md 10).
 */

import { listAnchoredHeads } from '../../../guard/store/anchors.js'
import { findNewestAcceptance } from '../../../guard/watch/acceptances.js'
import type { AuditKey } from '../../audit/formats/chain.js'
import { equalBytes, type Head, headMac, isHeadAuthentic, isKeptHeadAuthentic } from '../../audit/formats/chain.js'
import { Refusal } from '../../runner/refusal.js'
import { findEntryHash, findLastId, lockHead, putHead } from '../../store/audit.js'
import type { Transaction } from '../../store/db.js'

/**
 * Makes the head of a log whose entries were verified through the last one, `end`. Its policy version is the
 * highest that is known, which the acceptance raises above all that the lost head can have had.
 *
 * @throws Refusal E_STATE if that entry is no longer the last one, TamperedRowError if there are several
 * heads
 */
export async function makeHead(
  sql: Transaction,
  { tenant_id, auditKey }: { tenant_id: string; auditKey: AuditKey },
  { last_id, hash, created_at }: Pick<Head, 'last_id' | 'hash' | 'created_at'>,
): Promise<Head> {
  const found = await lockHead(sql, tenant_id)
  const last = await findEntryHash(sql, tenant_id, last_id)
  if (!last || !equalBytes(last, hash) || (await findLastId(sql, tenant_id)) !== last_id) {
    throw new Refusal('E_STATE', 'the log changed while it was verified: repeat the command')
  }
  const anchored = (await listAnchoredHeads(sql)).find((head) => head.tenant_id === tenant_id)
  const policy_version = Math.max(
    1,
    found && isHeadAuthentic(auditKey, found) ? found.policy_version : 0,
    anchored && isKeptHeadAuthentic(auditKey, tenant_id, anchored) ? anchored.policy_version : 0,
    (await findNewestAcceptance(sql, { tenant_id, auditKey })).policy_version,
  )
  const made = { tenant_id, last_id, hash, policy_version, created_at }
  const head = { ...made, mac: headMac(auditKey, made) }
  await putHead(sql, head)
  return head
}
