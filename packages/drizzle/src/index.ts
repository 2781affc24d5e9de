/** `@eaas/drizzle`: a Drizzle database that encrypts and decrypts rows by the models of its tables. */
import { InvalidInputError } from '@eaas/sdk'
import type { AnyModel, Declared } from '@eaas/sdk/adapter'
import type { Table } from 'drizzle-orm'
import { wrapDatabase } from './database.js'
import { knowTables } from './tables.js'

export type { AnyModel } from '@eaas/sdk/adapter'
export {
  type Dialect,
  type EncryptedColumns,
  encryptedColumns,
  type MySqlBuilders,
  type MySqlDialect,
  type PgBuilders,
  type PgDialect,
  type SQLiteBuilders,
  type SQLiteDialect,
} from './columns.js'

export type Pair = readonly [table: Table, model: AnyModel]

/** The same tables, each with its model, or with a sentence about why its model does not fit. */
export type ModelsOf<Pairs extends readonly Pair[]> = {
  readonly [At in keyof Pairs]: Pairs[At] extends readonly [infer T extends Table, infer M]
    ? [FaultOf<T, M>] extends [never]
      ? Pairs[At]
      : readonly [table: T, model: FaultOf<T, M>]
    : never
}

/**
 * Returns the database with the same types: it encrypts the fields of these tables' models when rows are written,
 * decrypts them when rows are read, and searches by their indexes. The columns of a table have the names that the model
 * gives its fields, its indexes and the columns of `bind`. Transactions are included, except those of a driver that
 * runs each query at once, such as `better-sqlite3`.
 *
 * Its queries throw the errors of a model, and `InvalidInputError` for what the database cannot do with encrypted
 * values: sort by them, compare them in a way that no index answers, or compute with them.
 *
 * @param tables each table with its model
 * @throws InvalidInputError when a table lacks a column of its model, or has one that cannot hold what is stored
 */
export function encrypted<D extends object, const Pairs extends readonly Pair[]>(
  database: D,
  tables: Pairs & ModelsOf<Pairs>,
): D {
  const given: unknown = tables
  if (!Array.isArray(given) || !given.every(Array.isArray))
    throw new InvalidInputError(
      'encrypted() takes a list of tables, each with its model',
      'Write encrypted(db, [[users, userModel]]).',
    )
  return wrapDatabase(knowTables(database, tables as unknown as readonly (readonly [Table, AnyModel])[]), database)
}

/** What is wrong with a table's columns for a model; `never` if nothing is. */
type FaultOf<T extends Table, M> = M extends { readonly '~types'?: { plain: infer Plain; stored: infer Stored } }
  ? { [Name in keyof Stored & string]-?: ColumnFault<T, Name, Plain, Stored[Name]> }[keyof Stored & string]
  : never

type ColumnFault<T extends Table, Name extends string, Plain, Stored> = Name extends keyof T['_']['columns']
  ? Name extends keyof Plain
    ? [Plain[Name]] extends [Declared<T['$inferSelect'][Name]> | undefined]
      ? HoldFault<Name, T['_']['columns'][Name]['_']['dataType'], Stored>
      : `the column ${Name} has another type than the field of the model`
    : never
  : `the table has no column ${Name}, which the model fills`

type HoldFault<Name extends string, DataType, Stored> = [Exclude<Stored, null | undefined>] extends [string]
  ? never
  : DataType extends 'string'
    ? `the column ${Name} is text, and the model stores JSON: use a column of JSON, or format 'text'`
    : never
