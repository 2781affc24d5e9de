/** Why entries could not be appended. */
import { isRolledBack } from '../store/db.js'
import { isNotConnected } from '../store/unreachable.js'

/** Thrown when entries could not be written, or when it is not known whether they were. Nothing may be released then. */
export class AuditWriteError extends Error {
  override readonly name = 'AuditWriteError'
  /** whether the entries, and with them the change that they tell of, may be in the database all the same */
  readonly mayBeWritten: boolean

  constructor(message: string, { cause, mayBeWritten = false }: { cause?: unknown; mayBeWritten?: boolean } = {}) {
    super(message, cause === undefined ? {} : { cause })
    this.mayBeWritten = mayBeWritten
  }
}

/** Thrown for a tenant whose chain in the database is not the one that was written: it is served no longer. */
export class ChainAlarmError extends AuditWriteError {}

/** Thrown when more calls wait than the server is ready to hold. */
export class OverloadError extends Error {
  override readonly name = 'OverloadError'

  constructor(
    message: string,
    /** when it is worth calling again */
    readonly retryAfterSeconds = 1,
  ) {
    super(message)
  }
}

/** What a caller is told of an error of the database. */
export function auditWriteError(
  cause: unknown,
  { mayBeWritten = !isRolledBack(cause) && !isNotConnected(cause) }: { mayBeWritten?: boolean } = {},
): AuditWriteError {
  if (cause instanceof AuditWriteError) return cause
  return new AuditWriteError('the audit entry could not be written', { cause, mayBeWritten })
}
