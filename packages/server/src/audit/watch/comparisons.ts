/**
 * Whether this process can still compare the chains in the database with what it witnessed. Somebody who locks a table, cuts a log off and
 * waits for a restart would otherwise go unnoticed: so nothing is served while the comparison is overdue.
 */
import { AuditWriteError } from '../append-errors.js'

/** How long comparisons may fail before the next failure makes them overdue, in milliseconds: more than two statements that time out. */
export const OVERDUE_MS = 10_000

/** Thrown while the chains could not be compared for too long. Nothing was written. */
export class ComparisonOverdueError extends AuditWriteError {}

export class Comparisons {
  #succeededAt: number
  #isOverdue = false

  /** `elapsed` is in milliseconds, of a clock that never goes back */
  constructor(private readonly elapsed: () => number = () => performance.now()) {
    this.#succeededAt = elapsed()
  }

  get isOverdue(): boolean {
    return this.#isOverdue
  }

  /** Since the last comparison of everything that was due, in milliseconds; since the start until there is one. */
  get age(): number {
    return this.elapsed() - this.#succeededAt
  }

  succeeded(): void {
    this.#succeededAt = this.elapsed()
    this.#isOverdue = false
  }

  // Only a failure makes it overdue: a process that was suspended has merely not compared yet.
  failed(): void {
    this.#isOverdue ||= this.age >= OVERDUE_MS
  }

  /** @throws ComparisonOverdueError */
  assertNotOverdue(): void {
    if (this.#isOverdue)
      throw new ComparisonOverdueError('the audit chains could not be compared with what was witnessed for too long')
  }
}
