/** `@eaas/kysely`: a dialect of Kysely that encrypts and decrypts rows by the models of their tables. */
import { InvalidInputError } from '@eaas/sdk'
import { type AnyModel, createSealedTable, type Declared } from '@eaas/sdk/adapter'
import type { Dialect, Selectable } from 'kysely'
import { wrapDialect } from './dialect.js'

export type { AnyModel } from '@eaas/sdk/adapter'

type Columns<Table> = { [Column in keyof Selectable<Table>]?: Declared<Selectable<Table>[Column]> | undefined }

type BareName<Table> = Table extends `${string}.${infer Name}` ? Name : Table

/** The models of tables, by table name without a schema. Fields have the types of the columns. */
export type ModelsOf<Database> = {
  readonly [Table in keyof Database as BareName<Table>]?: AnyModel & {
    readonly '~types'?: { plain: Columns<Database[Table]> }
  }
}

/**
 * Returns a dialect whose queries encrypt the fields of these tables' models when rows are written, decrypt them when
 * rows are read, and search by their indexes. Models name their fields, indexes and the columns of `bind` as the
 * database does. Transactions and streams are included.
 *
 * Queries throw the errors of a model, and `InvalidInputError` for what the database cannot do with encrypted values:
 * sort by them, compare them in a way that no index answers, or compute with them. SQL as text that names something
 * encrypted is refused too.
 *
 * @param models the model of each table, by the table's name in the database without its schema: it applies in every
 * schema. With the interface of the database as the type parameter, the compiler refuses a missing table, and a field
 * of another type than its column
 * @throws InvalidInputError when one is not a model, when a table's name has a schema, or when a model would store JSON
 * in SQLite
 */
export function encrypted<Database = Record<string, unknown>>(
  dialect: Dialect,
  models: NoInfer<ModelsOf<Database>>,
): Dialect {
  const pairs = Object.entries(models as Record<string, AnyModel>)
  const qualified = pairs.find(([table]) => /[."]/.test(table))?.[0]
  if (qualified !== undefined) {
    const hint = 'Give its name alone, without quotes: its model applies in every schema.'
    throw new InvalidInputError(`the table ${JSON.stringify(qualified)} is named with its schema`, hint)
  }
  return wrapDialect(dialect, new Map(pairs.map(([table, model]) => [table, createSealedTable(model)])))
}
