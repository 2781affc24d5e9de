/**
 * Watches the head of one tenant's chain. A head that is missing, forged or behind what was witnessed means
 * that the database was restored or tampered with: an alarm is raised, and the tenant is no longer served.
 * Appending to it would fork the chain.
 */

import type { KeyObject } from 'node:crypto'
import type { ChainedEntry } from '@eaas/audit'
import { findHead } from '../../store/audit.js'
import { findLastMark } from '../../store/audit-purge.js'
import type { Queryable } from '../../store/db.js'
import { TamperedRowError } from '../../store/tampered-row.js'
import { assertFormats } from '../../store/text-formats.js'
import { ChainAlarmError, UnfollowedLogError } from '../append-errors.js'
import { equalBytes, type Head, isHeadAuthentic, type KeptHead, purgeMarkMac } from '../formats/chain.js'
import { findAcceptedRollback } from './acceptances.js'
import { Comparisons } from './comparisons.js'
import { type Break, earliestTimeOf, followAll, followLog } from './follow.js'
import { earliestOf, findGoneBack, HeldHeads, includes, laterOf, latestOf } from './points.js'

/**
 * How long one reading may follow a log, in milliseconds: less than a call waits for the database, and so
 * than a lock of the head is held.
 */
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

/**
 * The alarm about a kept copy of an anchored head whose MAC is not the server's. Nothing proves its policy
 * version: it counts as the one that is given, which is that of the log as it is, so that no rollback
 * explains the copy that an operator accepted before.
 */
export function changedAnchored({ last_id, hash }: KeptHead, policy_version: number): Loss {
  return { fault: 'the anchored head was changed outside the server', witness: { last_id, hash, policy_version } }
}

/** The comparison of a head in the database with a witnessed one. */
interface Comparison {
  head: Head
  witnessed: KeptHead
  isEntryRead: boolean
  /** gets the heads from which the log continues */
  passed: Set<KeptHead>
}

export class HeadWatch {
  /** what the log must continue from */
  readonly held: HeldHeads
  #known: Head | undefined
  #alarm: Alarm | undefined
  #hasCommitted = false

  constructor(
    readonly tenant_id: string,
    /** called once for each alarm */
    private readonly onAlarm: (tenant_id: string, reason: string) => void,
  ) {
    this.held = new HeldHeads(tenant_id)
  }

  /** The head in the database, as far as this process knows; undefined after `forget`. */
  get known(): Head | undefined {
    return this.#known
  }

  /** The latest head that was witnessed. */
  get witnessed(): KeptHead | undefined {
    return this.held.witnessed
  }

  get alarm(): Alarm | undefined {
    return this.#alarm
  }

