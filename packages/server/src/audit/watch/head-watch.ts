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
  purgeMarkMac,
  type Witness,
} from '../formats/chain.js'
import { findAcceptedRollback } from './accepted-rollback.js'
import { type Break, FOLLOWED_AT_ONCE, followStretch } from './follow-stretch.js'

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

export class HeadWatch {
  #known: Head | undefined
  #witnessed: KeptHead | undefined
  /** the statements of a kept checkpoint and of an anchor, until the audit key is available to authenticate their policy versions */
  #kept: KeptHead[] = []
  /** the latest of those that were authenticated */
  #weighed: KeptHead | undefined
  /** what the newest anchor has of this log, until the audit key is available */
  #anchorKept: KeptHead | undefined
  /** the same after that, if something else was witnessed besides: until a head was read that continues from it */
  #anchored: { witness: KeptHead } | undefined
  #alarm: Alarm | undefined
  #hasCommitted = false

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
    return this.#kept.at(-1) ?? this.#witnessed
  }

  /** A head of the newest anchor from which the log must continue besides, and of which that is still to be seen. */
  get anchored(): KeptHead | undefined {
    return this.#anchorKept ?? this.#anchored?.witness
  }

  /** The same as an alarm may state it: the latest by its entry, with no policy version that is not proven yet. */
  get provenWitness(): KeptHead | undefined {
    return laterOf(this.#witnessed, this.provenKept)
  }

  /** The same of the kept checkpoint and the anchor alone, without what was read or committed since. */
  get provenKept(): KeptHead | undefined {
    const kept = [...this.#kept, ...(this.#anchorKept ? [this.#anchorKept] : [])]
    return kept.map((head) => ({ ...head, policy_version: 0 })).reduce<KeptHead | undefined>(laterOf, this.#weighed)
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
   * Records a head that this process committed. A commit that was given up on may end after later ones, so an older head is ignored. With the
   * audit key, a kept head that was not compared yet is weighed first: one of before an accepted rollback must not count as the later one.
   */
  commit(head: Head, auditKey?: KeyObject): void {
    if (auditKey) this.#weighKept(auditKey)
    this.#hasCommitted = true
    this.witness(head)
  }

  /** Records a head that was committed. An older one than is known is ignored. */
  witness(head: Head): void {
    if (this.#witnessLater(head)) this.#known = head
  }

  /** Adopts a head of a log of which nothing was witnessed; returns false if no server wrote it. */
  adopt(head: Head, auditKey: KeyObject): boolean {
    if (!isHeadAuthentic(auditKey, head)) return false
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
    const from = this.#witnessed
    if (!from || !isHeadAuthentic(auditKey, head)) return 'broken'
    const reached = followStretch(from, { head, stretch, auditKey })
    if ('kind' in reached) return 'broken'
    this.#pass(from, reached === head ? from : reached, stretch)
    if (reached !== head) return 'in part'
    if (this.#anchored) return 'broken'
    this.witness(head)
    return 'wholly'
  }

  #witnessLater(head: Head): boolean {
    if (this.#witnessed && !isAtLeast(head, this.#witnessed)) return false
    this.#witnessed = head
    return true
  }

  /** Records the head of a kept checkpoint or of an anchor: id and hash are signed. */
  remember(kept: KeptHead): void {
    this.#kept.push(kept)
  }

  /**
   * Records the head that the newest anchor has of this log, unless what was witnessed is at or after it, or an earlier anchor's is still to be
   * compared. The root of the anchor proves its id and hash.
   */
  rememberAnchored(head: KeptHead): void {
    if (!(this.witnessed && isPast(this.witnessed, head))) this.#anchorKept ??= head
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
    const anchored = this.#anchored
    const head = await this.#readAuthentic(sql, auditKey, find)
    const loss = witnessed && (await this.#findLoss(sql, auditKey, { head, witnessed, isEntryRead }))
    if (anchored && this.#anchored === anchored) {
      // Not passed on the way. Of two heads that the log does not continue from, the later one is what an operator must know of.
      const other = await this.#findLoss(sql, auditKey, { head, witnessed: anchored.witness, isEntryRead: true })
      const isLater = other && other.witness === laterOf(loss?.witness, other.witness)
      if (isLater) await this.#raiseAlarm(sql, other.fault, other.witness)
      if (this.#anchored === anchored) this.#anchored = undefined
    }
    if (loss) await this.#raiseAlarm(sql, loss.fault, this.#witnessed)
    this.#witnessLater(head)
    return head
  }

  // A kept policy version without an authentic MAC of the head may have been edited, and counts as that of the last head before it that has one,
  // or 0. One that was raised would cause an alarm that no accepted rollback could end; one of 0, any that was accepted before would end.
  #weighKept(auditKey: KeyObject): void {
    for (const kept of this.#kept.splice(0)) {
      const isProven = (head: KeptHead) => isKeptHeadAuthentic(auditKey, this.tenant_id, head)
      const sealed = [kept, kept.sealed].find((head) => head && isProven(head))
      const witness = sealed === kept ? kept : { ...kept, policy_version: sealed?.policy_version ?? 0, sealed }
      if (!this.#witnessed || isAtLeast(witness, this.#witnessed)) this.#witnessed = witness
      this.#weighed = laterOf(this.#weighed, witness)
    }
    const kept = this.#anchorKept
    this.#anchorKept = undefined
    if (kept) this.#weighAnchored(auditKey, kept)
  }

  // It does not take the place of what this process knows otherwise: somebody may have had another log anchored. If somebody edited its policy
  // version, it counts as one of the time of that.
  #weighAnchored(auditKey: KeyObject, kept: KeptHead): void {
    const isProven = isKeptHeadAuthentic(auditKey, this.tenant_id, kept)
    const witness = isProven ? kept : { ...kept, policy_version: this.#witnessed?.policy_version ?? 0 }
    this.#weighed = laterOf(this.#weighed, witness)
    if (!this.#witnessed) this.#witnessed = witness
    else if (!isPast(this.#witnessed, witness)) this.#anchored ??= { witness }
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
    { head, witnessed, isEntryRead }: { head: Head; witnessed: KeptHead; isEntryRead: boolean },
  ): Promise<Loss | undefined> {
    const fault = findGoneBack(head, witnessed)
    const loss =
      fault === undefined
        ? await this.#findFork(sql, auditKey, { head, witnessed, isEntryRead })
        : { witness: witnessed, fault }
    return loss && !(await this.#isAccepted(sql, auditKey, { head, ...loss })) ? loss : undefined
  }

  // What was followed is kept at once, so that the reading gets through in the end however many entries there are. They are read before the
  // mark: a purge marks before it deletes, so the mark of a deleted entry exists.
  async #findFork(
    sql: Queryable,
    auditKey: KeyObject,
    { head, witnessed, isEntryRead }: { head: Head; witnessed: KeptHead; isEntryRead: boolean },
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
        if (reached.kind === 'missing' && (await this.#isPurged(sql, auditKey, reached.id))) return undefined
        return { witness: from, fault: faultOf(reached) }
      }
      this.#pass(from, reached === head ? from : reached, stretch)
      if (reached === head) return undefined
      if (performance.now() > until) throw new UnfollowedLogError()
      from = reached
    }
  }

  // A head that is reached counts only once the log is known to continue from everything that was witnessed.
  #pass(from: KeptHead, reached: KeptHead, stretch: readonly ChainedEntry[]): void {
    if (this.#anchored && includes(stretch, this.#anchored.witness)) this.#anchored = undefined
    if (this.#witnessed === from) this.#witnessed = reached
    else if (this.#anchored?.witness === from) this.#anchored.witness = reached
  }

  // Whoever hides the row can write a mark too, but not one with a valid MAC.
  async #isPurged(sql: Queryable, auditKey: KeyObject, id: number): Promise<boolean> {
    const mark = await findLastMark(sql, this.tenant_id)
    return mark !== undefined && mark.purged_through >= id && equalBytes(mark.mac, purgeMarkMac(auditKey, mark))
  }

  // An operator may have accepted that the entries after `agrees_through` are lost: then the log in the database counts.
  async #isAccepted(
    sql: Queryable,
    auditKey: KeyObject,
    { head, witness }: { head: Head; witness: Witness },
  ): Promise<boolean> {
    const accepted = await findAcceptedRollback(sql, { tenant_id: this.tenant_id, auditKey }, witness)
    if (!accepted || witness.last_id <= accepted.agrees_through) return false
    if (this.#witnessed === witness) this.#witnessed = head
    return true
  }

  // A session in which rows are not read as they were written proves nothing.
  async #raiseAlarm(
    sql: Queryable,
    reason: string,
    witness = laterOf(this.#witnessed, this.#anchored?.witness),
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
function isPast(head: Witness, other: Witness): boolean {
  return head.last_id >= other.last_id && head.policy_version >= other.policy_version
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
