/** Why entries could not be appended. */

/** Thrown when entries could not be written, or when it is not known whether they were. Nothing may be released then. */
export class AuditWriteError extends Error {
  override readonly name = 'AuditWriteError'
}

/** Thrown when more calls wait than the server is ready to hold. */
export class OverloadError extends Error {
  override readonly name = 'OverloadError'
}

/** What a caller is told of an error of the database. */
export function auditWriteError(error: unknown): AuditWriteError {
  if (error instanceof AuditWriteError) return error
  return new AuditWriteError('the audit entry could not be written', { cause: error })
}
