/** What a query of Kysely selects or returns: which columns are encrypted, and their names in a result. */
import { refuseCall } from '@eaas/sdk/adapter'
import { jsonQuery } from './json-query.js'
import { aliasName, columnName, type Node, qualifierOf } from './nodes.js'
import type { Rewriter } from './rewriter.js'
import {
  assertNoWholeRow,
  findInner,
  findRelation,
  findSource,
  type Output,
  type Relation,
  type Scope,
  type Source,
} from './scope.js'

export interface Selections {
  nodes: Node[]
  outputs: Output[]
  /** The outputs of each node. */
  places: (readonly Output[])[]
}

export async function rewriteSelections(
  rewriter: Rewriter,
  scope: Scope,
  selections: readonly Node[],
): Promise<Selections> {
  const all = await Promise.all(selections.map((one) => rewriteSelection(rewriter, scope, one)))
  const places = all.map(({ outputs }) => outputs)
  return { nodes: all.map(({ node }) => node), outputs: places.flat(), places }
}

async function rewriteSelection(
  rewriter: Rewriter,
  scope: Scope,
  one: Node,
): Promise<{ node: Node; outputs: readonly Output[] }> {
  const selection = one.selection as Node
  const whole = wholeRelations(scope, selection)
  if (whole) return { node: one, outputs: outputsOf(whole) }
  const isNamed = selection.kind === 'AliasNode'
  const value = isNamed ? (selection.node as Node) : selection
  const name = isNamed ? aliasName(selection) : (columnName(value) ?? '')
  const source = findSource(scope, value) ?? findOnly(scope, value)
  assertNoWholeRow(scope, value)
  if (source) return { node: one, outputs: [{ name, source }] }
  const inside = findInner(scope, value)
  if (inside) return { node: one, outputs: [{ name, inner: inside }] }
  const json = isNamed ? jsonQuery(value) : undefined
  if (json) {
    const inner = await rewriter.result(json.query, scope)
    const hidden = inner.outputs.flatMap((output) => ('isHidden' in output && output.isHidden ? [output.name] : []))
    const raw = json.replaceBy(inner.node, hidden)
    const node = { ...one, selection: { ...selection, node: raw } } as Node
    return { node, outputs: [{ name, inner: inner.outputs }] }
  }
  return { node: await rewriter.expression(one, scope), outputs: [] }
}

/** Finds a column unknown to the model, in a query of one table: it may determine the key of the row. */
function findOnly({ own }: Scope, value: Node): Source | undefined {
  const [relation, ...others] = own.values()
  const column = columnName(value)
  return column === undefined || qualifierOf(value) !== undefined || others.length > 0
    ? undefined
    : relation?.find(column)
}

/** Tells whether a selection is of all columns, of all tables or of one. */
export function isWhole(node: Node): boolean {
  return node.kind === 'SelectAllNode' || (node.kind === 'ReferenceNode' && isWhole(node.column as Node))
}

/** Returns the relations whose columns are all selected; undefined if the selection is something else. */
function wholeRelations(scope: Scope, node: Node): (Relation | undefined)[] | undefined {
  if (node.kind === 'SelectAllNode') return [...scope.own.values()]
  if (!isWhole(node)) return undefined
  return [findRelation(scope, qualifierOf(node) ?? '')]
}

function outputsOf(relations: readonly (Relation | undefined)[]): Output[] {
  const known = relations.filter((one) => one !== undefined)
  if (relations.length > 1 && known.length > 0) {
    refuseCall('selectAll() of several tables', 'Name the columns, so that each has a name of its own.')
  }
  return known.flatMap(({ outputs }) => outputs)
}
