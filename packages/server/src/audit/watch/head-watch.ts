/**
 * Watches the head of one tenant's chain. A head that is missing, forged or behind what was witnessed means that the database was
 * restored or tampered with: an alarm is raised, and the tenant is no longer served. Appending to it would fork the chain.
 */
import type { KeyObject } from 'node:crypto'
import { findHead, readChain } from '../../store/audit.js'
import { findLastMark } from '../../store/audit-purge.js'
import type { Queryable } from '../../store/db.js'
import { TamperedRowError } from '../../store/tampered-row.js'
import { assertFormats } from '../../store/text-formats.js'
import { ChainAlarmError, UnfollowedLogError } from '../append-errors.js'
import {
  type ChainedEntry,
  equalBytes,
  type Head,
  isHeadAuthentic,
  isKeptHeadAuthentic,
  type KeptHead,
  nextPolicyEpoch,
  purgeMarkMac,
  type Witness,
} from '../formats/chain.js'
import { findAcceptedRollback } from './accepted-rollback.js'
import { type Break, FOLLOWED_AT_ONCE, followStretch, sealedOf } from './follow-stretch.js'

/** How long one reading may follow a log, in milliseconds: less than a call waits for the database, and so than a lock of the head is held. */
const FOLLOW_MS = 2_000

/** Why a tenant is not served. */
export interface Alarm {
  reason: string
  /** the head that the chain should continue from; undefined if none was witnessed */
  witness: KeptHead | undefined
}

/** What a log no longer continues from, and how it shows. */
interface Loss {
  witness: KeptHead
  fault: string
}

/** The comparison of a head in the database with a witnessed one. */
interface Comparison {
  head: Head
  witnessed: KeptHead
  isEntryRead: boolean
  /** gets the heads from which the log continues */
  passed: Set<KeptHead>
}

/** A head that waits for the audit key. */
interface Kept {
  head: KeptHead
  /** of an anchor or an entry of the installation's log: nobody who tells of it need have seen the tenant's log */
  isAnchored: boolean
}

export class HeadWatch {
  #known: Head | undefined
  #witnessed: KeptHead | undefined
  /** what was told of this log, until the audit key is available to authenticate the policy versions */
  #kept: Kept[] = []
  /** the latest of those that were authenticated */
  #weighed: KeptHead | undefined
  /** further heads from which the log must continue: each until a head was read that continues from all */
  #besides: KeptHead[] = []
  /** those of them that an anchor told */
  readonly #anchored = new WeakSet<KeptHead>()
  #alarm: Alarm | undefined
  #hasCommitted = false
  /** whether this process read a head that continues from all that it knew, or committed one */
  #hasSeen = false

  constructor(
    readonly tenant_id: string,
    /** called once for each alarm */
    private readonly onAlarm: (tenant_id: string, reason: string) => void,
  ) {}

  /** The head in the database, as far as this process knows; undefined after `forget`. */
  get known(): Head | undefined {
    return this.#known
  }

