/** Inserts and updates of Kysely: seals their values, and adds the columns of the indexes. */
import {
  MANY_ROWS,
  manyRowsColumn,
  manyRowsSql,
  type Row,
  readConflict,
  refuseCall,
  refuseComputed,
  type SealedTable,
  sealMany,
} from '@eaas/sdk/adapter'
import { ColumnUpdateNode, DefaultInsertValueNode, FromNode, ValueListNode, ValuesNode } from 'kysely'
import { columnName, columnNode, equal, type Node, qualifierOf, rawNode, tableNames, valueNode } from './nodes.js'
import { assertOneRow, assertValuesInSql, isOneRow, pinnedBy } from './one-row.js'
import type { Rewriter } from './rewrite.js'
import { assertSpelling, findSource, findTable, isSealed, type Scope, tableRelation } from './scope.js'
import { type Named, pathOf } from './spellings.js'

export const WRITTEN = ['columns', 'values', 'updates', 'onConflict']

/** What a row or an update sets: values, and expressions that the database computes. */
export type Given = { values: Row; computed: Map<string, Node> }

export async function rewriteInsert(rewriter: Rewriter, node: Node, scope: Scope): Promise<Node> {
  const table = tableIn(rewriter, node.into as Node)
  const values = node.values as Node | undefined
  if (!table) {
    const parts = { values, onConflict: node.onConflict as Node | undefined }
    const out: Record<string, unknown> = { ...node }
    for (const [member, part] of Object.entries(parts)) if (part) out[member] = await rewriter.expression(part, scope)
    return out as unknown as Node
  }
  if (values && values.kind !== 'ValuesNode') refuseCall('an insert from a query', 'Read the rows, and insert them.')
  if (node.onDuplicateKey || node.replace || node.orAction)
    refuseCall('replace, `or`, and on duplicate key', 'Use an insert with `onConflict`, or an update.')
  const columns = ((node.columns as readonly Node[]) ?? []).map(nameOf)
  for (const column of columns) assertSpelling(table, column)
  const rowsGiven = node.defaultValues ? [ValueListNode.create([]) as unknown as Node] : values?.values
  const given = ((rowsGiven as readonly Node[] | undefined) ?? []).map((row) => readRow(columns, row))
  for (const { computed } of given) await rewriteComputed(rewriter, table, computed, scope)
  const named = { table, node: node.into as Node }
  await rewriter.spellings.assertNoTriggers(named)
  const wholeRows = given.map(({ values: row, computed }) => ({ ...Object.fromEntries(computed), ...row }))
  const made = await rewriter.spellings.makeIds(named, wholeRows)
  const filled = given.map(({ values: row }, at) => ({ ...row, ...made.rows[at] }))
  const plain = await rewriter.spellings.spell(named, filled)
  const sealed = (await table.sealRows(plain)).map((row) => rewriter.spellings.storable(table, row))
  const all = [...new Set([...columns, ...sealed.flatMap((row) => Object.keys(row))])]
  const rows = sealed.map((row, at) => valueList(all, { values: row, computed: given[at]?.computed ?? new Map() }))
  const out: Record<string, unknown> = { ...node, defaultValues: undefined }
  if (rowsGiven) {
    out.columns = all.map((column) => columnNode(column))
    const list = ValuesNode.create(rows) as object as Node
    out.values = made.isAlways ? rawNode(['overriding system value ', ''], [list]) : list
  }
  if (node.onConflict) out.onConflict = await rewriteConflict(rewriter, named, node.onConflict as Node, plain, scope)
  return out as unknown as Node
}

export function readRow(columns: readonly string[], row: Node): Given {
  const out: Given = { values: {}, computed: new Map() }
  for (const [at, column] of columns.entries()) {
    const value = (row.values as readonly unknown[])[at]
    if (row.kind === 'PrimitiveValueListNode') out.values[column] = value
    else if ((value as Node).kind === 'ValueNode') out.values[column] = (value as Node).value
    else if ((value as Node).kind !== 'DefaultInsertValueNode') out.computed.set(column, value as Node)
  }
  return out
}

