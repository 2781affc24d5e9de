/** What several writes return together. Drivers report in different ways how many rows a write has changed. */
import { type Row, refuseCall } from '@eaas/sdk/adapter'

const COUNTS = ['count', 'rowCount', 'affectedRows', 'rowsAffected', 'changes'] as const

/** Returns how many rows a write has changed. */
export function changedRows(result: unknown): number {
  return findCount(result) ?? refuseCall('an upsert by a driver that counts no rows', 'Add `returning`.')
}

/** The same; undefined if the driver reports none. */
export function findCount(result: unknown): number | undefined {
  const own = headerOf(result) ?? result
  const count = countsIn(own)[0]?.[1]
  if (count !== undefined) return count
  return Array.isArray(own) ? own.length : undefined
}

/** Merges results into one: their rows, or how many rows they changed together. */
export function mergeResults(results: readonly unknown[]): unknown {
  const [first] = results
  if (results.length < 2) return first
  if (headerOf(first)) return [mergeResults(results.map(headerOf)), ...(first as unknown[]).slice(1)]
  const rows = results.every(Array.isArray) ? (results.flat() as unknown[]) : lastOf(results)
  for (const [name] of countsIn(first)) {
    const value = results.reduce<number>((sum, one) => sum + Number((one as Row)[name]), 0)
    Object.defineProperty(rows, name, { value, configurable: true, enumerable: !Array.isArray(rows), writable: true })
  }
  return rows
}

/** Returns what the drivers of MySQL report, beside the columns of a result. */
function headerOf(result: unknown): Row | undefined {
  const [header] = Array.isArray(result) ? (result as unknown[]) : []
  return typeof header === 'object' && header !== null && 'affectedRows' in header ? (header as Row) : undefined
}

/** The id that SQLite reports is that of the last row, and that of MySQL the first one's. */
function lastOf(results: readonly unknown[]): unknown {
  const last = results.at(-1)
  return typeof last === 'object' && last !== null && 'lastInsertRowid' in last ? last : results[0]
}

function countsIn(result: unknown): [name: string, count: number][] {
  return COUNTS.flatMap((name) => {
    const count = (result as Row | undefined)?.[name]
    return typeof count === 'number' || typeof count === 'bigint' ? [[name, Number(count)]] : []
  })
}
