/** Rewrites a query of Kysely: conditions on encrypted columns search their index, and what cannot be done is refused. */
import { namesInSql, type Row, refuseCall, refuseCount, refuseExpression, refuseOrder } from '@eaas/sdk/adapter'
import { isNode, isQuery, type Node, rawText, tableNames } from './nodes.js'
import { assertOrder, assertRawPart, assertRawStatement } from './refused-sql.js'
import { addRelations, RELATIONS } from './relations.js'
import {
  assertNoWholeRow,
  findInner,
  findSource,
  findTable,
  type Instance,
  isSealed,
  type Models,
  type Output,
  openScope,
  type Scope,
  type Source,
  sealedIn,
} from './scope.js'
import { compare, type Filtering, withFiltering, withoutSearches, withSearches } from './searches.js'
import { addBound, isDistinct, rewriteSelections, takesColumns } from './selections.js'
import type { Spellings } from './spellings.js'
import { rewriteInsert, rewriteUpdate, WRITTEN } from './writes.js'

export interface Rewritten {
  node: Node
  outputs: readonly Output[]
  filtering?: Filtering | undefined
}

/** How the other files rewrite the parts inside a query. */
export interface Rewriter {
  models: Models
  spellings: Spellings
  /** The rows that the statement changes, if they were read before. */
  rows: readonly Row[]
  /** The sealed values of many rows: `from` of their update, which is not rewritten. */
  from?: Node
  /** Rewrites a query. `outer` is the scope of the query around it. */
  query(node: Node, outer: Scope | undefined): Promise<Rewritten>
  /** Like `query`, for a query whose rows go to the application: it may get further columns. */
  result(node: Node, outer: Scope | undefined): Promise<Rewritten>
  expression(node: Node, scope: Scope): Promise<Node>
}

/** Rewrites a statement. @throws InvalidInputError for what the database cannot do with encrypted values */
export async function rewriteStatement(
  models: Models,
  spellings: Spellings,
  statement: Node,
  rows: readonly Row[] = [],
): Promise<Rewritten> {
  const rewriter: Rewriter = {
    models,
    spellings,
    rows,
    query: (node, outer) => rewriteQuery(rewriter, node, outer),
    result: (node, outer) => rewriteQuery(rewriter, node, outer, takesColumns(node)),
    expression: (node, scope) => rewriteExpression(rewriter, node, scope),
  }
  if (isQuery(statement)) {
    const rewritten = await rewriter.result(statement, undefined)
    return rewriter.from ? { ...rewritten, node: { ...rewritten.node, from: rewriter.from } as Node } : rewritten
  }
  if (statement.kind === 'RawNode') assertRawStatement(models, statement)
  else assertNoQuery(models, statement)
  return { node: statement, outputs: [] }
}

async function rewriteQuery(
  rewriter: Rewriter,
  query: Node,
  outer: Scope | undefined,
  takesMore = false,
): Promise<Rewritten> {
  if (query.kind === 'MergeQueryNode') {
    assertNoTable(rewriter.models, query, 'merge')
    return { node: query, outputs: [] }
  }
  const scope = openScope(outer)
  let node = await addRelations(rewriter, query, scope)
  if (node.kind === 'InsertQueryNode') node = await rewriteInsert(rewriter, node, scope)
  if (node.kind === 'UpdateQueryNode') node = await rewriteUpdate(rewriter, node, scope)
  const returning = node.returning as Node | undefined
  const selected = (node.selections ?? returning?.selections ?? []) as readonly Node[]
  const own = await rewriteSelections(rewriter, scope, selected)
  // Nested rows, such as those in JSON, are not filtered.
  const { rest, asked } = takesMore && !outer ? withoutSearches(rewriter, node, scope) : { rest: node, asked: [] }
  const { node: unlimited, selections, filtering } = withFiltering(rest, own, asked)
  if (filtering && isOfRows(unlimited.selections)) refuseCount()
  node = unlimited
  const { nodes, outputs } = takesMore ? addBound(scope, selections) : selections
  assertOrder(scope, node, own)
  assertSelected(node, scope, outputs)
  const out: Record<string, unknown> = {}
  for (const [member, value] of Object.entries(node)) {
    if (value === undefined) continue // a plugin that copies nodes leaves members without a value
    if (RELATIONS.includes(member) || WRITTEN.includes(member) || (filtering && member === 'where')) out[member] = value
    else if (member === 'selections') out[member] = nodes
    else if (member === 'returning') out[member] = { ...returning, selections: nodes }
    else if (member === 'setOperations') out[member] = await rewriteSets(rewriter, value as Node[], scope, outputs)
    else out[member] = await rewriteMember(rewriter, value, scope)
  }
  const rewritten = out as unknown as Node
  return { node: filtering ? await withSearches(rewriter, rewritten, scope, asked) : rewritten, outputs, filtering }
}

/** Tells whether a value is computed from several rows, by an aggregate or a window. Inner queries have their own rows. */
function isOfRows(part: unknown): boolean {
  if (Array.isArray(part)) return part.some(isOfRows)
  if (!isNode(part) || isQuery(part)) return false
  const hasWindow = part.kind === 'RawNode' && namesInSql(rawText(part)).some(({ name }) => name === 'over')
  return part.kind === 'AggregateFunctionNode' || hasWindow || Object.values(part).some(isOfRows)
}

