/**
 * The points of one tenant's log: the heads from which it must continue (README.md). This process read or
 * committed them, or checkpoints, anchors and other processes told them. None takes the place of another one
 * until the log is known to continue from both. Nothing here reads the database.
 */

import type { KeyObject } from 'node:crypto'
import type { ChainedEntry } from '@eaas/audit'
import {
  equalBytes,
  type Head,
  isKeptHeadAuthentic,
  type KeptHead,
  nextPolicyEpoch,
  type Witness,
} from '../formats/chain.js'

/** A head that waits for the audit key. */
interface Kept {
  head: KeptHead
  /**
   * of an anchor or an entry of the installation's log: nobody who tells of it need have seen the tenant's
   * log
   */
  isAnchored: boolean
  /** a copy that was kept with an anchor: a server wrote its MAC */
  isCopy: boolean
}

export class HeldHeads {
  #current: KeptHead | undefined
  /** what was told of this log, until the audit key is available to authenticate the policy versions */
  #kept: Kept[] = []
  /** the latest of those that were authenticated */
  #latestWeighed: KeptHead | undefined
  /** further heads from which the log must continue: each until a head was read that continues from all */
  #besides: KeptHead[] = []
  /** those of them that an anchor told */
  readonly #anchored = new WeakSet<KeptHead>()
  /** the latest copy of an anchored head whose MAC is not the server's, until that is settled */
  #forged: KeptHead | undefined
  /** whether this process read a head that continues from all that it knew, or committed one */
  #hasSeen = false

  constructor(private readonly tenant_id: string) {}

  /** The one that this process read or committed last; until then the first that it was told. */
  get current(): KeptHead | undefined {
    return this.#current
  }