function valueList(columns: readonly string[], { values, computed }: Given): ValueListNode {
  return ValueListNode.create(
    columns.map((column) => {
      const value = values[column]
      return (computed.get(column) ??
        (value === undefined ? DefaultInsertValueNode.create() : valueNode(value))) as never
    }),
  )
}

export async function rewriteUpdate(rewriter: Rewriter, node: Node, scope: Scope): Promise<Node> {
  const table = tableIn(rewriter, node.table as Node) ?? aliasedTable(scope, node.table as Node)
  const updates = node.updates as readonly Node[]
  const isOfSeveral = (node.table as Node).kind === 'ListNode' && [...scope.own.values()].some(Boolean)
  if (isOfSeveral || updates.some(({ column }) => isOfAnother(scope, column as Node, table)))
    refuseCall('an update of several tables', 'Update each by itself.')
  if (!table) {
    const rewrite = async (one: Node) => ({ ...one, value: await rewriter.expression(one.value as Node, scope) })
    return { ...node, updates: await Promise.all(updates.map(rewrite)) } as unknown as Node
  }
  const { values, computed } = readUpdates(updates)
  await rewriteComputed(rewriter, table, computed, scope)
  assertValuesInSql(updates)
  const named = { table, node: writtenNode(node) }
  await rewriter.spellings.assertNoTriggers(named)
  const rows = rewriter.rows.length > 0 ? rewriter.rows : [await findBound(rewriter, named, node, { values, scope })]
  for (const known of rows) table.assertKeepsKey(Object.fromEntries(computed), known)
  if (rows.length > 1) {
    const many = await sealUpdate(table, node.table as Node, { changes: values, rows })
    rewriter.from = many.from
    for (const [column, value] of many.own) computed.set(column, value)
    return { ...node, updates: updateList(table, { values: many.same, computed }) } as unknown as Node
  }
  const sealed = rewriter.spellings.storable(table, await table.sealChanges(values, rows[0] ?? {}))
  return { ...node, updates: updateList(table, { values: sealed, computed }) } as unknown as Node
}

/**
 * Returns the values that an update's condition gives for its rows; none if it may find other rows, which is refused
 * where values are bound to the row.
 */
async function findBound(
  rewriter: Rewriter,
  named: Named,
  node: Node,
  { values, scope }: { values: Row; scope: Scope },
): Promise<Row> {
  const { table } = named
  const isBound = table.isBound(values)
  if (isBound) assertOneRow(table.name, node)
  else if (!isOneRow(node)) return {}
  const alias = tableNames(node.table as Node)?.alias ?? ''
  const bound = pinnedBy(alias, scope.own.size === 1, node.where as Node | undefined)
  return isBound ? rewriter.spellings.spellBound(named, bound) : bound
}

async function rewriteConflict(
  rewriter: Rewriter,
  named: Named,
  node: Node,
  rows: readonly Row[],
  outer: Scope,
): Promise<Node> {
  const { table } = named
  const scope = { ...outer, own: new Map([...outer.own, ['excluded', tableRelation(table)]]) }
  const targets = ((node.columns as readonly Node[]) ?? []).map(nameOf)
  const conflict = readConflict(table, targets, rows)
  const { values, computed } = readUpdates((node.updates as readonly Node[]) ?? [])
  table.assertKeepsKey(Object.fromEntries(computed), conflict.bound)
  const taken = [...computed].flatMap(([column, value]) =>
    table.isSealed(column) && columnName(value) === column && qualifierOf(value) === 'excluded' ? [column] : [],
  )
  const excluded = new Map(conflict.excluded(taken).map((column) => [column, columnNode(column, 'excluded')]))
  for (const name of excluded.keys()) computed.delete(name)
  await rewriteComputed(rewriter, table, computed, scope)
  const out: Record<string, unknown> = { ...node }
  if (node.columns) out.columns = targets.map((column) => columnNode(indexOf(table, column)))
  if (table.isBound(values) || excluded.size > 0) await rewriter.spellings.assertStored(named, rows)
  if (node.updates) {
    const sealed = await table.sealChanges(values, conflict.bound)
    out.updates = updateList(table, { values: sealed, computed: new Map([...excluded, ...computed]) })
  }
  for (const member of ['indexExpression', 'indexWhere', 'updateWhere']) {
    if (node[member]) out[member] = await rewriter.expression(node[member] as Node, scope)
  }
  return out as unknown as Node
}

