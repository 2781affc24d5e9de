/**
 * Whether a row that grants rights is the newest one: the newest entry that records it must be the one that
 * it names. A row with a valid MAC that is older was put back by somebody who can write to the database
 * (chain.md 11).
 */
import type { WithNewestEntry } from '../store/newest-entry.js'
import { TamperedRowError } from '../store/tampered-row.js'

interface Recorded {
  tenant_id: string
  entry_id: number
}

/**
 * Finds the error of a row that is not the newest one. The log has an entry about each row: a purge restates
 * what it takes.
 */
export function findPutBack(
  { tenant_id, entry_id, newest_entry }: WithNewestEntry<Recorded>,
  what: string,
): TamperedRowError | undefined {
  if (entry_id === newest_entry) return undefined
  return new TamperedRowError(
    `an older row of ${what} of tenant ${tenant_id} was put back outside the server: it names entry ${entry_id}, and ` +
      `${newest_entry === null ? 'no entry' : `entry ${newest_entry}`} is the last about it`,
  )
}
