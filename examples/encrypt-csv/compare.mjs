// Whether two tables are the same, cell by cell.

/** @import { Table } from '../lib/csv.mjs' */

/**
 * Compares what came back with what went in. Both were decoded from valid UTF-8, and nothing is trimmed or normalised, so
 * equal text means equal bytes.
 *
 * @param {Table} original
 * @param {Table} returned
 * @returns {string[]} where they differ; no cell is quoted
 */
export function findDifferences(original, returned) {
  const columns = JSON.stringify(original.columns) === JSON.stringify(returned.columns)
  if (!columns) return ['the columns are not the same']
  const differences = []
  if (original.rows.length !== returned.rows.length) {
    differences.push(`${original.rows.length} rows went in, ${returned.rows.length} came back`)
  }
  for (const [at, row] of original.rows.entries()) {
    for (const name of original.columns) {
      if (returned.rows[at] && row[name] !== returned.rows[at][name]) {
        differences.push(`row ${at + 1}, column ${JSON.stringify(name)}`)
      }
    }
  }
  return differences
}
