/** One update of PostgreSQL for many rows that were read, with values sealed to each. */
import { MANY_ROWS, manyRowsColumn, manyRowsSql, type Row, type SealedTable, sealMany } from '@eaas/sdk/adapter'
import {
  AndNode,
  BinaryOperationNode,
  ColumnNode,
  FromNode,
  OperatorNode,
  RawNode,
  ReferenceNode,
  TableNode,
  ValueNode,
} from 'kysely'
import { pathOf } from './column-types.js'
import type { Node } from './nodes.js'

/** Seals the changes of rows; returns what is set, and the values that it is set from. */
export async function sealUpdate(
  table: SealedTable,
  node: Node,
  { changes, rows }: { changes: Row; rows: readonly Row[] },
): Promise<{ same: Row; own: [column: string, value: Node][]; from: Node }> {
  const { same, own, json } = await sealMany(table, changes, rows)
  const name = pathOf(node.kind === 'AliasNode' ? (node.node as Node) : node)
  const values = RawNode.create(manyRowsSql(table, { own, name }), [ValueNode.create(json)])
  return {
    same,
    own: own.map((column) => [column, manyValue(table, column)]),
    from: FromNode.create([values as never]) as unknown as Node,
  }
}

/** Returns the condition that finds each row again. */
export function boundToMany(table: SealedTable, alias: string): Node {
  const all = table.bind.map((column) =>
    BinaryOperationNode.create(
      ReferenceNode.create(ColumnNode.create(column), TableNode.create(alias)),
      OperatorNode.create('='),
      manyValue(table, column) as never,
    ),
  )
  return all.reduce<AndNode | BinaryOperationNode | undefined>(
    (one, next) => (one ? AndNode.create(one, next) : next),
    undefined,
  ) as unknown as Node
}

function manyValue(table: SealedTable, column: string): Node {
  const name = ColumnNode.create(manyRowsColumn(table, column))
  return ReferenceNode.create(name, TableNode.create(MANY_ROWS)) as unknown as Node
}
