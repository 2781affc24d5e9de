/** Where the documentation says what to do about a log that does not verify; for messages. */
export const RECOVERY_PAGE =
  'The page "Coming back from a rollback" says what to do, under "A log that does not verify"'
