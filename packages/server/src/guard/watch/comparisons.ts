// Whether this process can still compare logs with what it witnessed; if not for too long, it serves nothing. Otherwise
// an attacker could lock a table, cut a log off and wait for a restart.
import { ComparisonOverdueError } from '../../core/audit/append-errors.js'

/** Milliseconds for which comparisons may fail: longer than two statements that time out. */
export const OVERDUE_MS = 10_000

export class Comparisons {
  #succeededAt: number
  #roundAt: number // when the last whole round began, in which every tenant had its turn
  #beganAt: number | undefined // when the round began that is under way; undefined if a run of it failed
  #isOverdue = false
  /** tenants whose logs alone could not be compared */
  readonly #unreached = new Map<string, { since: number; triedAt: number; isOverdue: boolean }>()

  /** `elapsed` is in milliseconds, of a clock that never goes back */
  constructor(private readonly elapsed: () => number = () => performance.now()) {
    this.#succeededAt = this.#roundAt = elapsed()
  }

  get isOverdue(): boolean {
    return this.#isOverdue
  }

  get overdueTenants(): string[] {
    return [...this.#unreached].flatMap(([tenant_id, { isOverdue }]) => (isOverdue ? [tenant_id] : []))
  }

  /** Milliseconds since the last whole round began, or since the start: no tenant's comparison is older. */
  get age(): number {
    return this.elapsed() - this.#roundAt
  }

  // Records a run over all tenants or those whose turn it was: it may begin a round over all of them, and may end it.
  succeeded({ begins = true, ends = true } = {}): void {
    this.#succeededAt = this.elapsed()
    this.#isOverdue = false
    if (begins) this.#beganAt = this.#succeededAt
    if (ends && this.#beganAt !== undefined) this.#roundAt = this.#beganAt
  }

  // Time alone makes nothing overdue, only a run that fails after it: a process that was suspended has merely not
  // compared yet. `isCertain`: no run can succeed until something changes, and calls would miss rows too.
  failed({ isCertain = false } = {}): void {
    this.#beganAt = undefined
    this.#isOverdue ||= isCertain || this.elapsed() - this.#succeededAt >= OVERDUE_MS
  }

  /** Records that a log could not be compared, or had no turn, while others may be. */
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

  /** A part of the database did not answer, and the rest did. */
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