function assertSelected(node: Node, scope: Scope, outputs: readonly Output[]): void {
  const [sealed] = sealedIn(outputs)
  if (sealed && isDistinct(node)) refuseOrder(sealed.instance.table.name, sealed.column)
  const isWritten = [...scope.own.values()].some(Boolean)
  if (node.output && isWritten) refuseCall('output', 'Select the rows afterwards.')
}

/** Rewrites the further queries of `union all`, whose rows are opened like those of the first. */
async function rewriteSets(
  rewriter: Rewriter,
  sets: readonly Node[],
  scope: Scope,
  outputs: readonly Output[],
): Promise<Node[]> {
  const beside = { own: new Map(), named: scope.named, outer: scope.outer }
  return Promise.all(
    sets.map(async (set) => {
      const inner = await rewriter.query(set.expression as Node, beside)
      const isSame = shapeOf(outputs) === shapeOf(inner.outputs) && set.operator === 'union' && set.all === true
      const [one] = sealedIn([...outputs, ...inner.outputs])
      if (one && !isSame) {
        const hint = 'Run the queries one by one, or use `unionAll` of the same columns of one table.'
        refuseCall(`${String(set.operator)} of ${one.instance.table.name}.${one.column}`, hint)
      }
      return { ...set, expression: inner.node } as Node
    }),
  )
}

/** Describes the columns of a query, and which of them belong to the same row. */
function shapeOf(outputs: readonly Output[]): string {
  const instances: Instance[] = []
  const row = (instance: Instance) => {
    const at = instances.indexOf(instance)
    return [instance.table.name, at < 0 ? instances.push(instance) - 1 : at]
  }
  const shape = (output: Output): unknown => {
    if ('all' in output) return row(output.all)
    if ('inner' in output) return [output.name, output.inner.map(shape)]
    return [output.name, ...row(output.source.instance), output.source.column]
  }
  // A column unknown to the model is an output only if it is written with its table.
  const isKnown = ({ instance, column }: Source) => instance.table.columns.includes(column)
  return JSON.stringify(outputs.filter((one) => !('source' in one) || isKnown(one.source)).map(shape))
}

async function rewriteMember(rewriter: Rewriter, value: unknown, scope: Scope): Promise<unknown> {
  if (Array.isArray(value)) return Promise.all(value.map((one) => rewriteMember(rewriter, one, scope)))
  return isNode(value) ? rewriteExpression(rewriter, value, scope) : value
}

/** Values, and names that mean nothing encrypted. */
const LEAVES = ['ValueNode', 'PrimitiveValueListNode', 'ReferenceNode', 'ColumnNode', 'TableNode']

async function rewriteExpression(rewriter: Rewriter, node: Node, scope: Scope): Promise<Node> {
  if (isQuery(node)) return rewriteValueQuery(rewriter, node, scope)
  const source = findSource(scope, node)
  if (source && isSealed(source)) return refuseExpression(source.instance.table.name, source.column)
  const [inside] = sealedIn(findInner(scope, node) ?? [])
  if (inside) return refuseExpression(inside.instance.table.name, inside.column)
  if (node.kind === 'SelectModifierNode' && !node.rawModifier) return node // `for update of` names tables
  assertNoWholeRow(scope, node)
  if (LEAVES.includes(node.kind)) return node
  if (node.kind === 'RawNode') assertRawPart(rewriter.models, scope, node)
  if (node.kind === 'BinaryOperationNode') {
    const left = findSource(scope, node.leftOperand as Node)
    if (left && isSealed(left)) return compare(scope, node, left)
  }
  if (node.kind === 'UnaryOperationNode' && isQuery(node.operand as Node)) {
    // `exists`, which reads no value
    return { ...node, operand: (await rewriteQuery(rewriter, node.operand as Node, scope)).node } as Node
  }
  const out: Record<string, unknown> = {}
  for (const [member, value] of Object.entries(node)) out[member] = await rewriteMember(rewriter, value, scope)
  return out as unknown as Node
}

async function rewriteValueQuery(rewriter: Rewriter, query: Node, scope: Scope): Promise<Node> {
  const { node, outputs } = await rewriteQuery(rewriter, query, scope)
  const [sealed] = sealedIn(outputs)
  return sealed ? refuseExpression(sealed.instance.table.name, sealed.column) : node
}

function assertNoTable(models: Models, part: unknown, statement: string): void {
  if (Array.isArray(part)) for (const one of part) assertNoTable(models, one, statement)
  else if (isNode(part)) {
    const table = tableNames(part)?.table
    const found = table === undefined ? undefined : findTable(models, table)
    if (found) refuseCall(`${statement} of ${table}`, 'Use an insert with `onConflict`, an update or a select.')
    if (part.kind === 'RawNode') assertRawPart(models, openScope(undefined), part)
    assertNoTable(models, Object.values(part), statement)
  }
}

/** Refuses a view, or another definition, that contains a query of such a table: it would store the searched values. */
function assertNoQuery(models: Models, part: unknown): void {
  if (Array.isArray(part)) for (const one of part) assertNoQuery(models, one)
  else if (isNode(part)) {
    if (isQuery(part)) assertNoTable(models, part, 'a definition with a query')
    else assertNoQuery(models, Object.values(part))
  }
}
