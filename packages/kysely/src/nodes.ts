/** The nodes of a Kysely query, and the names in them. Kysely exposes queries as trees of plain objects. */
import { quoteName } from '@eaas/sdk/adapter'
import {
  AliasNode,
  AndNode,
  BinaryOperationNode,
  ColumnNode,
  IdentifierNode,
  type OperationNode,
  OperatorNode,
  ParensNode,
  RawNode,
  ReferenceNode,
  SelectionNode,
  SelectQueryNode,
  TableNode,
  ValueNode,
  WhereNode,
} from 'kysely'

export interface Node extends OperationNode {
  readonly [member: string]: unknown
}

export function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && typeof (value as Partial<Node>).kind === 'string'
}

export function isQuery(node: Node): boolean {
  return /^(Select|Insert|Update|Delete|Merge)QueryNode$/.test(node.kind)
}

/** Tells whether a statement, or a common table expression in it, may write. */
export function mayWrite(statement: Node): boolean {
  const { expressions = [] } = (statement.with ?? {}) as { expressions?: readonly Node[] }
  return statement.kind !== 'SelectQueryNode' || expressions.some((one) => mayWrite(one.expression as Node))
}

export function columnName(node: Node): string | undefined {
  if (node.kind === 'ReferenceNode') return columnName(node.column as Node)
  if (node.kind === 'ColumnNode') return (node.column as { name: string }).name
  return undefined
}

export function qualifierOf(node: Node): string | undefined {
  return node.kind === 'ReferenceNode' && node.table ? tableNames(node.table as Node)?.alias : undefined
}

export interface TableNames {
  table: string
  alias: string
  /** What the alias names, if not a table. */
  inner?: Node
}

export function tableNames(node: Node): TableNames | undefined {
  if (node.kind === 'TableNode') {
    const named = node.table as { identifier?: { name: string }; name?: string } // WithSchemaPlugin gives a name alone
    const name = (named.identifier ?? named).name ?? ''
    return { table: name, alias: name }
  }
  if (node.kind !== 'AliasNode') return undefined
  const inner = node.node as Node
  const alias = aliasName(node)
  return inner.kind === 'TableNode' ? { table: tableNames(inner)?.table ?? '', alias } : { table: '', alias, inner }
}

export function unaliased(node: Node): Node {
  return node.kind === 'AliasNode' ? (node.node as Node) : node
}

/** Returns the alias of an expression; empty if the alias is SQL. */
export function aliasName(node: Node): string {
  return (node.alias as { name?: string }).name ?? ''
}

/** The text of a value. A driver may put a number into the SQL, and in `order by` it may be a position. */
function valueText(node: Node): string {
  const { value, immediate } = node
  if (typeof value === 'number') return String(value)
  return immediate ? `'${String(value).replaceAll("'", "''")}'` : ' ? '
}

/** The text of raw SQL, with `?` for most of its values and for the queries inside. */
export function rawText(node: Node): string {
  if (node.kind === 'RawNode') {
    const parameters = node.parameters as readonly Node[]
    return (node.sqlFragments as readonly string[])
      .map((fragment, at) => (parameters[at] ? fragment + rawText(parameters[at]) : fragment))
      .join('')
  }
  if (node.kind === 'ValueNode') return valueText(node)
  if (node.kind === 'ReferenceNode' && node.table)
    return `${rawText(node.table as Node)}.${rawText(node.column as Node)}`
  const name = columnName(node) ?? tableNames(node)?.table ?? (node.kind === 'IdentifierNode' ? node.name : undefined)
  return name === undefined ? ' ? ' : quoteName(String(name))
}

const asNode = (node: object) => node as Node

export const valueNode = (value: unknown) => asNode(ValueNode.create(value))
export const whereNode = (condition: Node) => asNode(WhereNode.create(condition as never))
export const inParentheses = (condition: Node) => asNode(ParensNode.create(condition as never))
export const rawNode = (sql: readonly string[], parameters: readonly Node[] = []) =>
  asNode(RawNode.create(sql, parameters as never))

export function columnNode(name: string, table?: string): Node {
  const column = ColumnNode.create(name)
  return asNode(table === undefined ? column : ReferenceNode.create(column, TableNode.create(table)))
}

/** Names a column of the table that is in front of another one. */
export function beside(column: Node, name: string): Node {
  const own = ColumnNode.create(name)
  return asNode(column.kind === 'ReferenceNode' ? ReferenceNode.create(own, column.table as never) : own)
}

export function selectionNode(column: Node, name?: string): Node {
  const selected = name === undefined ? column : AliasNode.create(column as never, IdentifierNode.create(name))
  return asNode(SelectionNode.create(selected as never))
}

export function selectNode(froms: readonly Node[], selections: readonly Node[]): Node {
  const select = SelectQueryNode.createFrom(froms as never)
  return asNode(SelectQueryNode.cloneWithSelections(select, selections as never))
}

export function comparison(left: Node, operator: string, right: Node): Node {
  return asNode(BinaryOperationNode.create(left as never, OperatorNode.create(operator as never), right as never))
}

export function allOf([first, ...others]: readonly Node[]): Node {
  return others.reduce((all, one) => asNode(AndNode.create(all as never, one as never)), first as Node)
}

export function equal(pairs: readonly (readonly [column: Node, value: Node])[]): Node {
  return allOf(pairs.map(([column, value]) => comparison(column, '=', value)))
}

export function operatorOf(node: Node): string {
  return String((node.operator as { operator?: string }).operator)
}
