// Whether this process can still compare logs with the heads that it witnessed. If it can't for too long, it serves
// nothing: otherwise an attacker could lock a table, cut a log off and wait for a restart.
import { ComparisonOverdueError } from '../../core/audit/append-errors.js'

/** In milliseconds, how long comparisons may fail: longer than two statements that time out. */
export const OVERDUE_MS = 10_000

export class Comparisons {
  #succeededAt: number
  #roundAt: number // when the last complete round began, in which every tenant had its turn
  #beganAt: number | undefined // when the current round began; undefined if a run of it failed
  #isOverdue = false
  /** tenants whose logs could not be compared, while others could */
  readonly #unreached = new Map<string, { since: number; triedAt: number; isOverdue: boolean }>()

  /** `elapsed` is in milliseconds, by a clock that never goes back */
  constructor(private readonly elapsed: () => number = () => performance.now()) {
    this.#succeededAt = this.#roundAt = elapsed()
  }

  get isOverdue(): boolean {
    return this.#isOverdue
  }

  get overdueTenants(): string[] {
    return this.unreached.filter((tenant_id) => this.#unreached.get(tenant_id)?.isOverdue)
  }

  get unreached(): string[] {
    return [...this.#unreached.keys()]
  }

  /** Milliseconds since the last complete round began, or since the start: no tenant's comparison is older. */
  get age(): number {
    return this.elapsed() - this.#roundAt
  }

  // Records a run over all tenants or over a portion; a portion may begin or end a round.
  succeeded({ begins = true, ends = true } = {}): void {
    this.#succeededAt = this.elapsed()
    this.#isOverdue = false
    if (begins) this.#beganAt = this.#succeededAt
    if (ends && this.#beganAt !== undefined) this.#roundAt = this.#beganAt
  }

  // Only a run that fails makes comparisons overdue, not time alone: a process that was suspended has just not compared
  // yet. `isCertain`: no run can succeed until something changes, and calls would miss rows as well.
  failed({ isCertain = false } = {}): void {
    this.#beganAt = undefined
    this.#isOverdue ||= isCertain || this.elapsed() - this.#succeededAt >= OVERDUE_MS
  }

  /** Records that a log could not be compared, or had no turn, while others could be. */
  failedOf(tenant_id: string, { isTried = true } = {}): void {
    const now = this.elapsed()
    const { since = now, triedAt = 0 } = this.#unreached.get(tenant_id) ?? {}
    this.#unreached.set(tenant_id, { since, triedAt: isTried ? now : triedAt, isOverdue: now - since >= OVERDUE_MS })
  }

  reached(tenant_ids: Iterable<string>): void {
    for (const tenant_id of tenant_ids) this.#unreached.delete(tenant_id)
  }

  /** When the comparison of this log alone last failed. */
  unreachedAt(tenant_id: string): number | undefined {
    return this.#unreached.get(tenant_id)?.triedAt
  }

  /** Records that a part of the database did not answer, while the rest did. */
  succeededInPart(): void {
    this.#beganAt = undefined
    this.succeeded({ begins: false, ends: false })
  }

  assertNotOverdue(tenant_id: string): void {
    if (this.isOverdue || this.#unreached.get(tenant_id)?.isOverdue)
      throw new ComparisonOverdueError('the audit chains could not be compared with what was witnessed for too long')
  }
}
