/**
 * Whether this process can still compare the chains in the database with what it witnessed. Otherwise an attacker could
 * lock a table, cut a log off and wait for a restart. So the server serves nothing while the comparison is overdue.
 */
import { ComparisonOverdueError } from '../../core/audit/append-errors.js'

/**
 * How long comparisons may fail before the next failure makes them overdue, in milliseconds: more than two statements
 * that time out.
 */
export const OVERDUE_MS = 10_000

export class Comparisons {
  #succeededAt: number
  /** when the last whole round began, in which every tenant had its turn */
  #roundAt: number
  /** when the round began that is under way; undefined if a run of it failed */
  #beganAt: number | undefined
  #isOverdue = false
  /** tenants whose logs alone could not be compared: since when, when that was tried last, and whether for too long */
  readonly #unreached = new Map<string, { since: number; triedAt: number; isOverdue: boolean }>()

  /** `elapsed` is in milliseconds, of a clock that never goes back */
  constructor(private readonly elapsed: () => number = () => performance.now()) {
    this.#succeededAt = this.#roundAt = elapsed()
  }

  get isOverdue(): boolean {
    return this.#isOverdue
  }

  /** The tenants whose comparison is overdue although others are compared. */
  get overdueTenants(): string[] {
    return [...this.#unreached].flatMap(([tenant_id, { isOverdue }]) => (isOverdue ? [tenant_id] : []))
  }

  /**
   * At least the age of the oldest comparison of a tenant, in milliseconds: the time since the last whole round began,
   * or since the start until one has ended.
   */
  get age(): number {
    return this.elapsed() - this.#roundAt
  }

  /**
   * Records a run, which compared all tenants or those whose turn it was: it may begin a round over all of them, and
   * may end it.
   */
  succeeded({ begins = true, ends = true } = {}): void {
    this.#succeededAt = this.elapsed()
    this.#isOverdue = false
    if (begins) this.#beganAt = this.#succeededAt
    if (ends && this.#beganAt !== undefined) this.#roundAt = this.#beganAt
  }

  /**
   * Records a run that failed. Time alone makes nothing overdue: a process that was suspended has merely not compared
   * yet. `isCertain`: until something changes, no run can succeed, and calls would miss rows too.
   */
  failed({ isCertain = false } = {}): void {
    this.#beganAt = undefined
    this.#isOverdue ||= isCertain || this.elapsed() - this.#succeededAt >= OVERDUE_MS
  }

  /** Records that one tenant's log could not be compared, while those of others may be, or had no turn. */
  failedOf(tenant_id: string, { isTried = true } = {}): void {
    const now = this.elapsed()
    const { since = now, triedAt = 0 } = this.#unreached.get(tenant_id) ?? {}
    this.#unreached.set(tenant_id, { since, triedAt: isTried ? now : triedAt, isOverdue: now - since >= OVERDUE_MS })
  }

  /** Records that these tenants' logs were compared. */
  reached(tenant_ids: Iterable<string>): void {
    for (const tenant_id of tenant_ids) this.#unreached.delete(tenant_id)
  }

  /** When the comparison of this tenant's log alone was tried last and failed; undefined if it did not. */
  unreachedAt(tenant_id: string): number | undefined {
    return this.#unreached.get(tenant_id)?.triedAt
  }

  /** Records a run in which a part of the database did not answer, and the rest did. */
  succeededInPart(): void {
    this.#beganAt = undefined
    this.succeeded({ begins: false, ends: false })
  }

  /** @throws ComparisonOverdueError */
  assertNotOverdue(tenant_id: string): void {
    if (this.isOverdue || this.#unreached.get(tenant_id)?.isOverdue)
      throw new ComparisonOverdueError('the audit chains could not be compared with what was witnessed for too long')
  }
}
