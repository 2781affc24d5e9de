/** The columns of a table that hold what a model stores, made from the model. */
import { InvalidInputError } from '@eaas/sdk'
import {
  type AnyModel,
  type ColumnsOf,
  createSealedTable,
  looksSealed,
  type Read,
  type StoredColumn,
} from '@eaas/sdk/adapter'
import type { $Type, Column, ColumnBuilderBase, NotNull } from 'drizzle-orm'
import type * as mysql from 'drizzle-orm/mysql-core'
import type * as pg from 'drizzle-orm/pg-core'
import type * as sqlite from 'drizzle-orm/sqlite-core'

/** The builders of PostgreSQL's columns: what `pgTable` passes to a function, or `drizzle-orm/pg-core`. */
export type PgBuilders = Pick<typeof pg, 'jsonb' | 'text'>
/** The builders of MySQL's columns: what `mysqlTable` passes to a function, or `drizzle-orm/mysql-core`. */
export type MySqlBuilders = Pick<typeof mysql, 'json' | 'longtext' | 'varchar'>
/** The builders of SQLite's columns: what `sqliteTable` passes to a function, or `drizzle-orm/sqlite-core`. */
export type SQLiteBuilders = Pick<typeof sqlite, 'text' | 'blob'>

type Text = [string, ...string[]]
type PgText = pg.PgTextBuilderInitial<'', Text>

/** The columns of a dialect, by what they hold. */
export interface Dialect extends Record<StoredColumn['holds'], ColumnBuilderBase> {}
export interface PgDialect extends Dialect {
  json: pg.PgJsonbBuilderInitial<''>
  text: PgText
  index: PgText
  parts: ReturnType<PgText['array']>
}
export interface MySqlDialect extends Dialect {
  json: mysql.MySqlJsonBuilderInitial<''>
  text: mysql.MySqlTextBuilderInitial<'', Text>
  index: mysql.MySqlVarCharBuilderInitial<'', Text, typeof HASH_CHARACTERS>
  parts: never
}
export interface SQLiteDialect extends Dialect {
  json: sqlite.SQLiteTextJsonBuilderInitial<''>
  text: sqlite.SQLiteTextBuilderInitial<'', Text, undefined>
  index: sqlite.SQLiteTextBuilderInitial<'', Text, undefined>
  parts: never
}

type TypesOf<M> = M extends { readonly '~types'?: infer T } ? NonNullable<T> : never
type Of<M, Which extends string> = TypesOf<M> extends { readonly [W in Which]: infer T } ? T : never
type Present<T> = Exclude<T, null | undefined>

/** A field's column: text if the model stores text, with the type that the application sees. */
type FieldColumn<D extends Dialect, Plain, Stored> = [Plain] extends [Present<Plain>]
  ? NotNull<ValueColumn<D, Plain, Stored>>
  : ValueColumn<D, Plain, Stored>
type ValueColumn<D extends Dialect, Plain, Stored> = $Type<
  [Present<Stored>] extends [string] ? D['text'] : D['json'],
  Read<Present<Plain>>
>
type AddedColumn<D extends Dialect, Name, Stored> =
  Present<Stored> extends readonly string[]
    ? D['parts']
    : Present<Stored> extends `eaas.h${string}` // the header of a compact row
      ? D['text']
      : Present<Stored> extends string
        ? D[Name extends 'row_seal' ? 'text' : 'index']
        : D['json']
/** The columns of a model, by the names of its fields, its indexes and the other columns that it fills. */
export type EncryptedColumns<M, D extends Dialect> = {
  [Name in keyof Of<M, 'stored'>]-?: Name extends keyof ColumnsOf<M>
    ? FieldColumn<D, ColumnsOf<M>[Name], Of<M, 'stored'>[Name]>
    : AddedColumn<D, Name, Of<M, 'stored'>[Name]>
}

/**
 * Makes the columns that hold what a model stores: those of its fields, with the types that the application sees, and
 * those that the adapter fills. You add the ids and the columns that are not encrypted.
 * @param builders what `pgTable`, `mysqlTable` or `sqliteTable` passes to a function
 * @throws InvalidInputError if the database has no column for what the model stores
 * @example
 * ```ts
 * const users = pgTable('users', (t) => ({ id: t.serial().primaryKey(), ...encryptedColumns(t, model) }))
 * ```
 */
export function encryptedColumns<M extends AnyModel>(builders: PgBuilders, model: M): EncryptedColumns<M, PgDialect>
export function encryptedColumns<M extends AnyModel>(
  builders: MySqlBuilders,
  model: M,
): EncryptedColumns<M, MySqlDialect>
export function encryptedColumns<M extends AnyModel>(
  builders: SQLiteBuilders,
  model: M,
): EncryptedColumns<M, SQLiteDialect>
export function encryptedColumns(builders: object, model: AnyModel): unknown {
  const { name, stored } = createSealedTable(model)
  const make = makersOf(builders, name)
  return Object.fromEntries(
    stored.map(({ column, holds, mayMiss }) => {
      const made = make[holds](column)
      if (holds === 'json' || holds === 'text') refusePlaintext(made, `${name}.${column}`)
      return [column, mayMiss ? made : made.notNull()]
    }),
  )
}

export const HASH_CHARACTERS = 64

interface Builder {
  notNull(): unknown
}
type Maker = (column: string) => Builder

const GUARDED = Symbol('@eaas/drizzle: refuses plaintext')

/** Tells whether a column, or an alias of it, refuses plaintext: it maps no value to SQL. */
export const isGuarded = (column: object): boolean => GUARDED in column

/** Makes the column refuse what the adapter did not seal, since its table may be missing among those of `encrypted()`. */
function refusePlaintext(builder: Builder, name: string): void {
  const { build } = builder as unknown as { build(table: unknown): Column }
  const buildGuarded = (table: unknown): Column => {
    const column = build.call(builder, table)
    const map = column.mapToDriverValue.bind(column)
    column.mapToDriverValue = (value) => {
      if (value === null || value === undefined || looksSealed(value)) return map(value)
      const hint = 'Pass the table and its model to encrypted(), and use the database that it returns.'
      throw new InvalidInputError(`${name} must be encrypted, and got plaintext`, hint)
    }
    return Object.assign(column, { [GUARDED]: true })
  }
  Object.assign(builder, { build: buildGuarded })
}

function makersOf(builders: object, model: string): Record<StoredColumn['holds'], Maker> {
  if (isPg(builders)) {
    const text = () => builders.text()
    return { json: () => builders.jsonb(), text, index: text, parts: () => builders.text().array() }
  }
  const parts = (column: string): never => {
    throw new InvalidInputError(
      `${model}.${column}: an index of parts is a list of texts, for which only PostgreSQL has a column`,
      'Leave the index out, or use an index of a prefix.',
    )
  }
  if (isMySql(builders)) {
    const index = () => builders.varchar({ length: HASH_CHARACTERS })
    return { json: () => builders.json(), text: () => builders.longtext(), index, parts }
  }
  if (!isSQLite(builders)) {
    const hint = "Pass what pgTable, mysqlTable or sqliteTable passes to a function: pgTable('users', (t) => …)."
    throw new InvalidInputError('encryptedColumns() takes the builders of columns, and a model', hint)
  }
  const text = () => builders.text()
  return { json: () => builders.text({ mode: 'json' }), text, index: text, parts }
}

const isPg = (builders: object): builders is PgBuilders => 'jsonb' in builders
const isMySql = (builders: object): builders is MySqlBuilders => 'longtext' in builders
const isSQLite = (builders: object): builders is SQLiteBuilders => 'blob' in builders
