/** Compares tables with models in types: a mismatch becomes a sentence that the compiler prints. */
import type { AnyModel, Declared } from '@eaas/sdk/adapter'
import type { Table } from 'drizzle-orm'

/** A table, and the model that seals its rows. */
export type Pair = readonly [table: Table, model: AnyModel]

/** The same tables, each with its model, or with a sentence in place of a model that does not fit. */
export type ModelsOf<Pairs extends readonly Pair[]> = {
  readonly [At in keyof Pairs]: Pairs[At] extends readonly [infer T extends Table, infer M]
    ? [FaultOf<T, M>] extends [never]
      ? Pairs[At]
      : readonly [table: T, model: FaultOf<T, M>]
    : never
}

/** What is wrong with the columns of a table for a model; never if nothing is. */
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
