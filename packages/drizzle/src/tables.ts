/** The tables with encrypted fields. Each is found from any of its columns, including those of an alias or a subquery. */
import { InvalidInputError } from '@eaas/sdk'
import {
  createIdMaker,
  createSealedTable,
  type IdMaker,
  quoteName,
  type Row,
  refuseUnbindable,
  type SealedTable,
  type StoredColumn,
} from '@eaas/sdk/adapter'
import { Column, entityKind, getTableColumns, getTableName, is, type SQL, type Table } from 'drizzle-orm'
import { HASH_CHARACTERS } from './columns.js'

const ORIGINAL_NAME = Symbol.for('drizzle:OriginalName')
const SCHEMA = Symbol.for('drizzle:Schema')

export interface KnownTable {
  table: Table
  sealed: SealedTable
  columns: Readonly<Record<string, Column>>
  /** The name that a column has in rows. */
  keyOf(column: Column): string
  /** The name of a column in the database, which `casing` of Drizzle may have made. */
  nameIn(key: string): string
}

export interface KnownTables {
  find(table: unknown): KnownTable | undefined
  /** Finds the table of a column, if its values are sealed. */
  findSealed(column: Column): KnownTable | undefined
  /** Their names in the database, and which of their columns, in lower case, are sealed. */
  names: readonly (readonly [table: string, isSealed: (column: string) => boolean])[]
  ids: IdMaker
}

/** Finds each model's table and checks that they fit. @throws InvalidInputError when a table lacks a column of its model */
export function knowTables(database: object, pairs: readonly (readonly [Table, object])[]): KnownTables {
  const { casing } = (database as { dialect?: { casing?: Casing } }).dialect ?? {}
  const known = new Map(pairs.map(([table, model]) => [nameOf(table), knowTable(table, model, casing)]))
  const find = (table: unknown) => known.get(nameOf(table as Table))
  return {
    find,
    ids: createIdMaker(),
    findSealed(column) {
      const found = find(column.table)
      return found?.sealed.isSealed(found.keyOf(column)) ? found : undefined
    },
    names: [...known.values()].map(({ table, sealed, columns, nameIn }) => {
      const names = Object.entries(columns).filter(([key]) => sealed.isSealed(key))
      const lower = new Set(names.flatMap(([key, { name }]) => [name.toLowerCase(), nameIn(key).toLowerCase()]))
      return [getTableName(table), (column: string) => lower.has(column)] as const
    }),
  }
}

interface Casing {
  getColumnCasing(column: Column): string
}

function knowTable(table: Table, model: object, casing: Casing | undefined): KnownTable {
  const sealed = createSealedTable(model)
  const columns = getTableColumns(table) as Record<string, Column>
  const lacking = sealed.columns.find((column) => !Object.hasOwn(columns, column))
  if (lacking !== undefined)
    throw new InvalidInputError(
      `the table of ${sealed.name} has no column ${JSON.stringify(lacking)}`,
      'Name fields, indexes and `bind` of the model as the keys of the Drizzle table.',
    )
  for (const key of sealed.bind) assertBindable(sealed.name, key, columns[key])
  for (const one of sealed.stored) {
    assertHolds(sealed.name, one, columns[one.column])
    assertNotFilled(sealed.name, one.column, columns[one.column])
  }
  const keys = new Map(Object.entries(columns).map(([key, { name }]) => [name, key]))
  return {
    table,
    sealed,
    columns,
    keyOf: (column) => keys.get(column.name) ?? '',
    nameIn(key) {
      const column = columns[key]
      return column ? (casing?.getColumnCasing(column) ?? column.name) : key
    },
  }
}

/** @throws InvalidInputError if a row may lack the value, or the database generates it only during the insert */
function assertBindable(model: string, key: string, column: Column | undefined): void {
  if (column && !column.notNull && !column.hasDefault) {
    const why = 'it may be null, so that an insert without it compiles'
    refuseUnbindable(model, key, why, 'Declare it with notNull() or primaryKey().')
  }
  if (!(column as { autoIncrement?: boolean } | undefined)?.autoIncrement) return
  const why = 'the database makes it, and cannot be asked for it before the insert'
  const hint = 'Let the application make it, by $defaultFn(() => crypto.randomUUID()), or use `bind: false`.'
  refuseUnbindable(model, key, why, hint)
}

/** A sealed value is longer than any text of this many characters. */
const SHORT = 255

