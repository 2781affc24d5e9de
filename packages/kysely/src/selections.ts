/** What a query of Kysely selects or returns: which columns are encrypted, and their names in a result. */
import { namesInSql, refuseCall } from '@eaas/sdk/adapter'
import { RawNode, ValueNode } from 'kysely'
import { aliasName, columnName, columnNode, isNode, type Node, qualifierOf, rawText, selectionNode } from './nodes.js'
import { columnsByInstance } from './results.js'
import type { Rewriter } from './rewrite.js'
import {
  assertNoWholeRow,
  findInner,
  findInScope,
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

/** Finds a column unknown to the model, in a query of one table: the key of the row may depend on it. */
function findOnly({ own }: Scope, value: Node): Source | undefined {
  const [relation, ...others] = own.values()
  const column = columnName(value)
  return column === undefined || qualifierOf(value) !== undefined || others.length > 0
    ? undefined
    : relation?.find(column)
}

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
  if (relations.length > 1 && known.length > 0)
    refuseCall('selectAll() of several tables', 'Name the columns, so that each has a name of its own.')
  return known.flatMap(({ outputs }) => outputs)
}

/** Tells whether columns can be added. They would change the result of a query that compares rows. */
export function takesColumns(query: Node): boolean {
  return !isDistinct(query) && !query.groupBy && !query.setOperations && !query.distinctOn
}

export function isDistinct(query: Node): boolean {
  return ((query.frontModifiers as readonly Node[]) ?? []).some(({ modifier, rawModifier }) => {
    const words = isNode(rawModifier) ? namesInSql(rawText(rawModifier)).map(({ name }) => name) : []
    return modifier === 'Distinct' || words.some((word, at) => word === 'distinct' && words[at + 1] !== 'on')
  })
}

/** Adds the columns that encrypted ones are bound to, under names of their own; `hide` removes them from the rows. */
export function addBound(scope: Scope, { nodes, outputs, places }: Selections): Selections {
  const added: { node: Node; output: Output }[] = []
  for (const [instance, columns] of columnsByInstance(outputs)) {
    for (const column of instance.table.readsToo(columns)) {
      const at = findInScope(scope, { instance, column })
      if (!at) continue // refused by assertReadable
      const name = `eaas_bound_${added.length}`
      const output = { name, source: { instance, column }, isHidden: true }
      added.push({ node: selectionNode(columnNode(at.column, at.alias), name), output })
    }
  }
  return {
    nodes: [...nodes, ...added.map(({ node }) => node)],
    outputs: [...outputs, ...added.map(({ output }) => output)],
    places,
  }
}

/** A query that Kysely's `jsonArrayFrom` or `jsonObjectFrom` turns into JSON. */
interface JsonQuery {
  query: Node
  /** Makes the same JSON from the rewritten query and the columns added to it. */
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

function jsonQuery(node: Node): JsonQuery | undefined {
  if (node.kind !== 'RawNode') return undefined
  const parameters = node.parameters as readonly Node[]
  const query = parameters.at(-1)
  const isOne = (known: readonly string[]) => known.join('?') === (node.sqlFragments as readonly string[]).join('?')
  if (query?.kind !== 'SelectQueryNode') return undefined
  if (OF_ROWS.some(isOne)) return { query, replaceBy: (own) => ({ ...node, parameters: [own] }) as Node }
  const known = OF_COLUMNS.find(isOne)
  if (!known) return undefined
  const alias = known.at(-1)?.slice(4, -1) ?? ''
  const pair = (name: string) => [ValueNode.createImmediate(name), columnNode(name, alias)]
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
