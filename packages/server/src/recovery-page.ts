/** Where the documentation says what to do about a log that does not verify; for messages. */
export const RECOVERY_PAGE = 'The page "Repair a log that does not verify" says what to do'