/** For each kind of stored value: the types of Drizzle that hold it, and what to use. */
const HOLDS: Readonly<Record<StoredColumn['holds'], readonly [types: readonly string[], hint: string]>> = {
  json: [['json'], "Use a column of JSON, such as jsonb, or give the model format: 'text'."],
  text: [['string', 'json'], 'Use text, or longtext of MySQL.'],
  index: [['string'], 'Use text, or varchar(64).'],
  parts: [['array'], 'Use text().array().'],
}

function assertHolds(model: string, { column: key, holds }: StoredColumn, column: Column | undefined): void {
  if (!column || column.dataType === 'custom') return
  const [, length] = /^(?:var)?char(?:acter)?(?: varying)?\((\d+)\)/.exec(column.getSQLType().toLowerCase()) ?? []
  const isShort = length !== undefined && Number(length) < (holds === 'index' ? HASH_CHARACTERS : SHORT + 1)
  const [types, hint] = HOLDS[holds]
  if (!isShort && types.includes(column.dataType)) return
  throw new InvalidInputError(
    `the column ${JSON.stringify(key)} of the table of ${model} is of the type ${column.getSQLType()}, which does not hold what is stored in it`,
    hint,
  )
}

/** @throws InvalidInputError if the database would fill the column with plaintext in a row that leaves it out */
function assertNotFilled(model: string, key: string, column: Column | undefined): void {
  const isFilled = (column?.default ?? column?.generated) !== undefined
  if (!isFilled) return
  throw new InvalidInputError(
    `the table of ${model} has a column ${JSON.stringify(key)} that the database fills`,
    'Take its default away, or let the application make the value, by $defaultFn, so that it is encrypted.',
  )
}

export function sqlName(table: Table): string {
  return quoteName(getTableName(table), (table as unknown as Record<symbol, string | undefined>)[SCHEMA])
}

/** Names a table with its schema: one name for all aliases and, on SQLite, for every case. */
export function nameOf(table: Table): string {
  const of = table as unknown as Record<symbol, string | undefined>
  const name = JSON.stringify([of[SCHEMA] ?? null, of[ORIGINAL_NAME] ?? null])
  return (table?.constructor as { [entityKind]?: string } | undefined)?.[entityKind] === 'SQLiteTable'
    ? name.toLowerCase()
    : name
}

/** Refuses to write through another definition of the table, whose columns are named otherwise. @throws InvalidInputError */
export function assertSameColumns({ sealed, columns }: KnownTable, table: Table): void {
  const given = getTableColumns(table) as Record<string, Column>
  const isSame = (key: string) => given[key]?.name === columns[key]?.name
  const other = [...sealed.columns, ...Object.keys(given)].find((key) => !isSame(key))
  if (other === undefined) return
  throw new InvalidInputError(
    `the table of ${sealed.name} is defined a second time, with another column ${JSON.stringify(other)}`,
    'Write to it by the definition that was passed to `encrypted`.',
  )
}

export function isColumn(value: unknown): value is Column {
  return is(value, Column)
}

export type Call = [name: string, args: unknown[]]

export type Builder = { [name: string]: (...args: unknown[]) => Builder & PromiseLike<unknown> }

/** A write of a table with a model, as Drizzle runs it. */
export interface Written {
  tables: KnownTables
  known: KnownTable
  /** As the write names it, possibly an alias. */
  table: Table
  on: Database
  method: WriteMethod
  /** Whether it is a step of a write that is undone if it fails. */
  isStep?: boolean
}

export type WriteMethod = 'insert' | 'update' | 'delete'

/** A database of Drizzle, or a transaction, without encryption. */
export interface Database extends Record<WriteMethod, (table: Table) => Builder> {
  select(columns: Row): { from(table: Table): { where(condition: unknown): Found } }
  execute(statement: SQL): Promise<unknown>
  transaction<T>(run: (inner: Database) => T): T
}

/** Whether a driver runs queries synchronously, as `better-sqlite3` does: a transaction ends when its function returns. */
export function isSync(database: object): boolean {
  return (database as { resultKind?: unknown }).resultKind === 'sync'
}

/** The rows of a select, which can be sorted and, where the database can, locked. */
type Found = Promise<Row[]> & { orderBy(...columns: Column[]): Found; for?: (strength: 'update') => Promise<Row[]> }

export function isExpression(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'getSQL' in value
}
