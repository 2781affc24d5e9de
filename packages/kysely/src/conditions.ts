/** Conditions of Kysely: replaces an encrypted column by its index, and refuses what no index can answer. */

import { refuseExpression, refuseField, searchHint } from '@eaas/sdk/adapter'
import { BinaryOperationNode, ColumnNode, OperatorNode, PrimitiveValueListNode, ReferenceNode, ValueNode } from 'kysely'
import { type Node, qualifierOf } from './nodes.js'
import type { Scope, Source } from './scope.js'

/** `searches.ts` has already removed the comparisons that it can answer. */
const SEARCH_HINT = searchHint(
  'Search so in the `where` of a select, alone or joined by `and`, by an index of parts or of buckets, and count the rows.',
)

const OPERATORS = ['=', '==', '!=', '<>', 'in', 'not in']

/** Replaces a comparison of an encrypted column. @throws InvalidInputError when no index can answer it */
export async function compare(scope: Scope, node: Node, { instance, column }: Source): Promise<Node> {
  const { name } = instance.table
  const operator = operatorOf(node)
  const left = node.leftOperand as Node
  const right = node.rightOperand as Node
  const isList = right.kind === 'PrimitiveValueListNode'
  // Null is stored as null, so these two need no index.
  if (/^is( not)?$/.test(operator) && right.kind === 'ValueNode' && right.value === null) return node
  if (!OPERATORS.includes(operator)) return instance.table.searches.refuse(column, operator, SEARCH_HINT)
  if (!isList && right.kind !== 'ValueNode') return refuseExpression(name, column)
  const found = await instance.table.findEqual(column, operator, isList ? (right.values as unknown[]) : [right.value])
  const index = nameInScope(scope, left, { instance, column: found.column })
  if (index === undefined) {
    return refuseField(name, column, 'the query inside does not select its index', `Select ${found.column} there too.`)
  }
  const to = ColumnNode.create(index)
  const reference = left.kind === 'ReferenceNode' ? ReferenceNode.create(to, left.table as never) : to
  const values = isList ? PrimitiveValueListNode.create(found.values) : ValueNode.create(found.values[0])
  return BinaryOperationNode.create(reference, OperatorNode.create(operator as never), values) as unknown as Node
}

export function operatorOf(node: Node): string {
  return String((node.operator as { operator?: string }).operator)
}

/**
 * Returns the name of a column where another column of its table is named: the result of an inner query may rename
 * it, or lack it.
 */
export function nameInScope(scope: Scope, beside: Node, { instance, column }: Source): string | undefined {
  const table = qualifierOf(beside)
  for (let at: Scope | undefined = scope; at; at = at.outer) {
    for (const [alias, relation] of at.own) {
      if (!relation || (table !== undefined && alias !== table)) continue
      for (const output of relation.outputs) {
        if ('all' in output && output.all === instance) return column
        if ('source' in output && output.source.instance === instance && output.source.column === column)
          return output.name
      }
    }
  }
  return undefined
}
