/**
 * `@eaas/drizzle`: a Drizzle database that encrypts what it stores and decrypts what it reads, by the models
 * of its tables.
 */

import { InvalidInputError } from '@eaas/sdk'
import type { AnyModel } from '@eaas/sdk/adapter'
import type { Table } from 'drizzle-orm'
import type { ModelsOf, Pair } from './column-faults.js'
import { wrapDatabase } from './database.js'
import { knowTables } from './tables.js'

export type { AnyModel } from '@eaas/sdk/adapter'
export type { ModelsOf, Pair } from './column-faults.js'
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

/**
 * Returns the database with the same types: it encrypts the fields of these tables' models when rows are written,
 * decrypts them when rows are read, and searches by their indexes. The columns of a table have the names that the
 * model gives its fields, its indexes and the columns of `bind`. Transactions are included, except those of a driver
 * that runs each query at once, such as `better-sqlite3`.
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
  if (!Array.isArray(given) || !given.every(Array.isArray)) {
    throw new InvalidInputError(
      'encrypted() takes a list of tables, each with its model',
      'Write encrypted(db, [[users, userModel]]).',
    )
  }
  return wrapDatabase(knowTables(database, tables as unknown as readonly (readonly [Table, AnyModel])[]), database)
}