/** Returns the column by which rows conflict. Encrypted values are never equal, so their index replaces them. */
function indexOf(table: SealedTable, column: string): string {
  return table.isSealed(column) ? table.planEqual(column, '=', []).column : column
}

export function readUpdates(updates: readonly Node[]): Given {
  const out: Given = { values: {}, computed: new Map() }
  for (const one of updates) {
    const column = nameOf(one.column as Node)
    const value = one.value as Node
    if (value.kind === 'ValueNode') out.values[column] = value.value
    else out.computed.set(column, value)
  }
  return out
}

function updateList(table: SealedTable, { values, computed }: Given): ColumnUpdateNode[] {
  const plain = Object.entries(values).map(([column, value]) => [column, valueNode(value)] as const)
  return [...plain, ...computed].map(([column, value]) => {
    assertSpelling(table, column)
    return ColumnUpdateNode.create(columnNode(column) as never, value)
  })
}

/** Refuses SQL for a column that is encrypted or bound to; rewrites it elsewhere, where it may contain a query. */
async function rewriteComputed(
  rewriter: Rewriter,
  table: SealedTable,
  computed: Map<string, Node>,
  scope: Scope,
): Promise<void> {
  for (const [column, value] of computed) {
    if (table.isSealed(column) || table.bind.includes(column)) refuseComputed(table.name, column)
    table.assertNoneMade({ [column]: value })
    computed.set(column, await rewriter.expression(value, scope))
  }
}

/** @throws InvalidInputError for an expression in place of a column's name, since it could mean an encrypted one */
export function nameOf(column: Node): string {
  return columnName(column) ?? refuseCall('to set an expression', 'Name the column that is set.')
}

function tableIn(rewriter: Rewriter, node: Node): SealedTable | undefined {
  return findTable(rewriter.models, tableNames(node)?.table ?? '')
}

/** Finds the table that another part of the query aliases to the updated name, as SQL Server allows. */
function aliasedTable(scope: Scope, node: Node): SealedTable | undefined {
  const [output] = scope.own.get(tableNames(node)?.alias ?? '')?.outputs ?? []
  return output && 'all' in output ? output.all.table : undefined
}

/** Returns the node of the updated table. If the update names an alias, it is elsewhere in the query. */
function writtenNode(update: Node): Node {
  const written = update.table as Node
  const froms = ((update.from as Node | undefined)?.froms ?? []) as readonly Node[]
  return (
    froms.find((one) => one.kind === 'AliasNode' && tableNames(one)?.alias === tableNames(written)?.table) ?? written
  )
}

/** Tells whether the qualifier of a column that is set makes it an encrypted column of another table. */
function isOfAnother(scope: Scope, column: Node, table: SealedTable | undefined): boolean {
  const source = qualifierOf(column) === undefined ? undefined : findSource(scope, column)
  return source !== undefined && isSealed(source) && source.instance.table !== table
}

/** Seals the changes of rows; returns what is set, and the values that it is set from. */
export async function sealUpdate(
  table: SealedTable,
  node: Node,
  { changes, rows }: { changes: Row; rows: readonly Row[] },
): Promise<{ same: Row; own: [column: string, value: Node][]; from: Node }> {
  const { same, own, json } = await sealMany(table, changes, rows)
  const values = rawNode(manyRowsSql(table, { own, name: pathOf(node) }), [valueNode(json)])
  const from = FromNode.create([values as never]) as object as Node
  return { same, own: own.map((column) => [column, manyValue(table, column)]), from }
}

export function boundToMany(table: SealedTable, alias: string): Node {
  return equal(table.bind.map((column) => [columnNode(column, alias), manyValue(table, column)]))
}

function manyValue(table: SealedTable, column: string): Node {
  return columnNode(manyRowsColumn(table, column), MANY_ROWS)
}
