/** A write of a table with a model, as Drizzle runs it. */
import type { Row } from '@eaas/sdk/adapter'
import type { Column, SQL, Table } from 'drizzle-orm'
import type { KnownTable, KnownTables } from './tables.js'

export type Call = [name: string, args: unknown[]]

export type Builder = { [name: string]: (...args: unknown[]) => Builder & PromiseLike<unknown> }

export interface Written {
  tables: KnownTables
  known: KnownTable
  /** The table as the write names it. */
  table: Table
  /** The database, or the transaction. */
  on: Database
  method: WriteMethod
}

export type WriteMethod = 'insert' | 'update' | 'delete'

/** A database of Drizzle, or a transaction, without encryption. */
export interface Database extends Record<WriteMethod, (table: Table) => Builder> {
  select(columns: Row): { from(table: Table): { where(condition: unknown): Found } }
  execute(statement: SQL): Promise<unknown>
  transaction<T>(run: (inner: Database) => T): T
}

/** Whether a driver runs queries at once, like `better-sqlite3`: its transactions end when their function returns. */
export function isSync(database: object): boolean {
  return (database as { resultKind?: unknown }).resultKind === 'sync'
}

/** The rows that a select finds, in an order, and locked where the database can. */
type Found = Promise<Row[]> & { orderBy(...columns: Column[]): Found; for?: (strength: 'update') => Promise<Row[]> }

export function isExpression(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'getSQL' in value
}
