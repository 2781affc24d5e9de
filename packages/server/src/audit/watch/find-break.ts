/**
 * Whether a chain continues from a witnessed head. The stored hash of the witnessed entry proves nothing by itself: somebody who has the
 * database can put it there for the moment in which a process looks. So the entries after it are hashed again, up to a head that has a MAC.
 */
import type { KeyObject } from 'node:crypto'
import { type ChainedEntry, entryHash, entryMac, equalBytes, type Head, type Witness } from '../formats/chain.js'

/**
 * How many entries after the witnessed one are read. If others wrote more since, the last of these has to have the server's MAC: whoever hides a
 * fork behind them needs so many genuine entries, and the process that wrote them has witnessed them, unless it has ended.
 */
export const FOLLOWED_ENTRIES = 100

export interface Break {
  /** the entry that is missing, that differs from the one that was written, or that does not follow from those that were */
  id: number
  kind: 'missing' | 'differs' | 'forked'
}

/**
 * Finds where a chain does not continue from the witnessed head to the one in the database; undefined if it does.
 * @param stretch the witnessed entry and those after it up to `head`, in order, at most `FOLLOWED_ENTRIES` after it
 */
export function findBreak(
  witnessed: Witness,
  { head, stretch, auditKey }: { head: Head; stretch: readonly ChainedEntry[]; auditKey: KeyObject },
): Break | undefined {
  let { last_id: id, hash } = witnessed
  const [first] = stretch
  const isFirst = first?.id === id
  if (!isFirst && id > 0) return { id, kind: 'missing' } // there is no entry 0
  if (isFirst && !equalBytes(first.hash, hash)) return { id, kind: 'differs' }
  const later = stretch.slice(isFirst ? 1 : 0)
  for (const entry of later) {
    if (entry.id !== id + 1) return { id: id + 1, kind: 'missing' }
    hash = entryHash(hash, entry)
    id = entry.id
    if (!equalBytes(entry.hash, hash)) return { id, kind: 'forked' } // only tells which one it is
  }
  const last = later.at(-1)
  if (id === head.last_id) return equalBytes(hash, head.hash) ? undefined : { id, kind: 'forked' }
  if (!last || later.length < FOLLOWED_ENTRIES) return { id: id + 1, kind: 'missing' }
  return equalBytes(last.mac, entryMac(auditKey, hash)) ? undefined : { id, kind: 'forked' }
}
