/**
 * Updates, and upserts by a column outside of `bind`, whose statement does not determine the rows that its values
 * are bound to. One transaction finds the rows, locks them where the database can, and changes each with values
 * sealed to it.
 */
import {
  assertFoundAgain,
  assertOnlyFound,
  inBatches,
  inLockOrder,
  type Row,
  refuseCall,
  refuseExpression,
  refuseRace,
  type SealedTable,
  tellsRow,
  UPSERT_ATTEMPTS,
} from '@eaas/sdk/adapter'
import {
  AliasNode,
  AndNode,
  BinaryOperationNode,
  ColumnNode,
  DefaultInsertValueNode,
  IdentifierNode,
  OnConflictNode,
  OperatorNode,
  OrderByItemNode,
  OrderByNode,
  ParensNode,
  RawNode,
  SelectionNode,
  SelectModifierNode,
  SelectQueryNode,
  ValueNode,
  ValuesNode,
  WhereNode,
} from 'kysely'
import { boundToMany } from './many-rows.js'
import { columnName, type Node, qualifierOf, tableNames } from './nodes.js'
import { isOneRow, pinnedBy } from './one-row.js'
import { commonName } from './relations.js'
import { findTable, type Models } from './tables.js'
import { type Given, nameOf, readRow, readUpdates } from './writes.js'

/** How the statements of one change run. */
export interface Steps {
  /** How the database locks the rows that a select finds; undefined where it cannot, or need not. */
  lock: 'for update' | 'updlock' | undefined
  /** Whether one statement may change many rows, each to its own values. */
  takesMany: boolean
  /** Whether an update may set a column to `default`. */
  takesDefault: boolean
  /** Runs a statement through the adapter. `rows` are those that it changes: one, or many where `takesMany`. */
  run(statement: Node, rows?: readonly Row[]): Promise<Result>
}

export interface Result {
  rows: Row[]
  numAffectedRows?: bigint | undefined
  numChangedRows?: bigint | undefined
}

type Change = (steps: Steps) => Promise<Result>

/** The parts of an update that determine its rows. The select of these rows has them too. */
const FINDING = ['with', 'joins', 'where', 'orderBy', 'limit', 'top']
const OF_UPDATE = [...FINDING, 'kind', 'table', 'from', 'updates', 'returning']
const OF_INSERT = ['with', 'kind', 'into', 'columns', 'values', 'onConflict', 'returning']

/**
 * Returns the function that changes the rows that a statement finds; undefined if the statement itself determines
 * its row.
 *
 * @throws InvalidInputError if the statement has parts that cannot run in steps
 */
export function planFound(models: Models, statement: Node): Change | undefined {
  const change = statement.kind === 'UpdateQueryNode' ? planUpdate(models, statement) : planUpsert(models, statement)
  if (change) assertSteps(statement)
  return change
}

function assertSteps(statement: Node): void {
  const parts = statement.kind === 'UpdateQueryNode' ? OF_UPDATE : OF_INSERT
  const other = Object.keys(statement).find((part) => statement[part] !== undefined && !parts.includes(part))
  if (other !== undefined) {
    refuseCall(`${other} of ${OF_FOUND}`, 'Read the ids first, and update each row by its own.')
  }
  if (commonTables(statement).some((one) => (one.expression as Node).kind !== 'SelectQueryNode')) {
    refuseCall(`another write, or SQL as text, in \`with\` of ${OF_FOUND}`, 'Run it by itself.')
  }
}

const OF_FOUND = 'a write whose rows must be read before'

function commonTables(statement: Node): readonly Node[] {
  return (statement.with as { expressions?: readonly Node[] } | undefined)?.expressions ?? []
}

function planUpdate(models: Models, statement: Node): Change | undefined {
  const names = tableNames(statement.table as Node)
  const table = names && findTable(models, names.table)
  if (!table) return undefined
  const { values } = readUpdates(statement.updates as readonly Node[])
  const isOnly = !statement.from && !statement.joins
  const isClear = isOneRow(statement)
  const known = isClear ? pinnedBy(names.alias, isOnly, statement.where as Node | undefined) : {}
  if (!table.needsRow(values, known)) return undefined
  if (!isOnly && !isClear) return undefined // SQL as text is refused later
  if (commonTables(statement).some((one) => commonName(one) === names.table)) {
    // An update changes the table, but a select would read the expression.
    refuseCall(`a common table expression of the name of the table in ${OF_FOUND}`, 'Give it another name.')
  }
  return async (steps) => {
    const { rows: found } = await steps.run(selectOf(steps, table, statement))
    const rows = isOnly ? found : distinctRows(table, found)
    const results: Result[] = []
    const { limit: _, orderBy: __, top: ___, ...others } = statement
    for (const some of steps.takesMany && isOnly ? inBatches(rows) : rows.map((row) => [row])) {
      const own = some[1] ? boundToMany(table, names.alias) : boundTo(table, names.alias, some[0] as Row)
      const where = isOnly ? own : joined(own, statement.where as Node | undefined)
      results.push(await change(steps, table, { ...others, where: WhereNode.create(where as never) } as Node, some))
    }
    return sum(results)
  }
}

