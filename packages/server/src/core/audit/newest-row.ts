/**
 * Whether a row that grants rights is the newest one: the newest entry that records it must be the one that
 * the row names. Otherwise an attacker who can write to the database restored an older row, whose MAC is valid
 * (chain.md 11).
 */
import type { WithNewestEntry } from '../store/newest-entry.js'
import { TamperedRowError } from '../store/tampered-row.js'

interface Recorded {
  tenant_id: string
  entry_id: number
}

/**
 * Returns the error of a row that is not the newest one. The log has an entry about each row: a purge restates
 * the rows whose entries it takes.
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
