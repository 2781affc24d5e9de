/** The tables, joins and common table expressions of a query: adds them to its scope, and rewrites their queries. */
import { refuseCall } from '@eaas/sdk/adapter'
import { isQuery, type Node, tableNames } from './nodes.js'
import { assertDistinct } from './results.js'
import type { Rewriter } from './rewrite.js'
import { findTable, type Output, queryRelation, type Scope, sealedColumns, tableRelation } from './scope.js'

/** The members of a query that `addRelations` has rewritten. */
export const RELATIONS = ['with', 'from', 'into', 'table', 'joins', 'using']

export async function addRelations(rewriter: Rewriter, query: Node, scope: Scope): Promise<Node> {
  const out: Record<string, unknown> = { ...query }
  if (query.with) out.with = await addCommonTables(rewriter, query.with as Node, scope)
  // A write always changes a table, even if a common table expression has its name.
  const written = { ...scope, named: new Map() }
  const add = (node: Node) => addRelation(rewriter, node, scope)
  const addWritten = (node: Node) => addRelation(rewriter, node, written)
  const from = query.from as Node | undefined
  const isDelete = query.kind === 'DeleteQueryNode'
  if (query.into) out.into = await addWritten(query.into as Node)
  if (query.table) out.table = await addWritten(query.table as Node)
  if (from) out.from = { ...from, froms: await inOrder(from.froms as Node[], isDelete ? addWritten : add) }
  const using = query.using as Node | undefined
  if (using) out.using = { ...using, tables: await inOrder(using.tables as Node[], add) }
  if (query.joins) {
    const joins = await inOrder(query.joins as Node[], async (join) => ({
      ...join,
      table: await add(join.table as Node),
    }))
    // A condition may name tables that are joined after it.
    out.joins = await inOrder(joins, async (join) =>
      join.on ? { ...join, on: await rewriter.expression(join.on as Node, scope) } : join,
    )
  }
  return out as unknown as Node
}

async function addCommonTables(rewriter: Rewriter, clause: Node, scope: Scope): Promise<Node> {
  const all = clause.expressions as Node[]
  // With `recursive`, each may be named in itself and in those before it.
  if (clause.recursive) for (const one of all) scope.named.set(commonName(one), 'later')
  const expressions = await inOrder(all, async (one) => {
    const { name, expression } = one as unknown as { name: Node; expression: Node }
    const table = commonName(one)
    if (!isQuery(expression)) {
      scope.named.set(table, [])
      return { ...one, expression: await rewriter.expression(expression, scope) }
    }
    if (clause.recursive) scope.named.set(table, await firstOutputs(rewriter, expression, scope))
    const inner = await rewriter.query(expression, scope)
    assertDistinct(inner.outputs)
    if (name.columns && sealedColumns(inner.outputs).length > 0)
      refuseCall(`a list of columns of ${JSON.stringify(table)}`, 'Name the columns in its query, by `as`.')
    scope.named.set(table, inner.outputs)
    return { ...one, expression: inner.node }
  })
  return { ...clause, expressions } as Node
}

export function commonName(expression: Node): string {
  return tableNames((expression.name as Node).table as Node)?.table ?? ''
}

/** Returns the outputs of a recursive query: those of the first query of its union, which does not refer to itself. */
async function firstOutputs(rewriter: Rewriter, query: Node, scope: Scope): Promise<readonly Output[]> {
  if (!query.setOperations) return []
  return (await rewriter.query({ ...query, setOperations: undefined }, scope)).outputs
}

async function addRelation(rewriter: Rewriter, node: Node, scope: Scope): Promise<Node> {
  if (node.kind === 'ListNode')
    return { ...node, items: await inOrder(node.items as Node[], (one) => addRelation(rewriter, one, scope)) } as Node
  const names = tableNames(node)
  if (!names) return rewriter.expression(node, scope)
  const { table, alias, inner } = names
  if (inner && isQuery(inner)) {
    const rewritten = await rewriter.query(inner, scope)
    assertDistinct(rewritten.outputs)
    scope.own.set(alias, queryRelation(rewritten.outputs))
    return { ...node, node: rewritten.node } as Node
  }
  if (inner) {
    scope.own.set(alias, undefined)
    return { ...node, node: await rewriter.expression(inner, scope) } as Node
  }
  const named = scope.named.get(table)
  if (named === 'later')
    refuseCall(`a common table expression that names ${JSON.stringify(table)} before it is defined`, 'Define it first.')
  const model = named ? undefined : findTable(rewriter.models, table)
  scope.own.set(alias, model ? tableRelation(model) : queryRelation(named ?? []))
  return node
}

async function inOrder(nodes: readonly Node[], run: (node: Node) => Promise<object>): Promise<Node[]> {
  const out: Node[] = []
  for (const node of nodes) out.push((await run(node)) as Node) // a lateral join sees those before it
  return out
}
