/** Why entries could not be appended. */

/** Thrown when entries could not be written, or when it is not known whether they were. Nothing may be released then. */
export class AuditWriteError extends Error {
  override readonly name = 'AuditWriteError'
}

/** Thrown for a tenant whose chain in the database is not the one that was written: it is served no longer. */
export class ChainAlarmError extends AuditWriteError {}

/** Thrown when more calls wait than the server is ready to hold. */
export class OverloadError extends Error {
  override readonly name = 'OverloadError'
}

/** What a caller is told of an error of the database. */
export function auditWriteError(error: unknown): AuditWriteError {
  if (error instanceof AuditWriteError) return error
  return new AuditWriteError('the audit entry could not be written', { cause: error })
}