  /**
   * The latest head that was witnessed: committed or read by this process, or of a checkpoint that was kept.
   */
  get witnessed(): KeptHead | undefined {
    const kept = this.#kept.flatMap(({ head, isAnchored }) => (isAnchored ? [] : [head]))
    const besides = this.#besides.filter((witness) => !this.#anchored.has(witness))
    return latestOf([this.#current, ...besides, ...kept])
  }

  /**
   * The latest head of an anchor from which the log must continue besides, and of which that is still to be
   * seen.
   */
  get anchored(): KeptHead | undefined {
    const kept = this.#kept.flatMap(({ head, isAnchored }) => (isAnchored ? [head] : []))
    const besides = this.#besides.filter((witness) => this.#anchored.has(witness))
    return latestOf([...besides, ...kept])
  }

  /**
   * The current one, and every other one from which the log must continue and of which that is still to be
   * seen.
   */
  get all(): KeptHead[] {
    return [...this.weighed, ...this.#kept.map(({ head }) => head)]
  }

  /** The same without those that wait for the audit key. */
  get weighed(): KeptHead[] {
    return [...(this.#current ? [this.#current] : []), ...this.#besides]
  }

  /** The latest one as an alarm may state it: by its entry, with no policy version that is not proven yet. */
  get proven(): KeptHead | undefined {
    return latestOf([...this.weighed, this.provenKept])
  }

  /** The same of the kept checkpoint and the anchor alone, without what was read or committed since. */
  get provenKept(): KeptHead | undefined {
    return latestOf([this.#latestWeighed, ...this.#kept.map(({ head }) => ({ ...head, policy_version: 0 }))])
  }

  /**
   * The latest copy of an anchored head that somebody changed: its MAC is not the server's. The root of the
   * anchor proves its id and hash alone.
   */
  get forged(): KeptHead | undefined {
    return this.#forged
  }

  /**
   * Records that an operator accepted what is in the database: no copy that was told before counts as
   * changed.
   */
  settle(): void {
    this.#forged = undefined
    for (const kept of this.#kept) kept.isCopy = false
  }

  /** Records the head of a kept checkpoint. The log must continue from it besides all that is known. */
  remember(head: KeptHead): void {
    this.#kept.push({ head, isAnchored: false, isCopy: false })
  }

  /**
   * Records the head that an anchor or another entry of the installation's log has of this log, from which
   * the log must continue besides all that is known. If this process has seen a later one, it need not,
   * unless the database contradicts it. The root of an anchor proves its id and hash.
   */
  rememberAnchored(head: KeptHead, { isContradicted = false } = {}): void {
    const current = this.#current
    const isSeen = this.#hasSeen && current !== undefined && isPast(current, head)
    if (isSeen && (!isContradicted || isSame(current, head))) return
    const isHeld = this.all.some((other) => isSame(other, head) && other.policy_version >= head.policy_version)
    if (!isHeld) this.#kept.push({ head, isAnchored: true, isCopy: head.mac !== undefined })
  }

  /**
   * Weighs what was told, now that the audit key is available. A kept policy version without an authentic MAC
   * of the head may have been edited, and counts as that of the last head before it that has one, or 0. One
   * that was raised would cause an alarm that no accepted rollback could end; one of 0, any that was accepted
   * before would end: that of an anchor counts as one of the time of what this process knows otherwise.
   */
  weigh(auditKey: KeyObject): void {
    for (const { head, isAnchored, isCopy } of this.#kept.splice(0)) {
      const unproven = isAnchored ? (this.#current?.policy_version ?? 0) : 0
      const isProven = (each: KeptHead) => isKeptHeadAuthentic(auditKey, this.tenant_id, each)
      const sealed = [head, head.sealed].find((each) => each && isProven(each))
      const witness = sealed === head ? head : { ...head, policy_version: sealed?.policy_version ?? unproven, sealed }
      if (isCopy && sealed !== head) this.#forged = laterOf(this.#forged, witness)
      this.#latestWeighed = laterOf(this.#latestWeighed, witness)
      this.#hold(witness, isAnchored)
    }
  }

  // None takes the place of another one: somebody may have had another log anchored, or written into the
  // file.
  #hold(witness: KeptHead, isAnchored: boolean): void {
    if (!this.#current) {
      this.#current = witness
      return
    }
    const same = this.weighed.find((other) => isSame(other, witness))
    if (same && same.policy_version >= witness.policy_version) return
    if (same && same === this.#current) {
      this.#current = witness
      return
    }
    if (isAnchored) this.#anchored.add(witness)
    this.#besides.push(witness)
  }

  /**
   * Records a head that was committed, or that follows from the witnessed one. An older one than is known is
   * ignored: it returns false.
   */
  witness(head: Head): boolean {
    this.#hasSeen = true
    const before = this.#current
    if (before && !isAtLeast(head, before)) return false
    this.#current = head
    // Only an accepted rollback lowers the id, and this process knows of the one that it committed: otherwise
    // the log must continue from both.
    const isAccepted = before && nextPolicyEpoch(head.policy_version) > nextPolicyEpoch(before.policy_version)
    if (before && !isAccepted && !isPast(head, before)) this.#besides.push(before)
    return true
  }

  /**
   * Records a head that this process committed, as `witness` does. A commit that was given up on may end
   * after later ones: the log must continue from it besides.
   */
  commit(head: Head): boolean {
    const before = this.#current
    const isLatest = this.witness(head)
    if (!isLatest && before && !isSame(before, head)) this.#besides.push(head)
    return isLatest
  }

  /** Records a head that continues from all of them. */
  followed(head: Head): boolean {
    this.#besides = []
    return this.witness(head)
  }

  /**
   * Records how far a log was followed. What was reached counts only once the log is known to continue from
   * everything else; what lies before it is known to be in the log.
   * @param stretch the entries from `from` to `reached`
   */
  followedTo(reached: KeptHead, from: KeptHead, stretch: readonly ChainedEntry[]): void {
    if (!this.all.includes(from)) return // what was committed meanwhile counts
    const isPassed = (witness: KeptHead) => witness === from || includes(stretch, witness)
    const others = this.#besides.filter((witness) => !isPassed(witness))
    const passed = this.all.filter(isPassed)
    const next = Object.assign(reached, {
      policy_version: Math.max(...[reached, ...passed].map((each) => each.policy_version)),
      sealed: latestOf(passed.map(sealedOf)),
    })
    if (this.#current && isPassed(this.#current)) this.#current = next
    else {
      if (this.#anchored.has(from)) this.#anchored.add(next)
      others.push(next)
    }
    this.#besides = others
  }

  /** Records a head that was read, and those of the others from which it continues. */
  read(head: Head, passed: ReadonlySet<KeptHead>): void {
    this.#besides = this.#besides.filter((witness) => !passed.has(witness))
    this.#hasSeen = true
    // What was committed meanwhile is not displaced by what was read before.
    if (!this.#current || passed.has(this.#current)) this.#current = head
    else if (!isPast(this.#current, head)) this.#besides.push(head)
  }
}

/** Whether a head is the other one or after it. An accepted rollback raises the version and lowers the id. */
export function isAtLeast(head: Witness, other: Witness): boolean {
  if (head.policy_version !== other.policy_version) return head.policy_version > other.policy_version
  return head.last_id >= other.last_id
}

/**
 * Whether a head is that of an entry at or after the other one's, and no policy version says that it is of
 * before that.
 */
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

/**
 * The one of the later entry, which is what an operator must know of; of the same entry the one of the higher
 * policy version, or else the first.
 */
export function laterOf(one: KeptHead | undefined, other: KeptHead | undefined): KeptHead | undefined {
  if (!one || !other) return one ?? other
  if (one.last_id !== other.last_id) return one.last_id > other.last_id ? one : other
  return other.policy_version > one.policy_version ? other : one
}

/** The latest of several heads, by `laterOf`. */
export function latestOf(heads: readonly (KeptHead | undefined)[]): KeptHead | undefined {
  return heads.reduce(laterOf, undefined)
}

/**
 * What is wrong with a head that is before the witnessed one; undefined if it is not. An accepted rollback
 * may explain it.
 */
export function findGoneBack(head: Witness, witnessed: Witness): string | undefined {
  if (isPast(head, witnessed)) return undefined
  const from =
    head.last_id < witnessed.last_id
      ? `from entry ${witnessed.last_id} to ${head.last_id}`
      : `to before a change of rights (policy version ${witnessed.policy_version}, now ${head.policy_version})`
  return `the audit chain went back ${from}: the database was restored or tampered with`
}

/**
 * What proves a witness to another process: itself if it has a MAC, else the last head before it that has
 * one; undefined if none is known.
 */
export function sealedOf(witness: KeptHead): KeptHead | undefined {
  return witness.mac ? witness : witness.sealed
}

/** Whether the entry of a head is one of these. */
export function includes(stretch: readonly ChainedEntry[], { last_id, hash }: Witness): boolean {
  return stretch.some((entry) => entry.id === last_id && equalBytes(entry.hash, hash))
}
