/**
 * Comparisons with encrypted columns: each searches an index, or is refused. `like`, ranges and truncated indexes find
 * more rows than match: these are opened, then filtered, and `limit` and `offset` count only the rows that remain.
 */
import {
  type Page,
  type Query,
  type Row,
  readSearch,
  refuseCall,
  refuseExpression,
  refuseField,
  refuseOperator,
  searchHint,
  takeSearches,
} from '@eaas/sdk/adapter'
import { PrimitiveValueListNode } from 'kysely'
import {
  allOf,
  beside,
  comparison,
  inParentheses,
  type Node,
  operatorOf,
  qualifierOf,
  selectionNode,
  valueNode,
  whereNode,
} from './nodes.js'
import type { Rewriter } from './rewrite.js'
import { findInScope, findSource, isSealed, type Output, type Scope, type Source } from './scope.js'
import type { Selections } from './selections.js'

/** `withoutSearches` has already removed the searches that may find more rows than match. */
const SEARCH_HINT = searchHint(
  'Search so in the `where` of a select, alone or joined by `and`, by an index of parts or of buckets, and count the rows.',
)

const OPERATORS = ['=', '==', '!=', '<>', 'in', 'not in']

const listNode = (values: readonly unknown[]) => PrimitiveValueListNode.create(values) as object as Node

/** Replaces a comparison of an encrypted column. @throws InvalidInputError when no index can answer it */
export async function compare(scope: Scope, node: Node, { instance, column }: Source): Promise<Node> {
  const { table } = instance
  const operator = operatorOf(node)
  const left = node.leftOperand as Node
  const right = node.rightOperand as Node
  const isList = right.kind === 'PrimitiveValueListNode'
  // Null is stored as null, so comparisons with it need no index.
  if (/^is( not)?$/.test(operator) && right.kind === 'ValueNode' && right.value === null) return node
  if (!OPERATORS.includes(operator)) return table.searches.refuse(column, operator, SEARCH_HINT)
  if (!isList && right.kind !== 'ValueNode') return refuseExpression(table.name, column)
  const found = await table.findEqual(column, operator, isList ? (right.values as unknown[]) : [right.value])
  const index = findInScope(scope, { instance, column: found.column }, qualifierOf(left))
  if (!index) {
    const message = 'the query inside does not select its index'
    return refuseField(table.name, column, message, `Select ${found.column} there too.`)
  }
  return comparison(beside(left, index.column), operator, isList ? listNode(found.values) : valueNode(found.values[0]))
}

/** Which rows of a select match, by the names that their columns have in the result. */
export interface Filtering extends Page {
  isRight(row: Row): boolean
}

type Asked = { source: Source; left: Node; query: Query; operator: string }

/** Removes the searches from the condition of a select; returns them and the rest. */
export function withoutSearches(
  { spellings }: Rewriter,
  select: Node,
  scope: Scope,
): { rest: Node; asked: readonly Asked[] } {
  const where = select.where as Node | undefined
  if (select.kind !== 'SelectQueryNode' || !where) return { rest: select, asked: [] }
  const read = (part: Node) => readAsked(scope, part, spellings.escapes)
  const { rest, asked } = takeSearches(conjunctsOf(where.where as Node), read, ({ source: one }, { source: other }) => {
    return one.instance === other.instance && one.column === other.column
  })
  if (asked.length === 0) return { rest: select, asked }
  return { rest: { ...select, where: rest.length > 0 ? whereNode(allOf(rest)) : undefined }, asked }
}

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
    const index = findInScope(scope, { instance, column: found.column }, qualifierOf(left))
    if (!index) refuseOperator(instance.table.name, column, 'a search', `Select ${found.column} in the query inside.`)
    conditions.push(conditionOn(beside(left, index.column), found))
  }
  const where = select.where as Node | undefined
  const own = where ? [inParentheses(await rewriter.expression(where.where as Node, scope))] : []
  return { ...select, where: whereNode(allOf([...own, ...conditions])) }
}

function conditionOn(index: Node, { by, values }: { by: 'equal' | 'in' | 'all'; values: string[] }): Node {
  if (by === 'in') return comparison(index, 'in', listNode(values))
  return by === 'all' ? comparison(index, '@>', valueNode(values)) : comparison(index, '=', valueNode(values[0]))
}

/** Selects the columns that the filter reads, and removes `limit` and `offset`, which must count filtered rows. */
export function withFiltering(
  select: Node,
  selections: Selections,
  asked: readonly Asked[],
): { node: Node; selections: Selections; filtering: Filtering | undefined } {
  if (asked.length === 0) return { node: select, selections, filtering: undefined }
  const cut = ['fetch', 'top'].find((name) => select[name])
  if (cut) refuseCall(`${cut} of a search that finds more rows than match`, 'Use limit and offset.')
  const filters = asked.map((one, at) => ({ ...one, name: `eaas_filter_${at}` }))
  const outputs = filters.map(({ name, source }): Output => ({ name, source, isHidden: true }))
  const { limit, offset, ...rest } = select
  return {
    node: rest,
    selections: {
      ...selections,
      nodes: [...selections.nodes, ...filters.map(({ left, name }) => selectionNode(left, name))],
      outputs: [...selections.outputs, ...outputs],
    },
    filtering: {
      isRight: (row) =>
        filters.every(({ source: { instance, column }, name, query }) =>
          instance.table.searches.matches({ [column]: row[name] }, [{ field: column, query }]),
        ),
      skip: numberOf((offset as Node | undefined)?.offset, 'offset', asked),
      take: numberOf((limit as Node | undefined)?.limit, 'limit', asked),
    },
  }
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
