/** `@eaas/prisma`: an extension of a Prisma client that encrypts and decrypts rows by the models of the tables. */
import type { AnyModel, Read } from '@eaas/sdk/adapter'
import { extendClient } from './extension.js'
import type { OperationsOf, ValuesOf } from './operation-types.js'

export type { AnyModel, Read } from '@eaas/sdk/adapter'

/** An extension as Prisma types it: a field that is not text has the model's type when it is read and when it is written. */
export type Encrypted<M, C = unknown> = (client: C) => {
  $extends: {
    extArgs: {
      result: {
        [Name in keyof M & string as Uncapitalize<Name>]: {
          [Field in keyof ValuesOf<M[Name]>]: () => {
            needs: Record<string, never>
            compute: () => Read<ValuesOf<M[Name]>[Field]>
          }
        }
      }
      model: OperationsOf<C, { readonly [Name in keyof M]: M[Name] }>
      query: Record<never, never>
      client: Record<never, never>
    }
  }
}

/**
 * Returns an extension for `$extends` of a Prisma client that encrypts the fields of these models when rows are
 * written, decrypts them when rows are read, and searches by their indexes: in nested writes and relations too, and in
 * transactions. Models name their fields, indexes and the columns of `bind` as the fields of Prisma's schema.
 *
 * Queries throw the errors of a model, and `InvalidInputError` for what the database cannot do with encrypted values:
 * sort by them, compare them in a way that no index answers, or compute with them. SQL as text that names something
 * encrypted is refused too.
 *
 * @param models the model of each table, by the name of the model in Prisma's schema
 * @throws InvalidInputError at `$extends`, when the schema lacks a model or one of its fields
 */
export function encrypted<const M extends Readonly<Record<string, AnyModel>>, C = unknown>(models: M): Encrypted<M, C> {
  return ((client: object) => extendClient(client, models)) as Encrypted<M, C>
}
