/** How the last commits ended, for /health. */
import { isRolledBack } from '../../store/db.js'

/**
 * SQLSTATEs of errors that belong to one tenant or one moment: serialization and deadlock (class 40), a name
 * taken (23505), a store key that was rotated meanwhile (23503), a lock or a statement that took too long
 * (55P03, 57014).
 */
const PASSING = /^(?:40...|2350[35]|55P03|57014)$/

export class RecentCommits {
  /** when a group was committed last, by `performance.now()` */
  succeededAt = Number.NEGATIVE_INFINITY
  /** when a group last failed, for whatever reason */
  failedAt = Number.NEGATIVE_INFINITY
  /** when the database last refused a group, and with which SQLSTATE */
  refused: { at: number; code: string } | undefined

  /** how many entries this process committed */
  entries = 0

  succeeded(entries: number): void {
    this.entries += entries
    this.succeededAt = performance.now()
    this.refused = undefined
  }

  /**
   * Records a failure. One that is not a refusal by the database, such as a deadline, does not show what is
   * wrong.
   */
  failed(error: unknown): void {
    this.failedAt = performance.now()
    const code = (error as { code?: unknown }).code
    if (isRolledBack(error) && typeof code === 'string' && !PASSING.test(code)) {
      this.refused = { at: this.failedAt, code }
    }
  }
}
