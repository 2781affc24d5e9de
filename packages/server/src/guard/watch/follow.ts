/** Reads the entries of logs in stretches, from their points to their heads; `judge.ts` judges them. */
import type { ChainedEntry } from '@eaas/audit/formats'
import { INSTALLATION_ID } from '@eaas/protocol'
import { isUnopened } from '../../core/audit/audit-key.js'
import type { AuditKey, Head, Witness } from '../../core/audit/formats/chain.js'
import { readChain, readChains } from '../../core/store/audit.js'
import type { Queryable } from '../../core/store/db.js'
import type { HeadWithKey } from '../store/anchors.js'
import type { HeadWatch, HeadWatches } from './head-watch.js'
import { earliestOf, isPast } from './judge.js'

export const FOLLOWED_AT_ONCE = 1_000 // a stretch has this many entries after a point

/** Reads all entries up to the head, or the first FOLLOWED_AT_ONCE. */
export function readStretch(sql: Queryable, from: Witness, { tenant_id, last_id }: Head): Promise<ChainedEntry[]> {
  const where = { tenant_id, after_id: from.last_id - 1, through_id: last_id, limit: FOLLOWED_AT_ONCE + 1 }
  return readChain(sql, where)
}

export const LATER_AT_ONCE = 500 // in one statement
const ENTRIES_AT_ONCE = 50_000 // in one statement, without the points

/** By tenant: all entries up to the heads, or the first of each log. */
export function readLater(
  sql: Queryable,
  later: readonly { point: Witness; head: Head }[],
): Promise<Map<string, ChainedEntry[]>> {
  const stretches = later.map(({ point, head }) => ({
    tenant_id: head.tenant_id,
    after_id: point.last_id - 1,
    through_id: head.last_id,
  }))
  const limit = Math.min(FOLLOWED_AT_ONCE, Math.ceil(ENTRIES_AT_ONCE / later.length)) + 1
  return later.length > 0 ? readChains(sql, stretches, limit) : Promise.resolve(new Map())
}

export interface KeysOfHeads {
  installationKey: AuditKey // of the installation's own log
  openKey: (row: { tenant_id: string; wrapped_audit_key: Uint8Array }) => AuditKey
}

/** Undefined if the audit key is missing, or does not open. */
export function keyOf(
  { tenant_id, wrapped_audit_key }: HeadWithKey,
  { installationKey, openKey }: KeysOfHeads,
): AuditKey | undefined {
  if (tenant_id === INSTALLATION_ID) return installationKey
  try {
    return wrapped_audit_key ? openKey({ tenant_id, wrapped_audit_key }) : undefined
  } catch (error) {
    if (!isUnopened(error)) throw error
    return undefined
  }
}

/** Returns the logs whose head it did not reach; `HeadWatch.read` finds the fault of a broken one. */
export async function followHeads(
  sql: Queryable,
  heads: readonly HeadWithKey[],
  { watches, ...keys }: { watches: HeadWatches } & KeysOfHeads,
): Promise<{ watch: HeadWatch; head: HeadWithKey; isBroken: boolean }[]> {
  const unreached: Awaited<ReturnType<typeof followHeads>> = []
  for (let at = 0; at < heads.length; at += LATER_AT_ONCE) {
    const some = heads.slice(at, at + LATER_AT_ONCE).map((head) => ({ head, watch: watches.get(head.tenant_id) }))
    // No comparison is needed for a head that this process has since passed by its own appends.
    const open = some.filter(
      ({ head, watch: { known, held } }) => !known || held.all.length > 1 || !isPast(known, head),
    )
    const later = open.flatMap(({ head, watch }) => {
      const point = earliestOf(watch.held.all)
      return point ? [{ point, head }] : []
    })
    const stretches = await readLater(sql, later)
    for (const { head, watch } of open) {
      const auditKey = keyOf(head, keys)
      const stretch = stretches.get(head.tenant_id) ?? []
      const { wrapped_audit_key: _, ...bare } = head
      const followed = auditKey ? watch.follow({ head: bare, stretch }, auditKey) : 'broken'
      if (followed !== 'wholly') unreached.push({ watch, head, isBroken: followed === 'broken' })
    }
  }
  return unreached
}
