/** The queries that Kysely's `jsonArrayFrom` and `jsonObjectFrom` turn into JSON, recognised by the SQL around them. */
import { ColumnNode, RawNode, ReferenceNode, TableNode, ValueNode } from 'kysely'
import type { Node } from './nodes.js'

/** A query that Kysely's `jsonArrayFrom` or `jsonObjectFrom` turns into JSON. */
export interface JsonQuery {
  query: Node
  /** Makes the same JSON from a rewritten query, with the further columns that it selects. */
  replaceBy(query: Node, added: readonly string[]): Node
}

/** The SQL before and after the query, for PostgreSQL. */
const OF_ROWS = [
  ["(select coalesce(json_agg(agg), '[]') from ", ' as agg)'],
  ['(select to_json(obj) from ', ' as obj)'],
]
/** The SQL before and after the columns' names and values, and after the query, for SQLite and MySQL. */
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
