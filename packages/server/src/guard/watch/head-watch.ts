/**
 * Watches one tenant's log. If it does not continue from its points, the database was restored or tampered
 * with: an alarm is raised, and the tenant is no longer served. Appending would fork the chain.
 */

import type { ChainedEntry } from '@eaas/audit/formats'
import { ChainAlarmError, UnfollowedLogError } from '../../core/audit/append-errors.js'
import { followAuditKey, isHeadGenuine } from '../../core/audit/audit-key.js'
import {
  type AuditKey,
  type Head,
  isHeadAuthentic,
  isKeptHeadAuthentic,
  type KeptHead,
} from '../../core/audit/formats/chain.js'
import { findAuthenticMark } from '../../core/audit/read-entry.js'
import { findHead } from '../../core/store/audit.js'
import type { Queryable } from '../../core/store/db.js'
import { TamperedRowError } from '../../core/store/tampered-row.js'
import { assertJudgeable } from '../../core/store/whole-tables.js'
import { findAcceptedRollback } from './acceptances.js'
import { Comparisons } from './comparisons.js'
import { type Break, followAll, followLog } from './follow.js'
import { earliestOf, findGoneBack, isSame, laterOf, latestOf, Points, passedBy } from './points.js'

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
 * The alarm about a kept copy of an anchored head whose MAC is not the server's. Nothing proves the copy's
 * policy version, so it takes the given one, the log's present one: a rollback that an operator accepted
 * earlier must not explain the copy.
 */
export function changedAnchored({ last_id, hash }: KeptHead, policy_version: number): Loss {
  return { fault: 'the anchored head was changed outside the server', witness: { last_id, hash, policy_version } }
}

/** The comparison of a head in the database with a point. */
interface Comparison {
  head: Head
  point: KeptHead
  /** whether its entry is read even if it is that of the head */
  isEntryRead: boolean
  /** gets the points that the log passes */
  passed: Set<KeptHead>
}

export class HeadWatch {
  /** what the log must continue from */
  readonly held: Points
  #known: Head | undefined
  #alarm: Alarm | undefined
  #hasCommitted = false