/** Removes the repetitions of a join: an update changes each row once. */
function distinctRows({ bind }: SealedTable, rows: readonly Row[]): Row[] {
  const keyOf = (row: Row) => JSON.stringify(bind.map((column) => String(row[column])))
  return [...new Map(rows.map((row) => [keyOf(row), row])).values()]
}

/** Changes rows that were read, and no others. */
async function change(steps: Steps, table: SealedTable, update: Node, rows: readonly Row[]): Promise<Result> {
  const result = await steps.run(update, rows)
  assertOnlyFound(table, rows.length, result.numAffectedRows ?? result.rows.length)
  return result
}

/** Selects the rows that an update finds, by its own condition, and locks them where the database can. */
function selectOf({ lock }: Steps, table: SealedTable, update: Node): Node {
  const own = update.table as Node
  const froms = ((update.from as Node | undefined)?.froms ?? []) as readonly Node[]
  const alias = tableNames(own)?.alias ?? ''
  const select = selectFrom([own, ...froms], table, alias, lock)
  const found: Node = { ...select, ...Object.fromEntries(FINDING.map((part) => [part, update[part]])) }
  // In one order, so that of two such writes one waits for the other.
  const order = table.bind.map((column) => OrderByItemNode.create(reference(alias, column) as never))
  return order.length === 0 || found.orderBy ? found : { ...found, orderBy: OrderByNode.create(order) }
}

const reference = (alias: string, column: string) => ({
  kind: 'ReferenceNode',
  column: ColumnNode.create(column),
  table: named(alias),
})

/** Selects what values are bound to, or all columns if others may determine the key of a row. */
function selectFrom([own, ...others]: readonly Node[], table: SealedTable, alias: string, lock: Steps['lock']): Node {
  assertFoundAgain(table)
  const selections = table.keyByRow
    ? [
        {
          kind: 'SelectionNode',
          selection: { kind: 'ReferenceNode', column: { kind: 'SelectAllNode' }, table: named(alias) },
        },
      ]
    : table.bind.map((column) => SelectionNode.create(reference(alias, column) as never))
  const froms = [lock === 'updlock' ? withHint(own as Node, alias) : own, ...others]
  const select = SelectQueryNode.cloneWithSelections(SelectQueryNode.createFrom(froms as never), selections as never)
  const forUpdate = SelectModifierNode.create('ForUpdate', others.length > 0 ? [named(alias) as never] : undefined)
  return (lock === 'for update' ? { ...select, endModifiers: [forUpdate] } : select) as unknown as Node
}

/** Names a table with the hint by which SQL Server locks its rows: it follows the alias. */
function withHint(table: Node, alias: string): Node {
  const hinted = { ...RawNode.create(['', ' with (updlock)'], [IdentifierNode.create(alias)]), name: alias }
  return AliasNode.create((table.kind === 'AliasNode' ? table.node : table) as never, hinted) as unknown as Node
}

const named = (alias: string) =>
  ({
    kind: 'TableNode',
    table: { kind: 'SchemableIdentifierNode', identifier: { kind: 'IdentifierNode', name: alias } },
  }) as const

function boundTo({ bind }: SealedTable, alias: string, row: Row): Node {
  return equal(
    bind.map((column) => [
      { kind: 'ReferenceNode', column: ColumnNode.create(column), table: named(alias) },
      row[column],
    ]),
  )
}

function equal(pairs: readonly (readonly [unknown, unknown])[]): Node {
  const all = pairs.map(([column, value]) =>
    BinaryOperationNode.create(column as never, OperatorNode.create('='), ValueNode.create(value)),
  )
  return all.reduce<AndNode | BinaryOperationNode | undefined>(
    (one, next) => (one ? AndNode.create(one, next) : next),
    undefined,
  ) as unknown as Node
}

function joined(own: Node, where: Node | undefined): Node {
  return where ? (AndNode.create(own as never, ParensNode.create(where.where as never)) as unknown as Node) : own
}

function planUpsert(models: Models, statement: Node): Change | undefined {
  const conflict = statement.onConflict as Node | undefined
  if (!conflict) return undefined
  const names = tableNames(statement.into as Node)
  const table = names && findTable(models, names.table)
  const values = statement.values as Node | undefined
  if (!table || !conflict.updates || values?.kind !== 'ValuesNode') return undefined
  const updates = conflict.updates as readonly Node[]
  const targets = ((conflict.columns as readonly Node[]) ?? []).map(nameOf)
  const sealed = Object.fromEntries(updates.map((one) => [nameOf(one.column as Node), takenValue(one)]))
  const known = Object.fromEntries(targets.map((column) => [column, '']))
  const isSealedTarget = targets.some((column) => table.isSealed(column))
  const isSame = tellsRow(table, targets)
  if (!isSealedTarget && (isSame || !table.needsRow(sealed, { ...known, ...(isSame ? {} : absent(table)) })))
    return undefined
  if (targets.length === 0 || conflict.indexExpression || conflict.indexWhere) {
    if (table.needsRow(sealed, {})) {
      refuseCall('an upsert by a constraint, an expression or a partial index', "Name its columns: oc.column('…').")
    }
    return undefined
  }
  const columns = ((statement.columns as readonly Node[]) ?? []).map(nameOf)
  return async (steps) => {
    const upserts = (values.values as readonly Node[]).map(async (row): Promise<Upsert> => {
      const given = readRow(columns, row)
      return { statement, row, given, targets, target: await table.findTarget(given.values, targets) }
    })
    const all = await Promise.all(upserts)
    const rows = await inLockOrder(all, (upsert) => findExisting(steps, table, upsert))
    const results: Result[] = []
    for (const [at, upsert] of all.entries()) results.push(await upsertOne(steps, table, upsert, rows[at]))
    return sum(results)
  }
}

