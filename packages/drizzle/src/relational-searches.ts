/**
 * Searches of `db.query` by the indexes that find more rows than match: the rows are opened, then filtered; `limit`
 * and `offset` count those that are left.
 */
import type { Row } from '@eaas/sdk/adapter'
import { getOperators } from 'drizzle-orm'
import { type QueryConfig, selectedColumns, type TableConfig, withColumns } from './relations.js'
import { type Asked, areRight, assertNoWindow, numberOf, takeSearches } from './searches.js'
import type { KnownTables } from './tables.js'

export interface Searched {
  /** The query without its searches and its page, with the searched columns. */
  config: QueryConfig
  asked: readonly Asked[]
  /** Returns the matching ones of the opened rows, in the page and with the columns of the query. */
  filter(rows: Row[]): Row[]
}

/** Removes the searches from the condition of the outermost rows; undefined if there are none. */
export function takeSearched(tables: KnownTables, of: TableConfig, config: QueryConfig): Searched | undefined {
  const { where: given, limit, offset, ...others } = config
  const call = (part: unknown): unknown => (typeof part === 'function' ? part(of.columns, getOperators()) : part)
  const { rest, asked } = takeSearches(tables, call(given))
  if (asked.length === 0) return undefined
  assertNoWindow(Object.values(call(config.extras) ?? {}))
  const [skip = 0, take] = [numberOf(offset, 'offset'), numberOf(limit, 'limit')]
  const fields = asked.map(({ known, column }) => known.keyOf(column))
  const selected = selectedColumns(of, config)
  const hidden = fields.filter((field) => !selected.includes(field))
  return {
    config: { ...withColumns(others, hidden), where: rest },
    asked,
    filter(rows) {
      const isRight = (row: Row) =>
        areRight(
          asked,
          fields.map((field) => row[field]),
        )
      const right = rows.filter(isRight).slice(skip, take === undefined ? undefined : skip + take)
      for (const row of right) for (const field of hidden) delete row[field]
      return right
    },
  }
}
