/** The nodes of a Kysely query, and the names in them. Kysely exposes queries as trees of plain objects. */
import { quoteName } from '@eaas/sdk/adapter'
import type { OperationNode } from 'kysely'

/** A node of any kind. */
export interface Node extends OperationNode {
  readonly [member: string]: unknown
}

const QUERIES = ['SelectQueryNode', 'InsertQueryNode', 'UpdateQueryNode', 'DeleteQueryNode', 'MergeQueryNode']

export function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && typeof (value as Partial<Node>).kind === 'string'
}

export function isQuery(node: Node): boolean {
  return QUERIES.includes(node.kind)
}

/** The name of a column, without its table. */
export function columnName(node: Node): string | undefined {
  if (node.kind === 'ReferenceNode') return columnName(node.column as Node)
  if (node.kind === 'ColumnNode') return (node.column as { name: string }).name
  return undefined
}

/** The name of the table in front of a column. */
export function qualifierOf(node: Node): string | undefined {
  return node.kind === 'ReferenceNode' && node.table ? tableNames(node.table as Node)?.alias : undefined
}

export interface TableNames {
  /** The table's name, without its schema. */
  table: string
  /** The name by which the query refers to it. */
  alias: string
  /** What has the alias, if that is not a table. */
  inner?: Node
}

export function tableNames(node: Node): TableNames | undefined {
  if (node.kind === 'TableNode') {
    const named = node.table as { identifier?: { name: string }; name?: string } // a name alone by WithSchemaPlugin
    const name = (named.identifier ?? named).name ?? ''
    return { table: name, alias: name }
  }
  if (node.kind !== 'AliasNode') return undefined
  const inner = node.node as Node
  const alias = aliasName(node)
  return inner.kind === 'TableNode' ? { table: tableNames(inner)?.table ?? '', alias } : { table: '', alias, inner }
}

/** Returns the alias of an expression; empty if the alias is SQL. */
export function aliasName(node: Node): string {
  return (node.alias as { name?: string }).name ?? ''
}

/** The text of a value: a driver may put a number into the SQL, and there it may be a position. */
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
