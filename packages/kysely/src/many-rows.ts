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
  const reference = (column: string) => ReferenceNode.create(ColumnNode.create(column), TableNode.create(alias))
  return equal(table.bind.map((column) => [reference(column), manyValue(table, column)]))
}

/** Compares columns with values, all of which must be equal. */
export function equal(pairs: readonly (readonly [column: unknown, value: unknown])[]): Node {
  const all = pairs.map(([column, value]) =>
    BinaryOperationNode.create(column as never, OperatorNode.create('='), value as never),
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
