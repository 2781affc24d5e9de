/**
 * Updates and upserts whose statement does not determine the rows that its values are bound to. One transaction finds
 * the rows, locks them where the database can, and changes each with values sealed to it.
 */
import {
  assertFoundAgain,
  changeFound,
  type Row,
  refuseCall,
  refuseExpression,
  type SealedTable,
  tellsRow,
  upsertEach,
} from '@eaas/sdk/adapter'
import {
  AliasNode,
  DefaultInsertValueNode,
  IdentifierNode,
  OnConflictNode,
  OrderByItemNode,
  OrderByNode,
  SelectionNode,
  SelectModifierNode,
  TableNode,
  ValuesNode,
} from 'kysely'
import {
  allOf,
  columnName,
  columnNode,
  equal,
  inParentheses,
  type Node,
  qualifierOf,
  rawNode,
  selectionNode,
  selectNode,
  tableNames,
  unaliased,
  valueNode,
  whereNode,
} from './nodes.js'
import { isOneRow, pinnedBy } from './one-row.js'
import { commonName } from './relations.js'
import { findTable, type Models } from './scope.js'
import { boundToMany, type Given, nameOf, readRow, readUpdates } from './writes.js'

export interface Steps {
  /** How the database locks the rows that a select finds; undefined where it cannot, or need not. */
  lock: 'for update' | 'updlock' | undefined
  /** Whether one statement may change many rows, each to its own values. */
  takesMany: boolean
  takesDefault: boolean
  /** Runs a statement through the adapter. `rows` are those that it changes: one, or many where `takesMany`. */
  run(statement: Node, rows?: readonly Row[]): Promise<Result>
}

export type Result = { rows: Row[]; numAffectedRows?: bigint | undefined; numChangedRows?: bigint | undefined }

type Change = (steps: Steps) => Promise<Result>

/** The parts of an update that determine its rows. The select of these rows has them too. */
const FINDING = ['with', 'joins', 'where', 'orderBy', 'limit', 'top']
const OF_UPDATE = [...FINDING, 'kind', 'table', 'from', 'updates', 'returning']
const OF_INSERT = ['with', 'kind', 'into', 'columns', 'values', 'onConflict', 'returning']

/** Plans the change of the rows that a statement finds; undefined if it names its row itself. @throws InvalidInputError */
export function planFound(models: Models, statement: Node): Change | undefined {
  const change = statement.kind === 'UpdateQueryNode' ? planUpdate(models, statement) : planUpsert(models, statement)
  if (change) assertSteps(statement)
  return change
}

function assertSteps(statement: Node): void {
  const parts = statement.kind === 'UpdateQueryNode' ? OF_UPDATE : OF_INSERT
  const other = Object.keys(statement).find((part) => statement[part] !== undefined && !parts.includes(part))
  if (other !== undefined) refuseCall(`${other} of ${OF_FOUND}`, 'Read the ids first, and update each row by its own.')
  if (commonTables(statement).some((one) => (one.expression as Node).kind !== 'SelectQueryNode'))
    refuseCall(`another write, or SQL as text, in \`with\` of ${OF_FOUND}`, 'Run it by itself.')
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
    // The update would change the table, but our select would read the common table expression.
    refuseCall(`a common table expression of the name of the table in ${OF_FOUND}`, 'Give it another name.')
  }
  return async (steps) => {
    const { rows: found } = await steps.run(selectOf(steps, table, statement))
    const { limit: _, orderBy: __, top: ___, ...others } = statement
    const results = await changeFound(table, isOnly ? found : distinctRows(table, found), {
      takesMany: steps.takesMany && isOnly,
      countOf,
      change(some) {
        const own = some[1] ? boundToMany(table, names.alias) : boundTo(table, names.alias, some[0] as Row)
        const where = isOnly ? whereNode(own) : whereBoth(own, statement.where as Node | undefined)
        return steps.run({ ...others, where } as Node, some)
      },
    })
    return sum(results)
  }
}

/** Removes the repetitions of a join: an update changes each row once. */
function distinctRows({ bind }: SealedTable, rows: readonly Row[]): Row[] {
  const keyOf = (row: Row) => JSON.stringify(bind.map((column) => String(row[column])))
  return [...new Map(rows.map((row) => [keyOf(row), row])).values()]
}

const countOf = ({ numAffectedRows, rows }: Result) => numAffectedRows ?? rows.length

