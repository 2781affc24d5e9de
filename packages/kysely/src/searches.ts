/**
 * Searches of a select by the indexes that find more rows than match: `like`, ranges and truncated indexes. The rows
 * are opened, then filtered; `limit` and `offset` count those that are left.
 */
import { type Query, type Row, readSearch, refuseCall, refuseOperator, takeSearches } from '@eaas/sdk/adapter'
import {
  AliasNode,
  AndNode,
  BinaryOperationNode,
  ColumnNode,
  IdentifierNode,
  OperatorNode,
  ParensNode,
  PrimitiveValueListNode,
  ReferenceNode,
  SelectionNode,
  ValueNode,
  WhereNode,
} from 'kysely'
import { nameInScope, operatorOf } from './conditions.js'
import type { Node } from './nodes.js'
import type { Rewriter } from './rewrite.js'
import { findSource, type Instance, isSealed, type Output, type Scope, type Source } from './scope.js'
import type { Selections } from './selections.js'

/** What the rows of a select must match, by the names that their columns have in the result. */
export interface Filtering {
  isRight(row: Row): boolean
  skip: number
  take: number | undefined
}

/** A search of a column, and the node of the column in the query. */
interface Asked {
  source: Source
  left: Node
  query: Query
  operator: string
}

/** Removes the searches from the condition of a select; returns them and the rest. */
export function withoutSearches(
  { spellings }: Rewriter,
  select: Node,
  scope: Scope,
): { rest: Node; asked: readonly Asked[] } {
  const where = select.where as Node | undefined
  if (select.kind !== 'SelectQueryNode' || !where) return { rest: select, asked: [] }
  const read = (part: Node) => readAsked(scope, part, spellings.escapes)
  const { rest, asked } = takeSearches(conjunctsOf(where.where as Node), read, isSameColumn)
  if (asked.length === 0) return { rest: select, asked }
  const own = rest.length > 0 ? WhereNode.create(joined(rest) as never) : undefined
  return { rest: { ...select, where: own } as unknown as Node, asked }
}

function isSameColumn({ source: one }: Asked, { source: other }: Asked): boolean {
  return one.instance === other.instance && one.column === other.column
}

/** Adds the conditions on indexes to a select without its searches. */
export async function withSearches(
  rewriter: Rewriter,
  select: Node,
  scope: Scope,
  asked: readonly Asked[],
): Promise<Node> {
  const conditions: Node[] = []
  for (const { source, left, query, operator } of asked) {
    const { instance, column } = source
    const found = await instance.table.searches.find(column, query, operator)
    const index = nameInScope(scope, left, { instance, column: found.column })
    if (index === undefined)
      refuseOperator(instance.table.name, column, 'a search', `Select ${found.column} in the query inside.`)
    const to = ColumnNode.create(index)
    const reference = left.kind === 'ReferenceNode' ? ReferenceNode.create(to, left.table as never) : to
    conditions.push(conditionOn(reference as unknown as Node, found))
  }
  const where = select.where as Node | undefined
  const own = where
    ? [ParensNode.create((await rewriter.expression(where.where as Node, scope)) as never) as unknown as Node]
    : []
  return { ...select, where: WhereNode.create(joined([...own, ...conditions]) as never) } as unknown as Node
}

function conditionOn(reference: Node, { by, values }: { by: string; values: string[] }): Node {
  const operator = { equal: '=', in: 'in', all: '@>' }[by] as '='
  const value =
    by === 'in' ? PrimitiveValueListNode.create(values) : ValueNode.create(by === 'all' ? values : values[0])
  return BinaryOperationNode.create(reference as never, OperatorNode.create(operator), value) as unknown as Node
}

/** Selects the columns by which rows are filtered, and removes what would count rows before that. */
export function withFiltering(
  select: Node,
  { nodes, outputs, places }: Selections,
  asked: readonly Asked[],
): { node: Node; selections: Selections; filtering: Filtering | undefined } {
  if (asked.length === 0) return { node: select, selections: { nodes, outputs, places }, filtering: undefined }
  const cut = ['fetch', 'top'].find((name) => select[name])
  if (cut) refuseCall(`${cut} of a search that finds more rows than match`, 'Use limit and offset.')
  const added: { node: Node; output: Output }[] = []
  const filters = asked.map(({ source, left, query }, at) => {
    const name = `eaas_filter_${at}`
    const node = SelectionNode.create(AliasNode.create(left as never, IdentifierNode.create(name)) as never)
    added.push({ node: node as unknown as Node, output: { name, source, isHidden: true } })
    return { ...source, name, query }
  })
  const { limit, offset, ...rest } = select
  return {
    node: rest as unknown as Node,
    selections: {
      nodes: [...nodes, ...added.map(({ node }) => node)],
      outputs: [...outputs, ...added.map(({ output }) => output)],
      places,
    },
    filtering: {
      isRight: (row) =>
        filters.every(({ instance, column, name, query }) =>
          isRight(instance, { [column]: row[name] }, { column, query }),
        ),
      skip: numberOf((offset as Node | undefined)?.offset, 'offset', asked) ?? 0,
      take: numberOf((limit as Node | undefined)?.limit, 'limit', asked),
    },
  }
}

function isRight({ table }: Instance, row: Row, { column, query }: { column: string; query: Query }): boolean {
  return table.searches.matches(row, [{ field: column, query }])
}

function numberOf(value: unknown, name: string, [asked]: readonly Asked[]): number | undefined {
  if (value === undefined) return undefined
  const given = (value as Node).kind === 'ValueNode' ? Number((value as Node).value) : Number.NaN
  if (Number.isSafeInteger(given)) return given
  const { instance, column } = (asked as Asked).source
  return refuseOperator(instance.table.name, column, `${name} as SQL`, `Pass a number to ${name}.`)
}

function conjunctsOf(node: Node): Node[] {
  if (node.kind === 'AndNode') return [...conjunctsOf(node.left as Node), ...conjunctsOf(node.right as Node)]
  return node.kind === 'ParensNode' && (node.node as Node).kind === 'AndNode' ? conjunctsOf(node.node as Node) : [node]
}

function joined(parts: readonly Node[]): Node {
  return parts.reduce((all, one) => AndNode.create(all as never, one as never) as unknown as Node)
}

/** Reads a comparison that an index of whole values cannot answer. */
function readAsked(scope: Scope, part: Node, escapes: boolean): Asked | undefined {
  if (part.kind !== 'BinaryOperationNode') return undefined
  const left = part.leftOperand as Node
  const right = part.rightOperand as Node
  const source = findSource(scope, left)
  const given = right.kind === 'AndNode' ? [right.left as Node, right.right as Node] : [right]
  if (!source || !isSealed(source) || (given.length === 1 && right.kind !== 'ValueNode')) return undefined
  const values = given.map(({ value }) => value)
  const operator = operatorOf(part)
  const query = readSearch(source.instance.table, source.column, { operator, values, escapes })
  return query && { source, left, query, operator }
}
