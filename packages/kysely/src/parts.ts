/** Divides an insert of many rows among several statements, where encryption adds more parameters than one may have. */
import { divideRows } from '@eaas/sdk/adapter'
import { ValuesNode } from 'kysely'
import { isNode, type Node, tableNames } from './nodes.js'
import { findTable, type Models } from './tables.js'
import { nameOf } from './writes.js'

/** The parts of an insert that each of its statements can have. */
const REPEATED = ['kind', 'into', 'columns', 'values', 'onConflict', 'returning']

/** Returns the statements of an insert, in the order of its rows; none if one takes all rows. */
export function partsOf(models: Models, statement: Node, most: number): Node[] {
  const { into, values, columns, ...others } = statement
  const table = isNode(into) ? findTable(models, tableNames(into)?.table ?? '') : undefined
  const isWhole = Object.keys(others).some((part) => others[part] !== undefined && !REPEATED.includes(part))
  if (statement.kind !== 'InsertQueryNode' || !table || !isNode(values) || values.kind !== 'ValuesNode' || isWhole) {
    return []
  }
  const given = ((columns as readonly Node[] | undefined) ?? []).map(nameOf)
  const added = table.columns.filter((column) => !given.includes(column)).length
  const costOf = (row: Node) => countIn(row) + added
  // An upsert may also set each column of the model.
  const left = most - countIn(others) - table.columns.length
  const parts = divideRows(values.values as readonly Node[], costOf, left)
  if (parts.length < 2) return []
  return parts.map((rows) => ({ ...statement, values: ValuesNode.create(rows as never) }) as unknown as Node)
}

/** Counts the parameters in a part of a statement. A default may be that of an encrypted column, which gets a value. */
export function countIn(part: unknown): number {
  if (Array.isArray(part)) return part.reduce<number>((sum, one) => sum + countIn(one), 0)
  if (!isNode(part)) return typeof part === 'object' && part !== null ? countIn(Object.values(part)) : 0
  if (part.kind === 'PrimitiveValueListNode') return (part.values as readonly unknown[]).length
  return ['ValueNode', 'DefaultInsertValueNode'].includes(part.kind) ? 1 : countIn(Object.values(part))
}

/** Returns the number of rows in the largest list of values, wherever it is in a statement. */
export function mostRows(part: unknown): number {
  if (Array.isArray(part)) return Math.max(0, ...part.map(mostRows))
  if (!isNode(part)) return 0
  if (part.kind === 'ValuesNode') return (part.values as readonly unknown[]).length
  return mostRows(Object.values(part))
}
