/** One update of PostgreSQL for many rows that were read, with values sealed to each. */
import { MANY_ROWS, manyRowsColumn, manyRowsSql, type Row, type SealedTable, sealMany } from '@eaas/sdk/adapter'
import { FromNode } from 'kysely'
import { pathOf } from './column-types.js'
import { columnNode, equal, type Node, rawNode, unaliased, valueNode } from './nodes.js'

/** Seals the changes of rows; returns what is set, and the values that it is set from. */
export async function sealUpdate(
  table: SealedTable,
  node: Node,
  { changes, rows }: { changes: Row; rows: readonly Row[] },
): Promise<{ same: Row; own: [column: string, value: Node][]; from: Node }> {
  const { same, own, json } = await sealMany(table, changes, rows)
  const values = rawNode(manyRowsSql(table, { own, name: pathOf(unaliased(node)) }), [valueNode(json)])
  const from = FromNode.create([values as never]) as object as Node
  return { same, own: own.map((column) => [column, manyValue(table, column)]), from }
}

/** Returns the condition that finds each row again. */
export function boundToMany(table: SealedTable, alias: string): Node {
  return equal(table.bind.map((column) => [columnNode(column, alias), manyValue(table, column)]))
}

function manyValue(table: SealedTable, column: string): Node {
  return columnNode(manyRowsColumn(table, column), MANY_ROWS)
}
