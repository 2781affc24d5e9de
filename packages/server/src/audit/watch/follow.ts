/**
 * Whether a chain continues from a witnessed head. The stored hash of the witnessed entry proves nothing by
 * itself: somebody who has the database can put it there for the moment in which a process looks. So the
 * entries after it are hashed again, stretch by stretch, up to the head.
 */

import type { KeyObject } from 'node:crypto'
import { type ChainedEntry, entryHash } from '@eaas/audit'
import { type HeadWithKey, readChain, readChains } from '../../store/audit.js'
import type { Queryable } from '../../store/db.js'
import {
  entryMac,
  equalBytes,
  type Head,
  isHeadAuthentic,
  isKeptHeadAuthentic,
  type KeptHead,
  type Witness,
} from '../formats/chain.js'
import { acceptedVersionOf } from './acceptances.js'
import { earliestOf, findGoneBack, includes, sealedOf } from './points.js'

/**
 * A time that the entry of a witness is not before, exactly its own if the head is proven or if this process
 * followed the log to it; undefined if none is known. A head has the time of its last entry (chain.md 5).
 */
export function earliestTimeOf(
  witness: KeptHead,
  where: { tenant_id: string; auditKey: KeyObject },
): string | undefined {
  const { created_at, mac, sealed } = witness
  // A time without a MAC is that of an entry whose hash this process computed: nothing else that tells of a
  // head has the one without the other.
  const isKnown = mac === undefined || isKeptHeadAuthentic(where.auditKey, where.tenant_id, witness)
  if (created_at !== undefined && isKnown) return created_at
  return sealed && earliestTimeOf(sealed, where)
}

/** How many entries after the witnessed one make a stretch. */
export const FOLLOWED_AT_ONCE = 1_000

export interface Break {
  /**
   * the entry that is missing, that is there several times, that differs from the one that was written, or
   * that does not follow from those that were
   */
  id: number
  kind: 'missing' | 'repeated' | 'differs' | 'forked'
}

/**
 * Follows a chain from the witnessed head on. Returns where it does not continue, or the entry that it
 * reaches: `head` itself, or the last one of the stretch, from which the next one goes on. The policy version
 * of that one is the least that it can have had.
 * @param stretch the witnessed entry and those after it up to `head`, in order, or the first of them
 */
export function followStretch(
  witnessed: KeptHead,
  { head, stretch, auditKey }: { head: Head; stretch: readonly ChainedEntry[]; auditKey: KeyObject },
): Break | KeptHead {
  let { last_id: id, hash } = witnessed
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
    if (!equalBytes(entry.hash, hash)) return { id, kind: 'forked' } // only tells which one it is
  }
  if (id === head.last_id) return equalBytes(hash, head.hash) ? head : { id, kind: 'forked' }
  const last = later.at(-1)
  if (!last) return { id: id + 1, kind: 'missing' }
  if (!equalBytes(last.mac, entryMac(auditKey, hash))) return { id, kind: 'forked' }
  // An entry of after an accepted rollback must not count as one that this lost.
  const policy_version = Math.max(witnessed.policy_version, ...later.map(acceptedVersionOf))
  return { last_id: id, hash, policy_version, created_at: last.created_at, sealed: sealedOf(witnessed) }
}

/**
 * Follows a log from a head on, stretch by stretch, until one reaches the head in the database or does not
 * continue. Each stretch has the entries from `from` on, and what they reach.
 */
export async function* followLog(
  sql: Queryable,
  start: KeptHead,
  { head, auditKey }: { head: Head; auditKey: KeyObject },
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
 * Follows a log from everything that it must continue from: returns the head if these entries lead to it from
 * all of that, what they reach if there are more, and undefined if it is to be found out what is wrong.
 * @param stretch from the earliest of the held heads on
 */
export function followAll(
  held: readonly KeptHead[],
  { head, stretch, auditKey }: { head: Head; stretch: readonly ChainedEntry[]; auditKey: KeyObject },
): KeptHead | undefined {
  const from = earliestOf(held)
  if (!from || !isHeadAuthentic(auditKey, head)) return undefined
  if (held.some((witness) => findGoneBack(head, witness) !== undefined)) return undefined
  const reached = followStretch(from, { head, stretch, auditKey })
  if ('kind' in reached) return undefined
  // One that these entries should have, and don't.
  const isMissed = (witness: Witness) =>
    witness !== from && witness.last_id <= reached.last_id && !includes(stretch, witness)
  return held.some(isMissed) ? undefined : reached
}

/** Most heads of one statement. */
export const LATER_AT_ONCE = 500
/** Most entries of one statement, the witnessed ones aside. */
const ENTRIES_AT_ONCE = 50_000

/** A head in the database that is after the witnessed one, or the same. */
export interface Later {
  witness: Witness
  head: HeadWithKey
}

/** Reads the witnessed entries and those after them: all up to the heads, or the first of each log. */
export async function readLater(
  sql: Queryable,
  later: readonly Later[],
): Promise<(Later & { stretch: ChainedEntry[] })[]> {
  if (later.length === 0) return []
  const stretches = later.map(({ witness, head }) => ({
    tenant_id: head.tenant_id,
    after_id: witness.last_id - 1,
    through_id: head.last_id,
  }))
  const limit = Math.min(FOLLOWED_AT_ONCE, Math.ceil(ENTRIES_AT_ONCE / later.length)) + 1
  const entries = await readChains(sql, stretches, limit)
  return later.map((each) => ({ ...each, stretch: entries.get(each.head.tenant_id) ?? [] }))
}
