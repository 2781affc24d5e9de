/** Which row a condition of Drizzle is about. */
import { is, Param, SQL, StringChunk } from 'drizzle-orm'
import type { Row } from '../../input.js'
import { isBlank, textOf } from './conditions.js'
import { isColumn, type KnownTable } from './tables.js'

/** Finds the values that a condition says the row has in some columns, by their keys: `id = 7`, alone or joined by `and`. */
export function pinnedBy(known: KnownTable, condition: unknown): Row {
  if (!is(condition, SQL)) return {}
  const chunks = condition.queryChunks.filter((chunk) => !isBlank(chunk))
  const [first, operator, value] = chunks
  if (isColumn(first) && is(operator, StringChunk)) {
    const isEqual = chunks.length === 3 && textOf(operator) === '=' && is(value, Param)
    return isEqual && known.columns[known.keyOf(first)]?.table === first.table
      ? { [known.keyOf(first)]: value.value }
      : {}
  }
  const isJoined = chunks.every(
    (chunk) => is(chunk, SQL) || (is(chunk, StringChunk) && /^(and|\(|\))$/.test(textOf(chunk))),
  )
  return isJoined ? Object.assign({}, ...chunks.map((chunk) => pinnedBy(known, chunk))) : {}
}
