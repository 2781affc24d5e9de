/** Why entries could not be appended, and what messages say about a log that does not verify. */
import { UnknownStoreKeyError } from '../crypto/key-hierarchy.js'
import { isRolledBack } from '../store/db.js'
import { isNotConnected } from '../store/unreachable.js'

export const RECOVERY_PAGE = 'The page "Repair a log that does not verify" says what to do'

export const LATER_KEY =
  'After a restore of a backup from before the signing key was replaced, the installation does not know the later key, and cannot compare what it signed. ' +
  'The lines of a server\'s checkpoint file have the statement of the later key, and can be compared. The page "Come back from a rollback" says more under "Rare cases"'

/** The entries were not written, or it is unknown whether they were. No answer may be released then. */
export class AuditWriteError extends Error {
  override readonly name: string = 'AuditWriteError'
  /** whether the entries, and with them the recorded change, may be in the database nevertheless */
  readonly mayBeWritten: boolean

  constructor(message: string, { cause, mayBeWritten = false }: { cause?: unknown; mayBeWritten?: boolean } = {}) {
    super(message, cause === undefined ? {} : { cause })
    this.mayBeWritten = mayBeWritten
  }
}

/** The tenant's chain in the database is not the one that servers wrote: the tenant is no longer served. */
export class ChainAlarmError extends AuditWriteError {
  override readonly name = 'ChainAlarmError'
}

/** An operator deleted the tenant, or accepted that it is gone, while its log was read. Nothing was written. */
export class TenantGoneError extends AuditWriteError {
  override readonly name = 'TenantGoneError'
}

/** The chains could not be compared for too long. Nothing was written. */
export class ComparisonOverdueError extends AuditWriteError {
  override readonly name = 'ComparisonOverdueError'
}

/**
 * A log has more entries after the one that this process witnessed than it could follow in time. The progress is kept,
 * so the next attempt continues from there. Nothing was written.
 */
export class UnfollowedLogError extends AuditWriteError {
  override readonly name = 'UnfollowedLogError'

  constructor() {
    super(
      'more entries were written to the audit log since this process last read it than it could read in time: repeat the call, which goes on from there',
    )
  }
}

/** Repeats `work` until the log has been followed to its end; for work without a caller who gives up. */
export async function untilFollowed<T>(work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof UnfollowedLogError)) throw error
    }
  }
}

export class OverloadError extends Error {
  override readonly name = 'OverloadError'

  constructor(
    message: string,
    /** after this many seconds a call is worth repeating */
    readonly retryAfterSeconds = 1,
  ) {
    super(message)
  }
}

export function auditWriteError(
  cause: unknown,
  { mayBeWritten = !isNeverWritten(cause) }: { mayBeWritten?: boolean } = {},
): AuditWriteError {
  if (cause instanceof AuditWriteError) return cause
  const message = `the audit entry could not be written${describeObstacle(cause) ?? ''}`
  return new AuditWriteError(message, { cause, mayBeWritten })
}

// A missing store key is noticed before the entry is sent, or it ends the transaction.
function isNeverWritten(cause: unknown): boolean {
  return isRolledBack(cause) || isNotConnected(cause) || cause instanceof UnknownStoreKeyError
}

/** Returns the database's error or, if something in the tables is known to prevent the write, an error that says so. */
export function explainObstacle(error: unknown): unknown {
  return describeObstacle(error) === undefined ? error : auditWriteError(error)
}

// No server writes a row with the id of the next append, and no genuine count exceeds its type.
function describeObstacle(error: unknown): string | undefined {
  const { code, constraint_name } = (error ?? {}) as { code?: unknown; constraint_name?: unknown }
  if (code === UNIQUE_VIOLATION && constraint_name === 'audit_log_pkey')
    return `, because audit_log has a row with its id: no server wrote that, or the head was put back. Verify the log (eaas audit verify). ${RECOVERY_PAGE}`
  if (code === OUT_OF_RANGE) return `, because a count in audit_counts was changed outside the server. ${RECOVERY_PAGE}`
  return undefined
}

const UNIQUE_VIOLATION = '23505'
const OUT_OF_RANGE = '22003'