  /** The latest head that was witnessed: committed or read by this process, or of a checkpoint that was kept. */
  get witnessed(): KeptHead | undefined {
    const kept = this.#kept.flatMap(({ head, isAnchored }) => (isAnchored ? [] : [head]))
    const besides = this.#besides.filter((witness) => !this.#anchored.has(witness))
    return [...besides, ...kept].reduce<KeptHead | undefined>(laterOf, this.#witnessed)
  }

  /** The latest head of an anchor from which the log must continue besides, and of which that is still to be seen. */
  get anchored(): KeptHead | undefined {
    const kept = this.#kept.flatMap(({ head, isAnchored }) => (isAnchored ? [head] : []))
    const besides = this.#besides.filter((witness) => this.#anchored.has(witness))
    return [...besides, ...kept].reduce<KeptHead | undefined>(laterOf, undefined)
  }

  /** The witnessed head, and every other one from which the log must continue and of which that is still to be seen. */
  get held(): KeptHead[] {
    return [...(this.#witnessed ? [this.#witnessed] : []), ...this.#besides, ...this.#kept.map(({ head }) => head)]
  }

  /** The same as an alarm may state it: the latest by its entry, with no policy version that is not proven yet. */
  get provenWitness(): KeptHead | undefined {
    return laterOf([...this.#besides].reduce<KeptHead | undefined>(laterOf, this.#witnessed), this.provenKept)
  }

  /** The same of the kept checkpoint and the anchor alone, without what was read or committed since. */
  get provenKept(): KeptHead | undefined {
    return this.#kept
      .map(({ head }) => ({ ...head, policy_version: 0 }))
      .reduce<KeptHead | undefined>(laterOf, this.#weighed)
  }

  get alarm(): Alarm | undefined {
    return this.#alarm
  }

  /** @throws ChainAlarmError after an alarm */
  assertNoAlarm(): void {
    if (this.#alarm !== undefined) throw new ChainAlarmError(this.#alarm.reason)
  }

  /** To be called when the outcome of a commit is unknown: the head is read again before anything is chained to it. */
  forget(): void {
    this.#known = undefined
  }

  /** Whether this process appended to the log. */
  get hasCommitted(): boolean {
    return this.#hasCommitted
  }

  /**
   * Records a head that this process committed. A commit that was given up on may end after later ones: the log must continue from it besides.
   * With the audit key, a kept head that was not compared yet is weighed first: one of before an accepted rollback must not count as the later one.
   */
  commit(head: Head, auditKey?: KeyObject): void {
    if (auditKey) this.#weighKept(auditKey)
    this.#hasCommitted = true
    const witnessed = this.#witnessed
    this.witness(head)
    if (witnessed && this.#witnessed === witnessed && !isSame(witnessed, head)) this.#besides.push(head)
  }

  /** Records a head that was committed, or that follows from the witnessed one. An older one than is known is ignored. */
  witness(head: Head): void {
    this.#hasSeen = true
    if (this.#witnessLater(head)) this.#known = head
  }

  /** Adopts a head of a log of which nothing was witnessed; returns false if no server wrote it. */
  adopt(head: Head, auditKey: KeyObject): boolean {
    if (this.held.length > 0 || !isHeadAuthentic(auditKey, head)) return false
    this.witness(head)
    return true
  }

  /**
   * Adopts a later head that another process wrote, if these entries lead to it from the witnessed one. As far as they lead, the log is witnessed.
   * If it is broken, `read` finds whether something is wrong.
   */
  follow(
    { head, stretch }: { head: Head; stretch: readonly ChainedEntry[] },
    auditKey: KeyObject,
  ): 'wholly' | 'in part' | 'broken' {
    this.#weighKept(auditKey)
    const from = earliestOf(this.held)
    if (!from) return 'broken'
    const reached = followAll(this.held, { head, stretch, auditKey })
    if (!reached) return 'broken'
    if (reached !== head) {
      this.#pass(from, reached, stretch)
      return 'in part'
    }
    this.#besides = []
    this.witness(head)
    return 'wholly'
  }

  // Only an accepted rollback lowers the id, and this process knows of the one that it committed: otherwise the log must continue from both.
  #witnessLater(head: Head): boolean {
    const witnessed = this.#witnessed
    if (witnessed && !isAtLeast(head, witnessed)) return false
    this.#witnessed = head
    const isAccepted = witnessed && nextPolicyEpoch(head.policy_version) > nextPolicyEpoch(witnessed.policy_version)
    if (witnessed && !isAccepted && !isPast(head, witnessed)) this.#besides.push(witnessed)
    return true
  }

  /** Records the head of a kept checkpoint, or one that another process witnessed. The log must continue from it besides all that is known. */
  remember(head: KeptHead): void {
    this.#kept.push({ head, isAnchored: false })
  }

  /**
   * Records the head that an anchor or another entry of the installation's log has of this log, from which the log must continue besides all that is
   * known. If this process has seen a later one, it need not, unless the database contradicts it. The root of an anchor proves its id and hash.
   */
  rememberAnchored(head: KeptHead, { isContradicted = false } = {}): void {
    const witnessed = this.#witnessed
    const isSeen = this.#hasSeen && witnessed !== undefined && isPast(witnessed, head)
    if (isSeen && (!isContradicted || isSame(witnessed, head))) return
    const isHeld = this.held.some((other) => isSame(other, head) && other.policy_version >= head.policy_version)
    if (!isHeld) this.#kept.push({ head, isAnchored: true })
  }

  /** Adopts an alarm that another process raised. */
  learn(alarm: Alarm): void {
    if (this.#alarm === undefined) this.#setAlarm(alarm)
  }

  /** Adopts the witness of an alarm that another process raised, if it is later than that of the own alarm. */
  learnWitness(witness: KeptHead | undefined): void {
    if (this.#alarm) this.#alarm = { ...this.#alarm, witness: laterOf(this.#alarm.witness, witness) }
  }

  /** Ends the alarm after an operator has settled it; the head is read and checked again before its next use. */
  release(): void {
    this.#alarm = undefined
    this.#known = undefined
  }

  /**
   * Reads the head and checks that the chain continues from what was witnessed; `find` may also lock it. If the head is the witnessed one, its
   * entry is taken to be there, which saves a read in each append, unless `isEntryRead`. @throws ChainAlarmError
   */
  async read<Where extends Queryable>(
    sql: Where,
    auditKey: KeyObject,
    find: (sql: Where, tenant_id: string) => Promise<Head | undefined> = findHead,
    { isEntryRead = false } = {},
  ): Promise<Head> {
    const head = await this.#readContinued(sql, auditKey, { find, isEntryRead })
    this.#known = head
    return head
  }

  /** Reads the policy version, and checks as `read` does. @throws ChainAlarmError */
  async readPolicyVersion(sql: Queryable, auditKey: KeyObject): Promise<number> {
    return (await this.#readContinued(sql, auditKey, { find: findHead, isEntryRead: false })).policy_version
  }

  async #readContinued<Where extends Queryable>(
    sql: Where,
    auditKey: KeyObject,
    { find, isEntryRead }: { find: (sql: Where, tenant_id: string) => Promise<Head | undefined>; isEntryRead: boolean },
  ): Promise<Head> {
    this.#weighKept(auditKey)
    // Taken before the read, which need not show what is committed meanwhile.
    const witnessed = this.#witnessed
    const held = this.held
    const head = await this.#readAuthentic(sql, auditKey, find)
    const passed = new Set<KeptHead>()
    const losses: Loss[] = []
    // The earliest first: from there the log is followed past the others.
    for (const witness of held.toSorted((a, b) => a.last_id - b.last_id)) {
      if (passed.has(witness)) continue
      const isRead = isEntryRead || witness !== witnessed
      const where = { head, witnessed: witness, isEntryRead: isRead, passed }
      const loss = await this.#findLoss(sql, auditKey, where)
      passed.add(witness)
      if (loss) losses.push(witness === witnessed ? { ...loss, witness: this.#witnessed ?? loss.witness } : loss)
    }
    // Of several heads that the log does not continue from, the latest one is what an operator must know of.
    const [first, ...others] = losses
    if (first) {
      const lost = others.reduce(
        (one, other) => (laterOf(one.witness, other.witness) === one.witness ? one : other),
        first,
      )
      await this.#raiseAlarm(sql, lost.fault, lost.witness)
    }
    this.#besides = this.#besides.filter((witness) => !passed.has(witness))
    this.#hasSeen = true
    // What was committed meanwhile is not displaced by what was read before.
    if (!this.#witnessed || passed.has(this.#witnessed)) this.#witnessed = head
    else if (!isPast(this.#witnessed, head)) this.#besides.push(head)
    return head
  }

  // A kept policy version without an authentic MAC of the head may have been edited, and counts as that of the last head before it that has one,
  // or 0. One that was raised would cause an alarm that no accepted rollback could end; one of 0, any that was accepted before would end: that of
  // an anchor counts as one of the time of what this process knows otherwise.
  #weighKept(auditKey: KeyObject): void {
    for (const { head, isAnchored } of this.#kept.splice(0)) {
      const unproven = isAnchored ? (this.#witnessed?.policy_version ?? 0) : 0
      const isProven = (each: KeptHead) => isKeptHeadAuthentic(auditKey, this.tenant_id, each)
      const sealed = [head, head.sealed].find((each) => each && isProven(each))
      const witness = sealed === head ? head : { ...head, policy_version: sealed?.policy_version ?? unproven, sealed }
      this.#weighed = laterOf(this.#weighed, witness)
      this.#hold(witness, isAnchored)
    }
  }

  // None takes the place of another one: somebody may have had another log anchored, or written into the file.
  #hold(witness: KeptHead, isAnchored: boolean): void {
    if (!this.#witnessed) {
      this.#witnessed = witness
      return
    }
    const same = this.held.find((other) => isSame(other, witness))
    if (same && same.policy_version >= witness.policy_version) return
    if (same && same === this.#witnessed) {
      this.#witnessed = witness
      return
    }
    if (isAnchored) this.#anchored.add(witness)
    this.#besides.push(witness)
  }

  // Several rows in the place of one: no server wrote them.
  async #orAlarm<T>(sql: Queryable, reading: Promise<T>): Promise<T> {
    try {
      return await reading
    } catch (error) {
      if (!(error instanceof TamperedRowError)) throw error
      return this.#raiseAlarm(sql, error.message)
    }
  }

  async #readAuthentic<Where extends Queryable>(
    sql: Where,
    auditKey: KeyObject,
    find: (sql: Where, tenant_id: string) => Promise<Head | undefined>,
  ): Promise<Head> {
    const head = await this.#orAlarm(sql, find(sql, this.tenant_id))
    if (!head) return this.#raiseAlarm(sql, 'the head of the audit chain is missing')
    if (!isHeadAuthentic(auditKey, head)) {
      return this.#raiseAlarm(sql, 'the head of the audit chain was not written by this server')
    }
    return head
  }

  /** What the log lost of a witnessed one, unless a purge took that or an operator accepted that it is lost. */
  async #findLoss(
    sql: Queryable,
    auditKey: KeyObject,
    { head, witnessed, isEntryRead, passed }: Comparison,
  ): Promise<Loss | undefined> {
    const fault = findGoneBack(head, witnessed)
    const loss =
      fault === undefined
        ? await this.#findFork(sql, auditKey, { head, witnessed, isEntryRead, passed })
        : { witness: witnessed, fault }
    if (!loss || !(await this.#isAccepted(sql, auditKey, loss.witness))) return loss
    passed.add(loss.witness)
    return undefined
  }

  // What was followed is kept at once, so that the reading gets through in the end however many entries there are. They are read before the
  // mark: a purge marks before it deletes, so the mark of a deleted entry exists.
  async #findFork(
    sql: Queryable,
    auditKey: KeyObject,
    { head, witnessed, isEntryRead, passed }: Comparison,
  ): Promise<Loss | undefined> {
    const { tenant_id } = this
    const { last_id } = witnessed
    // There is no entry 0 to read.
    if (head.last_id === last_id && (!isEntryRead || last_id === 0)) {
      const fault = faultOf({ id: last_id, kind: 'differs' })
      return equalBytes(head.hash, witnessed.hash) ? undefined : { witness: witnessed, fault }
    }
    const until = performance.now() + FOLLOW_MS
    for (let from = witnessed; ; ) {
      const where = { tenant_id, after_id: from.last_id - 1, through_id: head.last_id, limit: FOLLOWED_AT_ONCE + 1 }
      const stretch = await readChain(sql, where)
      const reached = followStretch(from, { head, stretch, auditKey })
      if ('kind' in reached) {
        const isPurged = reached.kind === 'missing' && (await this.#isPurged(sql, auditKey, reached.id))
        if (!isPurged) return { witness: from, fault: faultOf(reached) }
        passed.add(from)
        return undefined
      }
      for (const other of this.held) if (other === from || includes(stretch, other)) passed.add(other)
      if (reached === head) return undefined
      this.#pass(from, reached, stretch)
      if (performance.now() > until) throw new UnfollowedLogError()
      from = reached
    }
  }

  // A head that is reached counts only once the log is known to continue from everything that was witnessed. As far as a log was followed in
  // part, what lies before that is known to be in it.
  #pass(from: KeptHead, reached: KeptHead, stretch: readonly ChainedEntry[]): void {
    if (!this.held.includes(from)) return // what was committed meanwhile counts
    const isPassed = (witness: KeptHead) => witness === from || includes(stretch, witness)
    const others = this.#besides.filter((witness) => !isPassed(witness))
    const passed = this.held.filter(isPassed)
    const next = Object.assign(reached, {
      policy_version: Math.max(...[reached, ...passed].map((each) => each.policy_version)),
      sealed: passed.map(sealedOf).reduce(laterOf, undefined),
    })
    if (this.#witnessed && isPassed(this.#witnessed)) this.#witnessed = next
    else {
      if (this.#anchored.has(from)) this.#anchored.add(next)
      others.push(next)
    }
    this.#besides = others
  }

  // Whoever hides the row can write a mark too, but not one with a valid MAC.
  async #isPurged(sql: Queryable, auditKey: KeyObject, id: number): Promise<boolean> {
    const mark = await findLastMark(sql, this.tenant_id)
    return mark !== undefined && mark.purged_through >= id && equalBytes(mark.mac, purgeMarkMac(auditKey, mark))
  }

  // An operator may have accepted that the entries after `agrees_through` are lost: then the log in the database counts.
  async #isAccepted(sql: Queryable, auditKey: KeyObject, witness: KeptHead): Promise<boolean> {
    const accepted = await findAcceptedRollback(sql, { tenant_id: this.tenant_id, auditKey }, witness)
    return accepted !== undefined && witness.last_id > accepted.agrees_through
  }

  // A session in which rows are not read as they were written proves nothing.
  async #raiseAlarm(
    sql: Queryable,
    reason: string,
    witness = this.#besides.reduce<KeptHead | undefined>(laterOf, this.#witnessed),
  ): Promise<never> {
    await assertFormats(sql)
    if (this.#alarm === undefined) this.#setAlarm({ reason, witness })
    throw new ChainAlarmError(reason)
  }

  #setAlarm(alarm: Alarm): void {
    this.#alarm = alarm
    this.onAlarm(this.tenant_id, alarm.reason)
  }
}

function faultOf({ id, kind }: Break): string {
  if (kind === 'missing') return `entry ${id} of the audit chain is missing, and no purge deleted it`
  if (kind === 'repeated') return `there are several entries ${id} of the audit chain`
  return kind === 'differs'
    ? `entry ${id} of the audit chain differs from the one that was written`
    : `entry ${id} of the audit chain does not follow from those that were written`
}

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

function includes(stretch: readonly ChainedEntry[], { last_id, hash }: Witness): boolean {
  return stretch.some((entry) => entry.id === last_id && equalBytes(entry.hash, hash))
}

/** The one of the later entry, which is what an operator must know of; of the same entry the one of the higher policy version, or else the first. */
export function laterOf(one: KeptHead | undefined, other: KeptHead | undefined): KeptHead | undefined {
  if (!one || !other) return one ?? other
  if (one.last_id !== other.last_id) return one.last_id > other.last_id ? one : other
  return other.policy_version > one.policy_version ? other : one
}

/** What is wrong with a head that is before the witnessed one; undefined if it is not. An accepted rollback may explain it. */
export function findGoneBack(head: Witness, witnessed: Witness): string | undefined {
  if (head.last_id >= witnessed.last_id && head.policy_version >= witnessed.policy_version) return undefined
  const from =
    head.last_id < witnessed.last_id
      ? `from entry ${witnessed.last_id} to ${head.last_id}`
      : `to before a change of rights (policy version ${witnessed.policy_version}, now ${head.policy_version})`
  return `the audit chain went back ${from}: the database was restored or tampered with`
}
