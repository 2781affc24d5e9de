/**
 * Whether a chain continues from a witnessed head. The stored hash of the witnessed entry proves nothing by itself: somebody who has the
 * database can put it there for the moment in which a process looks. So the entries after it are hashed again, stretch by stretch, up to the head.
 */
import type { KeyObject } from 'node:crypto'
import {
  type ChainedEntry,
  entryHash,
  entryMac,
  equalBytes,
  type Head,
  isHeadAuthentic,
  isKeptHeadAuthentic,
  type KeptHead,
  type Witness,
} from '../formats/chain.js'
import { acceptedVersionOf } from './accepted-rollback.js'
import { earliestOf, findGoneBack } from './compare-heads.js'

/** What proves a witness to another process: itself if it has a MAC, else the last head before it that has one; undefined if none is known. */
export function sealedOf(witness: KeptHead): KeptHead | undefined {
  return witness.mac ? witness : witness.sealed
}

/**
 * A time that the entry of a witness is not before, exactly its own if the head is proven or if this process followed the log to it; undefined if none
 * is known. A head has the time of its last entry (chain.md 5).
 */
export function earliestTimeOf(
  witness: KeptHead,
  where: { tenant_id: string; auditKey: KeyObject },
): string | undefined {
  const { created_at, mac, sealed } = witness
  // A time without a MAC is that of an entry whose hash this process computed: nothing else that tells of a head has the one without the other.
  const isKnown = mac === undefined || isKeptHeadAuthentic(where.auditKey, where.tenant_id, witness)
  if (created_at !== undefined && isKnown) return created_at
  return sealed && earliestTimeOf(sealed, where)
}

/** How many entries after the witnessed one make a stretch. */
export const FOLLOWED_AT_ONCE = 1_000

export interface Break {
  /** the entry that is missing, that is there several times, that differs from the one that was written, or that does not follow from those that were */
  id: number
  kind: 'missing' | 'repeated' | 'differs' | 'forked'
}

/**
 * Follows a chain from the witnessed head on. Returns where it does not continue, or the entry that it reaches: `head` itself, or the last one of
 * the stretch, from which the next one goes on. The policy version of that one is the least that it can have had.
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
 * Follows a log from everything that it must continue from: returns the head if these entries lead to it from all of that, what they reach if
 * there are more, and undefined if it is to be found out what is wrong.
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

/** Whether the entry of a head is one of these. */
export function includes(stretch: readonly ChainedEntry[], { last_id, hash }: Witness): boolean {
  return stretch.some((entry) => entry.id === last_id && equalBytes(entry.hash, hash))
}
