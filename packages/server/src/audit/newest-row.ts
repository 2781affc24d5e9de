/**
 * Whether a row that grants rights is the newest one: the newest entry that records it must be the one that it names. A row with a valid
 * MAC that is older was put back by somebody who can write to the database (chain.md 11).
 */
import type { KeyObject } from 'node:crypto'
import { findLastMark } from '../store/audit-retention.js'
import type { Queryable } from '../store/db.js'
import type { WithNewestEntry } from '../store/newest-entry.js'
import { isPurgeMarkAuthentic, type PurgeMark } from './formats/chain.js'
import { TamperedRowError } from './formats/row-mac.js'

interface Recorded {
  tenant_id: string
  entry_id: number
}

/** Finds the error of a row that is not the newest one; `mark` is the newest purge mark, whether authentic or not. */
export function findPutBack(
  { tenant_id, entry_id, newest_entry }: WithNewestEntry<Recorded>,
  { what, auditKey, mark }: { what: string; auditKey: KeyObject; mark: PurgeMark | undefined },
): TamperedRowError | undefined {
  const isNewest =
    newest_entry === null
      ? mark !== undefined && isPurgeMarkAuthentic(auditKey, mark) && entry_id <= mark.purged_through
      : entry_id === newest_entry
  if (isNewest) return undefined
  return new TamperedRowError(
    `an older row of ${what} of tenant ${tenant_id} was put back outside the server: it names entry ${entry_id}, and ` +
      `${newest_entry === null ? 'no entry' : `entry ${newest_entry}`} is the last about it`,
  )
}

/** The same, with the mark from the database if the log has no entry about the row. */
export async function readPutBack(
  sql: Queryable,
  row: WithNewestEntry<Recorded>,
  { what, auditKey }: { what: string; auditKey: KeyObject },
): Promise<TamperedRowError | undefined> {
  const mark = row.newest_entry === null ? await findLastMark(sql, row.tenant_id) : undefined
  return findPutBack(row, { what, auditKey, mark })
}
