/**
 * Whether this process can still compare the chains in the database with what it witnessed. Otherwise an
 * attacker could lock a table, cut a log off and wait for a restart. So the server serves nothing while the
 * comparison is overdue.
 */
import { ComparisonOverdueError } from '../../core/audit/append-errors.js'

/**
 * How long comparisons may fail before the next failure makes them overdue, in milliseconds: more than two
 * statements that time out.
 */
export const OVERDUE_MS = 10_000

export class Comparisons {
  #succeededAt: number
  /** when the last whole round began, in which every tenant had its turn */
  #roundAt: number
  /** when the round began that is under way; undefined if a run of it failed */
  #beganAt: number | undefined
  #isOverdue = false

  /** `elapsed` is in milliseconds, of a clock that never goes back */
  constructor(private readonly elapsed: () => number = () => performance.now()) {
    this.#succeededAt = this.#roundAt = elapsed()
  }

  get isOverdue(): boolean {
    return this.#isOverdue
  }

  /**
   * At least the age of the oldest comparison of a tenant, in milliseconds: the time since the last whole round
   * began, or since the start until one has ended.
   */
  get age(): number {
    return this.elapsed() - this.#roundAt
  }

  /**
   * Records a run, which compared all tenants or those whose turn it was: it may begin a round over all of
   * them, and may end it.
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

  /** @throws ComparisonOverdueError */
  assertNotOverdue(): void {
    if (this.isOverdue)
      throw new ComparisonOverdueError('the audit chains could not be compared with what was witnessed for too long')
  }
}
