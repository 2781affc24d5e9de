/**
 * Finds out whether a log continues from its points. A stored hash proves nothing by itself: the database
 * administrator can show the right one while a process reads it. So this process hashes the entries after the
 * point again, stretch by stretch, up to the head.
 */

import { type ChainedEntry, entryHash } from '@eaas/audit/formats'
import { INSTALLATION_ID } from '@eaas/protocol'
import {
  type AuditKey,
  entryMac,
  equalBytes,
  type Head,
  type KeptHead,
  type Witness,
} from '../../core/audit/formats/chain.js'
import { type HeadWithKey, readChain, readChains } from '../../core/store/audit.js'
import type { Queryable } from '../../core/store/db.js'
import { TamperedRowError } from '../../core/store/tampered-row.js'
import { acceptedVersionOf } from './acceptances.js'
import type { HeadWatch, HeadWatches } from './head-watch.js'
import { earliestOf, findGoneBack, isPast, passedBy, sealedOf } from './points.js'

/** How many entries after a point make a stretch. */
export const FOLLOWED_AT_ONCE = 1_000

/** The first entry that does not continue the log from a point. */
export interface Break {
  id: number
  /** `differs` from the point, or `forked`: it does not follow from the entries before it */
  kind: 'missing' | 'repeated' | 'differs' | 'forked'
}

/**
 * What following a log takes: its head, its key, and the entries from the point to the head or the first of
 * these.
 */
interface Followed {
  head: Head
  stretch: readonly ChainedEntry[]
  auditKey: AuditKey
}

/**
 * Follows a log from a point on. Returns where it does not continue, or what it reaches: `head` itself, or the
 * last entry of the stretch, with the lowest policy version that it can have had.
 */
export function followStretch(point: KeptHead, { head, stretch, auditKey }: Followed): Break | KeptHead {
  let { last_id: id, hash } = point
  const [first] = stretch
  const isFirst = first?.id === id
  if (!isFirst && id > 0) return { id, kind: 'missing' } // there is no entry 0
  if (isFirst && !equalBytes(first.hash, hash)) return { id, kind: 'differs' }
  const later = stretch.slice(isFirst ? 1 : 0)
  for (const entry of later) {
    if (entry.id === id) return { id, kind: 'repeated' }
    if (entry.id !== id + 1) return { id: id + 1, kind: 'missing' }
    hash = entryHash(hash, entry)
    id = entry.id
    if (!equalBytes(entry.hash, hash)) return { id, kind: 'forked' } // names the entry; the checks below notice any fork
  }
  if (id === head.last_id) return equalBytes(hash, head.hash) ? head : { id, kind: 'forked' }
  const last = later.at(-1)
  if (!last) return { id: id + 1, kind: 'missing' }
  if (!equalBytes(last.mac, entryMac(auditKey, id, hash))) return { id, kind: 'forked' }
  // An entry from after an accepted rollback must not count as one that the rollback lost.
  const policy_version = Math.max(point.policy_version, ...later.map(acceptedVersionOf))
  return { last_id: id, hash, policy_version, created_at: last.created_at, sealed: sealedOf(point) }
}

/** Follows a log from a point on, stretch by stretch, until one reaches the head or does not continue. */
export async function* followLog(
  sql: Queryable,
  start: KeptHead,
  { head, auditKey }: { head: Head; auditKey: AuditKey },
): AsyncGenerator<{ from: KeptHead; stretch: ChainedEntry[]; reached: Break | KeptHead }, void> {
  const { tenant_id, last_id: through_id } = head
  for (let from = start; ; ) {
    const where = { tenant_id, after_id: from.last_id - 1, through_id, limit: FOLLOWED_AT_ONCE + 1 }
    const stretch = await readChain(sql, where)
    const reached = followStretch(from, { head, stretch, auditKey })
    yield { from, stretch, reached }
    if ('kind' in reached || reached === head) return
    from = reached
  }
}

/**
 * Follows a log from all of its points by the entries from the earliest on, towards a head that the server
 * wrote: returns the head if these lead to it, what they reach if there are more, and undefined if something
 * is wrong; `HeadWatch.read` finds what.
 */
export function followAll(points: readonly KeptHead[], { head, stretch, auditKey }: Followed): KeptHead | undefined {
  if (points.some((point) => findGoneBack(head, point) !== undefined)) return undefined
  const from = earliestOf(points)
  const reached = from ? followStretch(from, { head, stretch, auditKey }) : head
  if ('kind' in reached) return undefined
  const passed = from ? passedBy(stretch, from, points) : []
  const isMissed = (point: KeptHead) => point.last_id <= reached.last_id && !passed.includes(point)
  return points.some(isMissed) ? undefined : reached
}

/** Most heads of one statement. */
export const LATER_AT_ONCE = 500
/** Most entries of one statement, the points aside. */
const ENTRIES_AT_ONCE = 50_000

/** Reads the entries from points on, by tenant: all up to the heads, or the first of each log. */
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

/** What opens the audit keys that are read with heads. */
export interface KeysOfHeads {
  /** of the installation's own log */
  installationKey: AuditKey
  /** opens the audit key of a tenant's row. @throws TamperedRowError */
  openKey: (row: { tenant_id: string; wrapped_audit_key: Uint8Array }) => AuditKey
}

/** The audit key that was read with a head; undefined if it is missing or was changed. */
export function keyOf(
  { tenant_id, wrapped_audit_key }: HeadWithKey,
  { installationKey, openKey }: KeysOfHeads,
): AuditKey | undefined {
  if (tenant_id === INSTALLATION_ID) return installationKey
  try {
    return wrapped_audit_key ? openKey({ tenant_id, wrapped_audit_key }) : undefined
  } catch (error) {
    if (!(error instanceof TamperedRowError)) throw error
    return undefined
  }
}

/**
 * Follows many logs from all of their points towards these heads, with one statement for each 500 logs.
 * Returns the logs whose head it did not reach. If one is broken, `HeadWatch.read` finds what is wrong.
 */
export async function followHeads(
  sql: Queryable,
  heads: readonly HeadWithKey[],
  { watches, ...keys }: { watches: HeadWatches } & KeysOfHeads,
): Promise<{ watch: HeadWatch; head: HeadWithKey; isBroken: boolean }[]> {
  const unreached: Awaited<ReturnType<typeof followHeads>> = []
  for (let at = 0; at < heads.length; at += LATER_AT_ONCE) {
    const some = heads.slice(at, at + LATER_AT_ONCE).map((head) => ({ head, watch: watches.get(head.tenant_id) }))
    // A head that this process has since passed by its own appends needs no comparison.
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
