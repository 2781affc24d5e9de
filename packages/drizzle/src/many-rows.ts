/** Writes of many rows: one PostgreSQL update of rows that were read, an insert in parts, and their results. */
import {
  divideRows,
  MANY_ROWS,
  MOST_PARAMETERS,
  manyRowsColumn,
  manyRowsSql,
  quoteName,
  type Row,
  refuseCall,
  refuseParameters,
  sealMany,
} from '@eaas/sdk/adapter'
import { and, type Column, entityKind, eq, type SQL, sql } from 'drizzle-orm'
import {
  type Builder,
  type Call,
  type Database,
  isExpression,
  isSync,
  type KnownTable,
  sqlName,
  type Written,
} from './tables.js'

/** Tells whether one update can take its values from JSON: PostgreSQL may not read a custom type from it. */
export function takesMany({ sealed, columns }: KnownTable): boolean {
  return sealed.columns.every((key) => {
    const { columnType = '', dataType } = columns[key] ?? {}
    return columnType.startsWith('Pg') && dataType !== 'custom'
  })
}

/** Seals the changes of rows. Returns what `set` gets, and the source of the values. */
export async function setMany(known: KnownTable, changes: Row, rows: readonly Row[]): Promise<{ set: Row; from: SQL }> {
  const { same, own, json } = await sealMany(known.sealed, changes, rows, known.nameIn)
  const quote = (key: string) => quoteName(known.nameIn(key))
  const [before, after] = manyRowsSql(known.sealed, { own, name: sqlName(known.table), quote })
  return {
    set: { ...same, ...Object.fromEntries(own.map((key) => [key, manyValue(known, key)])) },
    from: sql`${sql.raw(before)}${json}${sql.raw(after)}`,
  }
}

export function boundToMany(known: KnownTable): SQL | undefined {
  return and(...known.sealed.bind.map((key) => eq(known.columns[key] as Column, manyValue(known, key))))
}

function manyValue({ sealed }: KnownTable, key: string): SQL {
  return sql.raw(`${MANY_ROWS}.${manyRowsColumn(sealed, key)}`)
}

const COUNTS = ['count', 'rowCount', 'affectedRows', 'rowsAffected', 'changes'] as const

/** Returns how many rows a write changed. @throws InvalidInputError if the driver reports no count */
export function changedRows(result: unknown): number {
  return findCount(result) ?? refuseCall('an upsert by a driver that counts no rows', 'Add `returning`.')
}

/** The same; undefined if the driver reports none. */
export function findCount(result: unknown): number | undefined {
  const own = headerOf(result) ?? result
  const count = countsIn(own)[0]?.[1]
  if (count !== undefined) return count
  return Array.isArray(own) ? own.length : undefined
}

/** Merges results into one: their rows, or how many rows they changed together. */
export function mergeResults(results: readonly unknown[]): unknown {
  const [first] = results
  if (results.length < 2) return first
  if (headerOf(first)) return [mergeResults(results.map(headerOf)), ...(first as unknown[]).slice(1)]
  const rows = results.every(Array.isArray) ? (results.flat() as unknown[]) : lastOf(results)
  for (const [name] of countsIn(first)) {
    const value = results.reduce<number>((sum, one) => sum + Number((one as Row)[name]), 0)
    Object.defineProperty(rows, name, { value, configurable: true, enumerable: !Array.isArray(rows), writable: true })
  }
  return rows
}

function headerOf(result: unknown): Row | undefined {
  const [header] = Array.isArray(result) ? (result as unknown[]) : []
  return typeof header === 'object' && header !== null && 'affectedRows' in header ? (header as Row) : undefined
}

/** SQLite reports the id of the last row, MySQL that of the first one. */
function lastOf(results: readonly unknown[]): unknown {
  const last = results.at(-1)
  return typeof last === 'object' && last !== null && 'lastInsertRowid' in last ? last : results[0]
}

function countsIn(result: unknown): [name: string, count: number][] {
  return COUNTS.flatMap((name) => {
    const count = (result as Row | undefined)?.[name]
    return typeof count === 'number' || typeof count === 'bigint' ? [[name, Number(count)]] : []
  })
}

/** A builder of an insert. SQLite's also has a method that runs it at once. */
interface Insert {
  session: object
  toSQL(): { params: readonly unknown[] }
}

/** Runs a write. An insert of more rows than one statement takes becomes several, in order, in one transaction. */
export async function runCalls({ on, method, table, known }: Written, calls: readonly Call[]): Promise<unknown> {
  const rows = (calls.find(([name]) => name === 'values')?.[1][0] ?? []) as readonly Row[]
  const build = (some: readonly Row[], inner = on) => {
    return calls.reduce<Builder>((builder, [name, args]) => {
      return builder[name]?.(...(name === 'values' ? [some] : args)) as Builder
    }, inner[method](table))
  }
  const insert = build(rows)
  if (rows.length < 2) return insert
  const most = mostOf(insert)
  const alone = (row: Row) => countIn(build([row]))
  const width = Object.keys(known.columns).length
  const costOf = (row: Row) => (Object.values(row).some(isExpression) ? alone(row) : width)
  const parts = divideRows(rows, costOf, most - alone(rows[0] as Row)) // also counts parameters that belong to no row
  // The count may be too high: on PostgreSQL, a value left out becomes `default`, without a parameter.
  if (parts.length === 1 || countIn(insert) <= most) return insert
  const refuse = () => refuseParameters(known.sealed.name, { rows: rows.length, count: countIn(insert), most })
  if (!on.transaction) return refuse()
  if (isSync(on)) {
    const run = calls.some(([name]) => name === 'returning') ? 'all' : 'run'
    return on.transaction((inner) => mergeResults(parts.map((part) => build(part, inner)[run]?.() as unknown)))
  }
  let isBegun = false
  const insertAll = async (inner: Database) => {
    isBegun = true
    const results: unknown[] = []
    for (const part of parts) results.push(await build(part, inner))
    return mergeResults(results)
  }
  return on.transaction(insertAll).catch((error: unknown) => {
    throw !isBegun && hasNoTransactions(error) ? refuse() : error
  })
}

function countIn(insert: Builder): number {
  return (insert as unknown as Insert).toSQL().params.length
}

/** The most parameters of a statement in Cloudflare's databases: D1 and those of durable objects. */
const MOST_OF_CLOUDFLARE = 100

function mostOf(insert: Builder): number {
  const { session } = insert as unknown as Insert
  const kind = String((session.constructor as { [entityKind]?: string })[entityKind])
  if (/^SQLite(D1|DO)Session/.test(kind)) return MOST_OF_CLOUDFLARE
  const isSqlite = 'run' in insert
  return isSqlite ? MOST_PARAMETERS.sqlite : MOST_PARAMETERS.postgres
}

/** Tells whether a driver refused to begin a transaction, as those do that send each query by HTTP. */
function hasNoTransactions(error: unknown): boolean {
  const { message, cause } = error as Error
  const text = `${message} ${(cause as Error | undefined)?.message}`
  return /no transactions|transactions are not supported|storage\.transaction/i.test(text)
}
