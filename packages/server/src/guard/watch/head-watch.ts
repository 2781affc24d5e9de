// Watches one log. If it does not continue from its points, the database was restored or tampered with. Then an alarm
// is raised, and the tenant is no longer served, since appending would fork the chain.
import type { ChainedEntry } from '@eaas/audit/formats'
import { ChainAlarmError, TenantGoneError, UnfollowedLogError } from '../../core/audit/append-errors.js'
import { followAuditKey, isHeadGenuine } from '../../core/audit/audit-key.js'
import { type AuditKey, type Head, isHeadAuthentic, type KeptHead } from '../../core/audit/formats/chain.js'
import type { Guard } from '../../core/audit/guard.js'
import { findAuthenticMark } from '../../core/audit/read-entry.js'
import { findHead } from '../../core/store/audit.js'
import type { Queryable } from '../../core/store/db.js'
import { assertJudgeable, TamperedRowError } from '../../core/store/tampered-row.js'
import { findAcceptedRollback } from './acceptances.js'
import { Comparisons } from './comparisons.js'
import { readStretch } from './follow.js'
import {
  changedAnchored,
  type Evidence,
  followAll,
  judge,
  type Loss,
  laterOf,
  latestLoss,
  type Verdict,
} from './judge.js'
import { Points } from './points.js'

// In milliseconds, how long one reading may follow a log: less than calls wait for a lock of the head.
const FOLLOW_MS = 2_000

export interface Alarm {
  reason: string
  witness: KeptHead | undefined // the head from which the chain should continue; undefined if none was witnessed
}

/** Whether an operator deleted the tenant, or accepted that it is gone, with all that was witnessed of its log. */
type IsGone = (sql: Queryable, tenant_id: string, witness: KeptHead | undefined) => Promise<boolean>

export class HeadWatch {
  readonly held: Points // the heads from which the log must continue
  #known: Head | undefined
  #alarm: Alarm | undefined
  #hasCommitted = false

  constructor(
    readonly tenant_id: string,
    private readonly onAlarm: (tenant_id: string, reason: string) => void, // called once for each alarm
    private readonly isGone: IsGone = async () => false,
  ) {
    this.held = new Points(tenant_id)
  }

  /** The head that this process knows; undefined after `forget`. */
  get known(): Head | undefined {
    return this.#known
  }

  get witnessed(): KeptHead | undefined {
    return this.held.witnessed
  }

  get alarm(): Alarm | undefined {
    return this.#alarm
  }

  assertNoAlarm(): void {
    if (this.#alarm !== undefined) throw new ChainAlarmError(this.#alarm.reason)
  }

  /** After a commit with an unknown outcome: the head is read again before anything is chained to it. */
  forget(): void {
    this.#known = undefined
  }

  get hasCommitted(): boolean {
    return this.#hasCommitted
  }

  commit(head: Head): void {
    this.#hasCommitted = true
    this.witness(head)
  }

  witness(head: Head): void {
    if (this.held.commit(head)) this.#known = head
  }

  // Follows the log as far as these entries lead; adopts the first head of a log. `read` finds the fault of a broken one.
  follow(
    { head, stretch }: { head: Head; stretch: readonly ChainedEntry[] },
    auditKey: AuditKey,
  ): 'wholly' | 'in part' | 'broken' {
    // A point from another source may be under a newer audit key than this one; `read` reads the keys again.
    if (!isHeadAuthentic(auditKey, head) || this.held.hasUnweighed(head.last_id)) return 'broken'
    this.held.weigh(auditKey)
    const followed = this.held.forged ? undefined : followAll(this.held.all, { head, stretch, auditKey })
    if (!followed) return 'broken'
    this.held.reach(followed.reached, new Set(followed.passed))
    if (followed.reached !== head) return 'in part'
    this.#known = head
    return 'wholly'
  }

  // With a text, the alarm states the latest known head. A tenant that was deleted while its log was read gets no alarm.
  // @throws WrongFormatError, HiddenRowsError, without an alarm
  async raise(sql: Queryable, alarm: string | Alarm): Promise<void> {
    await assertJudgeable(sql)
    const known = typeof alarm === 'string' ? { reason: alarm, witness: this.held.proven } : alarm
    if (!(await this.isGone(sql, this.tenant_id, known.witness ?? this.held.proven))) this.learn(known)
  }

  learn(alarm: Alarm): void {
    if (this.#alarm !== undefined) return
    this.#alarm = alarm
    this.onAlarm(this.tenant_id, alarm.reason)
  }

  /** Adopts the witness of another process's alarm if it is later. */
  learnWitness(witness: KeptHead | undefined): void {
    if (this.#alarm) this.#alarm = { ...this.#alarm, witness: laterOf(this.#alarm.witness, witness) }
  }

  /** After an operator settled the alarm: before its next use, the head is read and checked again. */
  release(): void {
    this.#alarm = undefined
    this.#known = undefined
    this.held.settle()
  }

  // Reads the head with `find`, which may lock it, and checks that the log continues from its points. Without
  // `isEntryRead`, assumes that the entry of the head that this process knows is there, which saves appends a read.
  // @throws ChainAlarmError, UnfollowedLogError, TenantGoneError
  async read<Where extends Queryable>(
    sql: Where,
    auditKey: AuditKey,
    find: (sql: Where, tenant_id: string) => Promise<Head | undefined> = findHead,
    { isEntryRead = false } = {},
  ): Promise<Head> {
    if (this.held.hasUnweighed()) await followAuditKey(sql, auditKey) // the head of such a point may be under a newer key
    this.held.weigh(auditKey)
    // Taken before the read, which may miss heads that are committed meanwhile.
    const { current, all, forged } = this.held
    const head = await this.#readAuthentic(sql, auditKey, find)
    const passed = new Set<KeptHead>()
    const losses: Loss[] = []
    // The earliest first: from there, the log is followed past the others.
    for (const from of all.toSorted((one, other) => one.last_id - other.last_id)) {
      if (passed.has(from)) continue
      const isRead = isEntryRead || from !== current
      const loss = await this.#follow(sql, { auditKey, head, from, isEntryRead: isRead }, passed)
      if (loss) losses.push(loss)
    }
    if (forged) losses.push(changedAnchored(forged, Math.max(forged.policy_version, head.policy_version)))
    const lost = latestLoss(losses)
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
      return this.#raiseAlarm(sql, error.message) // several rows in the place of one, which no server writes
    })
    if (!head) return this.#raiseAlarm(sql, 'the head of the audit chain is missing')
    if (!(await isHeadGenuine(sql, auditKey, head))) {
      return this.#raiseAlarm(sql, 'the head of the audit chain was not written by this server')
    }
    return head
  }

  // Follows the log to its head or to the loss, and adds the points on the way to `passed`. Records each stretch at
  // once, so that repeated reads reach the head however many entries there are.
  async #follow(
    sql: Queryable,
    { from: point, ...known }: Pick<Evidence, 'auditKey' | 'head' | 'from' | 'isEntryRead'>,
    passed: Set<KeptHead>,
  ): Promise<Loss | undefined> {
    const until = performance.now() + FOLLOW_MS
    for (let from = point; ; ) {
      const verdict = await this.#judge(sql, { ...known, tenant_id: this.tenant_id, from, isFollowed: from !== point })
      passed.add(point).add(from)
      if (verdict.kind === 'lost') return verdict.loss
      if (verdict.kind === 'explained') return undefined
      for (const other of verdict.passed) passed.add(other)
      if (verdict.reached === known.head) return undefined
      this.held.reach(verdict.reached, new Set(verdict.passed))
      if (performance.now() > until) throw new UnfollowedLogError()
      from = verdict.reached
    }
  }

