// An adapter for an ORM of three kinds of queries. It shows that the public interface suffices: it imports nothing else of ours.
import {
  type AnyModel,
  createSealedTable,
  findTableInStatement,
  type Row,
  readConflict,
  refuseCall,
  refuseOperator,
  refuseOrder,
  rememberCaller,
  runFor,
  type SealedTable,
} from '@eaas/sdk/adapter'

/** All conditions of a query must hold. */
export interface Condition {
  column: string
  operator: '=' | 'in' | '>'
  value: unknown
}

export interface Upsert {
  row: Row
  /** The columns by which the row may be there already. */
  target: readonly string[]
  /** The columns that such a row takes from the new one. */
  set: readonly string[]
}

/** The ORM. */
export interface Store {
  insert(table: string, rows: readonly Row[]): Promise<void>
  upsert(table: string, upsert: Upsert): Promise<void>
  update(table: string, changes: Row, where: readonly Condition[]): Promise<void>
  select(table: string, columns: readonly string[], where: readonly Condition[], orderBy?: string): Promise<Row[]>
  query(sql: string): Promise<Row[]>
}

/** Returns the store, which encrypts what it writes and decrypts what it reads. @throws InvalidInputError for what is not a model */
export function encrypted(store: Store, models: Readonly<Record<string, AnyModel>>): Store {
  const tables = new Map(Object.entries(models).map(([name, model]) => [name, createSealedTable(model)]))
  return atCaller({
    async insert(name, rows) {
      const table = tables.get(name)
      await store.insert(name, table ? await table.sealRows(rows) : rows)
    },
    async upsert(name, upsert) {
      const table = tables.get(name)
      if (!table) return store.upsert(name, upsert)
      const { row, target, set } = upsert
      const taken = set.filter((column) => table.isSealed(column))
      const added = readConflict(table, target, [row]).excluded(taken)
      const [sealed = {}] = await table.sealRows([row])
      return store.upsert(name, { target, row: sealed, set: [...new Set([...set, ...added])] })
    },
    async update(name, changes, where) {
      const table = tables.get(name)
      if (!table) return store.update(name, changes, where)
      const equal = where.filter(({ operator }) => operator === '=')
      const known = Object.fromEntries(equal.map(({ column, value }) => [column, value]))
      return store.update(name, await table.sealChanges(changes, known), await rewrite(table, where))
    },
    async select(name, columns, where, orderBy) {
      const table = tables.get(name)
      if (!table) return store.select(name, columns, where, orderBy)
      table.assertReadable(columns)
      if (orderBy !== undefined && table.isSealed(orderBy)) refuseOrder(table.name, orderBy)
      return table.openRows(await store.select(name, columns, await rewrite(table, where), orderBy))
    },
    async query(sql) {
      const sealed = [...tables].map(([name, table]) => [name, (column: string) => table.isSealed(column)] as const)
      const named = findTableInStatement(sql, sealed)
      return named === undefined ? store.query(sql) : refuseCall(`SQL that names ${named}`, 'Use the other functions.')
    },
  })
}

/** Puts the index in place of each encrypted column. */
async function rewrite(table: SealedTable, where: readonly Condition[]): Promise<Condition[]> {
  const all = where.map(async (condition): Promise<Condition> => {
    const { column, operator, value } = condition
    if (!table.isSealed(column)) return condition
    if (operator === '>') return refuseOperator(table.name, column, operator)
    const found = await table.findEqual(column, operator, operator === 'in' ? (value as unknown[]) : [value])
    return { column: found.column, operator, value: operator === 'in' ? found.values : found.values[0] }
  })
  return Promise.all(all)
}

/** Gives errors the stack of who called the store. */
function atCaller(store: Store): Store {
  const traced = Object.entries(store).map(([name, run]) => [
    name,
    (...args: unknown[]) => runFor(rememberCaller(), () => (run as (...given: unknown[]) => Promise<unknown>)(...args)),
  ])
  return Object.fromEntries(traced) as Store
}
