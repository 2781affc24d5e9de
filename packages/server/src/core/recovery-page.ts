/** Where the documentation says what to do about a log that does not verify; for messages. */
export const RECOVERY_PAGE = 'The page "Repair a log that does not verify" says what to do'

/** A possible explanation of a checkpoint that none of the installation's keys signed. */
export const LATER_KEY =
  'After a restore of a backup from before the signing key was replaced, the installation does not know the later key, and cannot compare what it signed. ' +
  'The lines of a server\'s checkpoint file have the statement of the later key, and can be compared. The page "Come back from a rollback" says more under "Rare cases"'