  /** @throws ChainAlarmError after an alarm */
  assertNoAlarm(): void {
    if (this.#alarm !== undefined) throw new ChainAlarmError(this.#alarm.reason)
  }

  /**
   * To be called when the outcome of a commit is unknown: the head is read again before anything is chained
   * to it.
   */
  forget(): void {
    this.#known = undefined
  }

  /** Whether this process appended to the log. */
  get hasCommitted(): boolean {
    return this.#hasCommitted
  }

  /**
   * Records a head that this process committed. With the audit key, what was told and not compared yet is
   * weighed first: a head of before an accepted rollback must not count as the later one.
   */
  commit(head: Head, auditKey?: KeyObject): void {
    if (auditKey) this.held.weigh(auditKey)
    this.#hasCommitted = true
    if (this.held.commit(head)) this.#known = head
  }

  /**
   * Records a head that was committed, or that follows from the witnessed one. An older one than is known is
   * ignored.
   */
  witness(head: Head): void {
    if (this.held.witness(head)) this.#known = head
  }

  /** Adopts a head of a log of which nothing was witnessed; returns false if no server wrote it. */
  adopt(head: Head, auditKey: KeyObject): boolean {
    if (this.held.all.length > 0 || !isHeadAuthentic(auditKey, head)) return false
    this.witness(head)
    return true
  }

  /**
   * Adopts a later head that another process wrote, if these entries lead to it from the witnessed one. As
   * far as they lead, the log is witnessed. If it is broken, `read` finds whether something is wrong.
   */
  follow(
    { head, stretch }: { head: Head; stretch: readonly ChainedEntry[] },
    auditKey: KeyObject,
  ): 'wholly' | 'in part' | 'broken' {
    this.held.weigh(auditKey)
    const from = earliestOf(this.held.all)
    const reached = followAll(this.held.all, { head, stretch, auditKey })
    if (!from || !reached || this.held.forged) return 'broken'
    if (reached !== head) {
      this.held.followedTo(reached, from, stretch)
      return 'in part'
    }
    if (this.held.followed(head)) this.#known = head
    return 'wholly'
  }

  /** Adopts an alarm that another process raised. */
  learn(alarm: Alarm): void {
    if (this.#alarm === undefined) this.#setAlarm(alarm)
  }

  /**
   * Adopts the witness of an alarm that another process raised, if it is later than that of the own alarm.
   */
  learnWitness(witness: KeptHead | undefined): void {
    if (this.#alarm) this.#alarm = { ...this.#alarm, witness: laterOf(this.#alarm.witness, witness) }
  }

  /**
   * Ends the alarm after an operator has settled it; the head is read and checked again before its next use.
   */
  release(): void {
    this.#alarm = undefined
    this.#known = undefined
    this.held.settle()
  }

  /**
   * Reads the head and checks that the chain continues from what was witnessed; `find` may also lock it. If
   * the head is the witnessed one, its entry is taken to be there, which saves a read in each append, unless
   * `isEntryRead`. @throws ChainAlarmError
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
    this.held.weigh(auditKey)
    // Taken before the read, which need not show what is committed meanwhile.
    const { current, all } = this.held
    const head = await this.#readAuthentic(sql, auditKey, find)
    const passed = new Set<KeptHead>()
    const losses: Loss[] = []
    // The earliest first: from there the log is followed past the others.
    for (const witness of all.toSorted((a, b) => a.last_id - b.last_id)) {
      if (passed.has(witness)) continue
      const isRead = isEntryRead || witness !== current
      const where = { head, witnessed: witness, isEntryRead: isRead, passed }
      const loss = await this.#findLoss(sql, auditKey, where)
      passed.add(witness)
      if (loss) losses.push(witness === current ? { ...loss, witness: this.held.current ?? loss.witness } : loss)
    }
    const { forged } = this.held
    if (forged) losses.push(changedAnchored(forged, Math.max(forged.policy_version, head.policy_version)))
    // Of several heads that the log does not continue from, the latest one is what an operator must know of.
    const [first, ...others] = losses
    if (first) {
      const lost = others.reduce(
        (one, other) => (laterOf(one.witness, other.witness) === one.witness ? one : other),
        first,
      )
      await this.#raiseAlarm(sql, lost.fault, lost.witness)
    }
    this.held.read(head, passed)
    return head
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

  /**
   * What the log lost of a witnessed one, unless a purge took that or an operator accepted that it is lost.
   */
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

  // What was followed is kept at once, so that the reading gets through in the end however many entries there
  // are. They are read before the mark: a purge marks before it deletes, so the mark of a deleted entry
  // exists.
  async #findFork(
    sql: Queryable,
    auditKey: KeyObject,
    { head, witnessed, isEntryRead, passed }: Comparison,
  ): Promise<Loss | undefined> {
    const { last_id } = witnessed
    // There is no entry 0 to read.
    if (head.last_id === last_id && (!isEntryRead || last_id === 0)) {
      const fault = faultOf({ id: last_id, kind: 'differs' })
      return equalBytes(head.hash, witnessed.hash) ? undefined : { witness: witnessed, fault }
    }
    const until = performance.now() + FOLLOW_MS
    for await (const { from, stretch, reached } of followLog(sql, witnessed, { head, auditKey })) {
      if ('kind' in reached) {
        const isPurged = reached.kind === 'missing' && (await this.#isPurged(sql, auditKey, { from, id: reached.id }))
        if (!isPurged) return { witness: from, fault: faultOf(reached) }
        passed.add(from)
        return undefined
      }
      for (const other of this.held.all) if (other === from || includes(stretch, other)) passed.add(other)
      if (reached === head) return undefined
      this.held.followedTo(reached, from, stretch)
      if (performance.now() > until) throw new UnfollowedLogError()
    }
    return undefined
  }

  // Whoever hides the row can write a mark too, but not one with a valid MAC, unless a server purged another
  // log in the place of this one. Whatever a purge took of this log, `from` and all entries before included,
  // is of before the cutoff of its mark (chain.md 8).
  async #isPurged(sql: Queryable, auditKey: KeyObject, { from, id }: { from: KeptHead; id: number }): Promise<boolean> {
    const { tenant_id } = this
    const mark = await findLastMark(sql, tenant_id)
    if (!mark || mark.purged_through < id || !equalBytes(mark.mac, purgeMarkMac(auditKey, mark))) return false
    const time = earliestTimeOf(from, { tenant_id, auditKey })
    return time === undefined || time < mark.cutoff
  }

  // An operator may have accepted that the entries after `agrees_through` are lost: then the log in the
  // database counts.
  async #isAccepted(sql: Queryable, auditKey: KeyObject, witness: KeptHead): Promise<boolean> {
    const accepted = await findAcceptedRollback(sql, { tenant_id: this.tenant_id, auditKey }, witness)
    return accepted !== undefined && witness.last_id > accepted.agrees_through
  }

  // A session in which rows are not read as they were written proves nothing.
  async #raiseAlarm(sql: Queryable, reason: string, witness = latestOf(this.held.weighed)): Promise<never> {
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

export interface HeadWatches {
  /** The watch over a tenant's head, created at first use. */
  get(tenant_id: string): HeadWatch
  all(): Iterable<HeadWatch>
  /** The watches of tenants that are not served. */
  alarmed(): HeadWatch[]
  /** The logs whose last entry is ahead of this clock, the furthest first. */
  ahead(clock: { isAhead(last: { created_at: string }): boolean }): { tenant_id: string; created_at: string }[]
  /** how the comparisons of the chains with these watches went */
  readonly comparisons: Comparisons
}

/** Creates the watches; `onAlarm` is called once for each alarm. */
export function createHeadWatches(
  onAlarm: (tenant_id: string, reason: string) => void,
  comparisons = new Comparisons(),
): HeadWatches {
  const watches = new Map<string, HeadWatch>()
  function get(tenant_id: string): HeadWatch {
    let watch = watches.get(tenant_id)
    if (!watch) {
      watch = new HeadWatch(tenant_id, onAlarm)
      watches.set(tenant_id, watch)
    }
    return watch
  }
  return {
    get,
    all: () => watches.values(),
    alarmed: () => [...watches.values()].filter(({ alarm }) => alarm !== undefined),
    ahead: (clock) =>
      [...watches.values()]
        .flatMap(({ tenant_id, witnessed: { created_at } = {} }) =>
          created_at !== undefined && clock.isAhead({ created_at }) ? [{ tenant_id, created_at }] : [],
        )
        .sort((a, b) => (a.created_at < b.created_at ? 1 : -1)),
    comparisons,
  }
}