  /** Reads what the verdict needs, in the order in which `judge` asks for it. */
  async #judge(sql: Queryable, evidence: Omit<Evidence, 'points'>): Promise<Exclude<Verdict, { kind: 'open' }>> {
    const { tenant_id, auditKey, from, head } = evidence
    for (;;) {
      const verdict = judge({ ...evidence, points: this.held.all })
      if (verdict.kind !== 'open') return verdict
      if (verdict.needs === 'stretch') evidence.stretch = await readStretch(sql, from, head)
      else if (verdict.needs === 'mark')
        evidence.mark = (await findAuthenticMark(sql, { tenant_id, auditKey })) ?? 'none'
      else {
        const accepted = await findAcceptedRollback(sql, { tenant_id, auditKey }, from)
        evidence.acceptances = accepted ? [accepted] : []
      }
    }
  }

  async #raiseAlarm(sql: Queryable, reason: string, witness = this.held.proven): Promise<never> {
    await this.raise(sql, { reason, witness })
    if (!this.#alarm) throw new TenantGoneError(`tenant ${this.tenant_id} is gone`)
    throw new ChainAlarmError(reason)
  }
}

export class HeadWatches implements Guard {
  readonly #watches = new Map<string, HeadWatch>()

  constructor(
    private readonly onAlarm: (tenant_id: string, reason: string) => void,
    readonly comparisons = new Comparisons(),
    private readonly isGone?: IsGone,
  ) {}

  get(tenant_id: string): HeadWatch {
    let watch = this.#watches.get(tenant_id)
    if (!watch) {
      watch = new HeadWatch(tenant_id, this.onAlarm, this.isGone)
      this.#watches.set(tenant_id, watch)
    }
    return watch
  }

  all(): Iterable<HeadWatch> {
    return this.#watches.values()
  }

  alarmed(): HeadWatch[] {
    return [...this.all()].filter(({ alarm }) => alarm !== undefined)
  }

  assertServed(tenant_id: string): void {
    this.get(tenant_id).assertNoAlarm()
    this.comparisons.assertNotOverdue(tenant_id)
  }

  knownHead(tenant_id: string): Head | undefined {
    return this.get(tenant_id).known
  }

  readHead<Where extends Queryable>(
    sql: Where,
    { tenant_id, auditKey }: { tenant_id: string; auditKey: AuditKey },
    find?: (sql: Where, tenant_id: string) => Promise<Head | undefined>,
  ): Promise<Head> {
    return this.get(tenant_id).read(sql, auditKey, find)
  }

  committed(head: Head): void {
    this.get(head.tenant_id).commit(head)
  }

  outcomeUnknown(tenant_id: string): void {
    this.get(tenant_id).forget()
  }

  lostHead(tenant_id: string): KeptHead | undefined {
    return this.get(tenant_id).alarm?.witness
  }

  alarmedTenants(): string[] {
    return this.alarmed().map(({ tenant_id }) => tenant_id)
  }

  ahead(clock: { isAhead(last: { created_at: string }): boolean }): { tenant_id: string; created_at: string }[] {
    return [...this.all()]
      .flatMap(({ tenant_id, witnessed: { created_at } = {} }) =>
        created_at !== undefined && clock.isAhead({ created_at }) ? [{ tenant_id, created_at }] : [],
      )
      .sort((a, b) => (a.created_at < b.created_at ? 1 : -1))
  }
}

/** The core has them only as its guard. */
export function watchesOf({ guard }: { guard: Guard }): HeadWatches {
  if (!(guard instanceof HeadWatches)) throw new Error('this process has no watches')
  return guard
}
