/** How heads of one log compare: which one is later, and which ones contradict each other. */
import { equalBytes, type KeptHead, type Witness } from '../formats/chain.js'

/** Whether a head is the other one or after it. An accepted rollback raises the version and lowers the id. */
export function isAtLeast(head: Witness, other: Witness): boolean {
  if (head.policy_version !== other.policy_version) return head.policy_version > other.policy_version
  return head.last_id >= other.last_id
}

/** Whether a head is that of an entry at or after the other one's, and no policy version says that it is of before that. */
export function isPast(head: Witness, other: Witness): boolean {
  return head.last_id >= other.last_id && head.policy_version >= other.policy_version
}

/** Whether two heads are of the same entry. */
export function isSame(head: Witness, other: Witness): boolean {
  return head.last_id === other.last_id && equalBytes(head.hash, other.hash)
}

/** The one of the earliest entry, from which a log is followed past the others. */
export function earliestOf(held: readonly KeptHead[]): KeptHead | undefined {
  return held.reduce<KeptHead | undefined>(
    (one, other) => (one && one.last_id <= other.last_id ? one : other),
    undefined,
  )
}

/** The one of the later entry, which is what an operator must know of; of the same entry the one of the higher policy version, or else the first. */
export function laterOf(one: KeptHead | undefined, other: KeptHead | undefined): KeptHead | undefined {
  if (!one || !other) return one ?? other
  if (one.last_id !== other.last_id) return one.last_id > other.last_id ? one : other
  return other.policy_version > one.policy_version ? other : one
}

/** The latest of several heads, by `laterOf`. */
export function latestOf(heads: readonly (KeptHead | undefined)[]): KeptHead | undefined {
  return heads.reduce(laterOf, undefined)
}

/** What is wrong with a head that is before the witnessed one; undefined if it is not. An accepted rollback may explain it. */
export function findGoneBack(head: Witness, witnessed: Witness): string | undefined {
  if (isPast(head, witnessed)) return undefined
  const from =
    head.last_id < witnessed.last_id
      ? `from entry ${witnessed.last_id} to ${head.last_id}`
      : `to before a change of rights (policy version ${witnessed.policy_version}, now ${head.policy_version})`
  return `the audit chain went back ${from}: the database was restored or tampered with`
}