  constructor(
    readonly tenant_id: string,
    /** called once for each alarm */
    private readonly onAlarm: (tenant_id: string, reason: string) => void,
  ) {
    this.held = new Points(tenant_id)
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

  /** Records a head that this process committed. */
  commit(head: Head): void {
    this.#hasCommitted = true
    this.witness(head)
  }

  /** Records a head that this process knows to be in the log. */
  witness(head: Head): void {
    if (this.held.commit(head)) this.#known = head
  }

  /**
   * Follows the log to a head that another process wrote, as far as these entries lead from the points; the
   * first head of a log is adopted. If the log is broken, `read` finds whether something is wrong.
   */
  follow(
    { head, stretch }: { head: Head; stretch: readonly ChainedEntry[] },
    auditKey: AuditKey,
  ): 'wholly' | 'in part' | 'broken' {
    // A point that was told may be under a newer audit key than this one: `read` reads the keys again.
    if (!isHeadAuthentic(auditKey, head) || this.held.hasUnweighed(head.last_id)) return 'broken'
    this.held.weigh(auditKey)
    const { all, forged } = this.held
    const reached = forged ? undefined : followAll(all, { head, stretch, auditKey })
    if (!reached) return 'broken'
    const isWhole = reached === head
    const from = earliestOf(all)
    this.held.reach(reached, new Set(from && !isWhole ? passedBy(stretch, from, all) : all))
    if (isWhole) this.#known = head
    return isWhole ? 'wholly' : 'in part'
  }

  /**
   * Raises an alarm; one that is given as a text states the latest head that is known. @throws WrongFormatError,
   * HiddenRowsError if `sql` does not show what is in the tables: then nothing is known, and no alarm is raised
   */
  async raise(sql: Queryable, alarm: string | Alarm): Promise<void> {
    await assertJudgeable(sql)
    this.learn(typeof alarm === 'string' ? { reason: alarm, witness: this.held.proven } : alarm)
  }

  /** Adopts an alarm that was raised. */
  learn(alarm: Alarm): void {
    if (this.#alarm !== undefined) return
    this.#alarm = alarm
    this.onAlarm(this.tenant_id, alarm.reason)
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

  /** Reads the policy version, and checks as `read` does. @throws ChainAlarmError */
  async readPolicyVersion(sql: Queryable, auditKey: AuditKey): Promise<number> {
    return (await this.read(sql, auditKey)).policy_version
  }

  /**
   * Reads the head and checks that the log continues from its points; `find` may also lock it. If the head is
   * the one that this process knows, its entry is assumed to be there, which saves a read in each append,
   * unless `isEntryRead`. @throws ChainAlarmError, UnfollowedLogError
   */
  async read<Where extends Queryable>(
    sql: Where,
    auditKey: AuditKey,
    find: (sql: Where, tenant_id: string) => Promise<Head | undefined> = findHead,
    { isEntryRead = false } = {},
  ): Promise<Head> {
    if (this.held.hasUnweighed()) await followAuditKey(sql, auditKey) // what was told may be under a newer key
    this.held.weigh(auditKey)
    // Taken before the read, which may miss what is committed meanwhile.
    const { current, all, forged } = this.held
    const head = await this.#readAuthentic(sql, auditKey, find)
    const passed = new Set<KeptHead>()
    const losses: Loss[] = []
    // The earliest first: from there the log is followed past the others.
    for (const point of all.toSorted((one, other) => one.last_id - other.last_id)) {
      if (passed.has(point)) continue
      const isRead = isEntryRead || point !== current
      const loss = await this.#findLoss(sql, auditKey, { head, point, passed, isEntryRead: isRead })
      if (loss) losses.push(loss)
    }
    if (forged) losses.push(changedAnchored(forged, Math.max(forged.policy_version, head.policy_version)))
    // If the log does not continue from several points, the alarm states the latest one.
    const latest = latestOf(losses.map(({ witness }) => witness))
    const lost = losses.find(({ witness }) => witness === latest)
    if (lost) await this.#raiseAlarm(sql, lost.fault, lost.witness)
    this.held.reach(head, passed)
    if (this.held.current === head) this.#known = head
    return head
  }

  async #readAuthentic<Where extends Queryable>(
    sql: Where,
    auditKey: AuditKey,
    find: (sql: Where, tenant_id: string) => Promise<Head | undefined>,
  ): Promise<Head> {
    const head = await find(sql, this.tenant_id).catch((error: unknown) => {
      if (!(error instanceof TamperedRowError)) throw error
      return this.#raiseAlarm(sql, error.message) // several rows in the place of one: no server wrote them
    })
    if (!head) return this.#raiseAlarm(sql, 'the head of the audit chain is missing')
    if (!(await isHeadGenuine(sql, auditKey, head))) {
      return this.#raiseAlarm(sql, 'the head of the audit chain was not written by this server')
    }
    return head
  }

  /**
   * Finds whether the log lost a point, or an entry after it, that neither a purge nor an accepted rollback
   * explains. Adds the points that the log passes to `passed`.
   */
  async #findLoss(sql: Queryable, auditKey: AuditKey, comparison: Comparison): Promise<Loss | undefined> {
    const { tenant_id } = this
    const { head, point, passed } = comparison
    const fault = findGoneBack(head, point)
    const loss = fault === undefined ? await this.#findFork(sql, auditKey, comparison) : { witness: point, fault }
    passed.add(point)
    const accepted = loss && (await findAcceptedRollback(sql, { tenant_id, auditKey }, loss.witness))
    // The entries after `agrees_through` are lost, as an operator accepted.
    return accepted && loss.witness.last_id > accepted.agrees_through ? undefined : loss
  }

  // Each stretch is recorded at once, so repeated reads reach the head however many entries there are. The
  // entries are read before the mark: a purge writes the mark before it deletes, so a deleted entry has one.
  async #findFork(
    sql: Queryable,
    auditKey: AuditKey,
    { head, point, isEntryRead, passed }: Comparison,
  ): Promise<Loss | undefined> {
    const { last_id } = point
    // There is no entry 0 to read.
    if (head.last_id === last_id && (!isEntryRead || last_id === 0)) {
      return isSame(head, point) ? undefined : { witness: point, fault: faultOf({ id: last_id, kind: 'differs' }) }
    }
    const until = performance.now() + FOLLOW_MS
    for await (const { from, stretch, reached } of followLog(sql, point, { head, auditKey })) {
      if ('kind' in reached) {
        const isPurged = reached.kind === 'missing' && (await this.#isPurged(sql, auditKey, { from, id: reached.id }))
        passed.add(from)
        return isPurged ? undefined : { witness: from, fault: faultOf(reached) }
      }
      const onTheWay = passedBy(stretch, from, this.held.all)
      for (const other of onTheWay) passed.add(other)
      if (reached === head) return undefined
      this.held.reach(reached, new Set(onTheWay))
      if (performance.now() > until) throw new UnfollowedLogError()
    }
    return undefined
  }

  // An attacker who hides an entry can also write a mark, but with a valid MAC only if a server purged
  // another log in the place of this one. Everything that a purge took of this log, `from` included, is from
  // before the cutoff of its mark (chain.md 8).
  async #isPurged(sql: Queryable, auditKey: AuditKey, { from, id }: { from: KeptHead; id: number }): Promise<boolean> {
    const { tenant_id } = this
    const mark = await findAuthenticMark(sql, { tenant_id, auditKey })
    if (!mark || mark.purged_through < id) return false
    // A head has the time of its last entry (chain.md 5). Only a head that this process computed by following
    // the log has a time without a MAC.
    const isKnown = (head: KeptHead) => head.mac === undefined || isKeptHeadAuthentic(auditKey, tenant_id, head)
    const times = [from, from.sealed].map((head) => head && isKnown(head) && head.created_at)
    return times.every((time) => !time || time < mark.cutoff)
  }

  async #raiseAlarm(sql: Queryable, reason: string, witness = this.held.proven): Promise<never> {
    await this.raise(sql, { reason, witness })
    throw new ChainAlarmError(reason)
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