interface Upsert {
  statement: Node
  row: Node
  given: Given
  targets: readonly string[]
  /** by which to find the existing row */
  target: Row
}

/** Finds and locks the row with which a new one conflicts. */
async function findExisting(steps: Steps, table: SealedTable, { statement, target }: Upsert): Promise<Row | undefined> {
  const alias = tableNames(statement.into as Node)?.alias ?? ''
  const condition = equal(Object.entries(target).map(([column, value]) => [ColumnNode.create(column), value]))
  const select = selectFrom([statement.into as Node], table, alias, steps.lock)
  const where = WhereNode.create(condition as never)
  return (await steps.run({ ...select, where } as unknown as Node)).rows[0]
}

async function upsertOne(steps: Steps, table: SealedTable, upsert: Upsert, existing: Row | undefined): Promise<Result> {
  const { statement, row, given, targets, target } = upsert
  const conflict = statement.onConflict as Node
  const alias = tableNames(statement.into as Node)?.alias ?? ''
  const columns = Object.keys(target).map((column) => ColumnNode.create(column))
  const skip = { ...OnConflictNode.create(), columns, doNothing: true }
  const insert = { ...statement, values: ValuesNode.create([row as never]), onConflict: skip } as unknown as Node
  let found = existing
  for (let attempt = 0; attempt < UPSERT_ATTEMPTS; attempt++) {
    if (found) {
      const updates = (conflict.updates as readonly Node[]).map((one) => ({
        ...one,
        value: ofRow(one, { table, given, takesDefault: steps.takesDefault }),
      }))
      const own = boundTo(table, alias, found)
      const where = WhereNode.create(joined(own, conflict.updateWhere as Node | undefined) as never)
      const { with: common, returning, into } = statement
      const update = { kind: 'UpdateQueryNode', table: into, updates, where, returning, with: common }
      return change(steps, table, update as unknown as Node, [found])
    }
    const result = await steps.run(insert)
    if (result.rows.length > 0 || (result.numAffectedRows ?? 0n) > 0n) return result
    // Another transaction inserted the row after the select. The insert waited for its commit, so the next select
    // finds it.
    found = await findExisting(steps, table, upsert)
  }
  return refuseRace(table.name, targets)
}

/** Returns what an update sets: its value, or a stand-in for that of the row to insert. */
function takenValue({ value }: Node): unknown {
  const node = value as Node
  return node.kind === 'ValueNode' ? node.value : isExcluded(node) ? '' : null
}

function isExcluded(node: Node): boolean {
  return qualifierOf(node) === 'excluded'
}

/**
 * Returns what is set, with `excluded.…` replaced by the value of the row to insert, which the update does not see.
 *
 * @throws InvalidInputError if that is an encrypted value for an unencrypted column, or a value that only the insert
 * would make
 */
function ofRow(
  { column, value }: Node,
  { table, given, takesDefault }: { table: SealedTable; given: Given; takesDefault: boolean },
): Node {
  const node = value as Node
  if (!isExcluded(node)) return node
  const [to, from = ''] = [nameOf(column as Node), columnName(node)]
  if (table.isSealed(from) && !table.isSealed(to)) refuseExpression(table.name, from)
  const computed = given.computed.get(from)
  if (computed) return computed
  if (given.values[from] !== undefined || table.columns.includes(from)) {
    return ValueNode.create(given.values[from] ?? null) as unknown as Node
  }
  if (takesDefault && to === from) return DefaultInsertValueNode.create() as unknown as Node
  const call = `excluded.${from} in an upsert whose row must be read before, of a row without ${from},`
  return refuseCall(call, 'Give its value in the row, or leave the column out of what the upsert sets.')
}

function absent({ bind }: SealedTable): Row {
  return Object.fromEntries(bind.map((column) => [column, undefined]))
}

export function sum(results: readonly Result[]): Result {
  const add = (name: 'numAffectedRows' | 'numChangedRows') => {
    if (results.length > 0 && results.every((one) => one[name] === undefined)) return {}
    return { [name]: results.reduce((all, one) => all + (one[name] ?? 0n), 0n) }
  }
  const changed = results.some(({ numChangedRows }) => numChangedRows !== undefined) ? add('numChangedRows') : {}
  return { rows: results.flatMap(({ rows }) => rows), ...add('numAffectedRows'), ...changed }
}
