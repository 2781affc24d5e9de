/** The nodes of a Kysely query, and the names in them. Kysely exposes queries as trees of plain objects. */
import { ColumnNode, type OperationNode, RawNode, ReferenceNode, TableNode, ValueNode } from 'kysely'

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
  /** What has the alias, where that is no table. */
  inner?: Node
}

export function tableNames(node: Node): TableNames | undefined {
  if (node.kind === 'TableNode') {
    const { name } = (node.table as { identifier: { name: string } }).identifier
    return { table: name, alias: name }
  }
  if (node.kind !== 'AliasNode') return undefined
  const inner = node.node as Node
  const alias = aliasName(node)
  return inner.kind === 'TableNode' ? { table: tableNames(inner)?.table ?? '', alias } : { table: '', alias, inner }
}

/** The name that an expression gets; empty where SQL gives it. */
export function aliasName(node: Node): string {
  return (node.alias as { name?: string }).name ?? ''
}

/** A query of which Kysely's `jsonArrayFrom` or `jsonObjectFrom` makes JSON. */
export interface JsonQuery {
  query: Node
  /** Makes the same JSON of a rewritten query, with columns that it selects besides. */
  replaceBy(query: Node, added: readonly string[]): Node
}

/** The SQL before and after the query, as PostgreSQL takes it. */
const OF_ROWS = [
  ["(select coalesce(json_agg(agg), '[]') from ", ' as agg)'],
  ['(select to_json(obj) from ', ' as obj)'],
]
/** The SQL before and after the names and values of the columns, and after the query: SQLite and MySQL need these. */
const OF_COLUMNS = [
  ['(select coalesce(json_group_array(json_object(', ")), '[]') from ", ' as agg)'],
  ['(select cast(coalesce(json_arrayagg(json_object(', ")), '[]') as json) from ", ' as agg)'],
  ['(select json_object(', ') from ', ' as obj)'],
]

export function jsonQuery(node: Node): JsonQuery | undefined {
  if (node.kind !== 'RawNode') return undefined
  const parameters = node.parameters as readonly Node[]
  const query = parameters.at(-1)
  const isOne = (known: readonly string[]) => known.join('?') === (node.sqlFragments as readonly string[]).join('?')
  if (query?.kind !== 'SelectQueryNode') return undefined
  if (OF_ROWS.some(isOne)) return { query, replaceBy: (own) => ({ ...node, parameters: [own] }) as Node }
  const known = OF_COLUMNS.find(isOne)
  if (!known) return undefined
  const table = TableNode.create(known.at(-1)?.slice(4, -1) ?? '')
  const pair = (name: string) => [ValueNode.createImmediate(name), ReferenceNode.create(ColumnNode.create(name), table)]
  const comma = RawNode.createWithSql(', ')
  return {
    query,
    replaceBy(own, added) {
      const more = added.flatMap(pair).flatMap((one) => [comma, one])
      const columns = RawNode.createWithChildren([parameters[0] as never, ...more])
      return { ...node, parameters: [columns, own] } as unknown as Node
    },
  }
}

/** The text of raw SQL, with `?` for its values and for the queries inside. */
export function rawText(node: Node): string {
  if (node.kind === 'RawNode') {
    const parameters = node.parameters as readonly Node[]
    return (node.sqlFragments as readonly string[])
      .map((fragment, at) => (parameters[at] ? fragment + rawText(parameters[at]) : fragment))
      .join('')
  }
  if (node.kind === 'ReferenceNode' && node.table)
    return `${rawText(node.table as Node)}.${rawText(node.column as Node)}`
  const name = columnName(node) ?? tableNames(node)?.table ?? (node.kind === 'IdentifierNode' ? node.name : undefined)
  return name === undefined ? ' ? ' : `"${String(name)}"`
}
