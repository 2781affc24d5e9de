/** A row that the primary key allows once: whoever drops the key can put an older row beside the newer one, and no reader must choose. */
import { TamperedRowError } from './tampered-row.js'

/** The row that a query found, if any. @throws TamperedRowError if it found several */
export function onlyRow<Row>(rows: readonly Row[], what: string): Row | undefined {
  if (rows.length > 1) {
    throw new TamperedRowError(
      `the database holds ${what} more than once: a primary key was dropped outside the server`,
    )
  }
  return rows[0]
}