/** Selects and locks the rows that an update finds, with the update's own condition. */
function selectOf({ lock }: Steps, table: SealedTable, update: Node): Node {
  const own = update.table as Node
  const froms = ((update.from as Node | undefined)?.froms ?? []) as readonly Node[]
  const alias = tableNames(own)?.alias ?? ''
  const select = selectFrom([own, ...froms], table, alias, lock)
  const found: Node = { ...select, ...Object.fromEntries(FINDING.map((part) => [part, update[part]])) }
  // A fixed order, so that of two such writes one waits for the other.
  const order = table.bind.map((column) => OrderByItemNode.create(columnNode(column, alias)))
  return order.length === 0 || found.orderBy ? found : { ...found, orderBy: OrderByNode.create(order) }
}

/** Selects the columns that values are bound to, or all columns if others may determine the key of a row. */
function selectFrom([own, ...others]: readonly Node[], table: SealedTable, alias: string, lock: Steps['lock']): Node {
  assertFoundAgain(table)
  const selections = table.keyByRow
    ? [SelectionNode.createSelectAllFromTable(TableNode.create(alias)) as object as Node]
    : table.bind.map((column) => selectionNode(columnNode(column, alias)))
  const first = lock === 'updlock' ? withHint(own as Node, alias) : (own as Node)
  const select = selectNode([first, ...others], selections)
  const forUpdate = SelectModifierNode.create('ForUpdate', others.length > 0 ? [TableNode.create(alias)] : undefined)
  return lock === 'for update' ? { ...select, endModifiers: [forUpdate] } : select
}

/** SQL Server locks rows by a hint after the table's alias. */
function withHint(table: Node, alias: string): Node {
  const hinted = { ...rawNode(['', ' with (updlock)'], [IdentifierNode.create(alias) as object as Node]), name: alias }
  return AliasNode.create(unaliased(table), hinted) as object as Node
}

function boundTo({ bind }: SealedTable, alias: string, row: Row): Node {
  return equal(bind.map((column) => [columnNode(column, alias), valueNode(row[column])]))
}

function whereBoth(own: Node, where: Node | undefined): Node {
  return whereNode(where ? allOf([own, inParentheses(where.where as Node)]) : own)
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
    if (table.needsRow(sealed, {}))
      refuseCall('an upsert by a constraint, an expression or a partial index', "Name its columns: oc.column('…').")
    return undefined
  }
  const columns = ((statement.columns as readonly Node[]) ?? []).map(nameOf)
  return async (steps) => {
    const upserts = (values.values as readonly Node[]).map(async (row) => {
      const given = readRow(columns, row)
      return { row, given, target: await table.findTarget(given.values, targets) }
    })
    const into = statement.into as Node
    const { with: common, returning } = statement
    const results = await upsertEach(table, await Promise.all(upserts), {
      targets,
      countOf,
      async find({ target }) {
        const pairs = Object.entries(target).map(([column, value]) => [columnNode(column), valueNode(value)] as const)
        const select = selectFrom([into], table, names.alias, steps.lock)
        return (await steps.run({ ...select, where: whereNode(equal(pairs)) })).rows[0]
      },
      change({ given }, found) {
        const { takesDefault } = steps
        const set = updates.map((one) => ({ ...one, value: ofRow(one, { table, given, takesDefault }) }))
        const where = whereBoth(boundTo(table, names.alias, found), conflict.updateWhere as Node | undefined)
        const update = { kind: 'UpdateQueryNode', table: into, updates: set, where, returning, with: common }
        return steps.run(update as unknown as Node, [found])
      },
      async insert({ row, target }) {
        const taken = Object.keys(target).map((column) => columnNode(column))
        const onConflict = { ...OnConflictNode.create(), columns: taken, doNothing: true }
        const insert = { ...statement, values: ValuesNode.create([row as never]), onConflict }
        const result = await steps.run(insert as unknown as Node)
        return result.rows.length > 0 || (result.numAffectedRows ?? 0n) > 0n ? result : undefined
      },
    })
    return sum(results)
  }
}

/** Returns what an update sets: its value, or a stand-in for that of the row to insert. */
function takenValue({ value }: Node): unknown {
  const node = value as Node
  return node.kind === 'ValueNode' ? node.value : isExcluded(node) ? '' : null
}

function isExcluded(node: Node): boolean {
  return qualifierOf(node) === 'excluded'
}

/** Replaces `excluded.…` by the inserted row's value: the update, a statement of its own, does not see `excluded`. */
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
  if (given.values[from] !== undefined || table.columns.includes(from)) return valueNode(given.values[from] ?? null)
  if (takesDefault && to === from) return DefaultInsertValueNode.create() as object as Node
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
