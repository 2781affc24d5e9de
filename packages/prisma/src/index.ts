/**
 * `@eaas/prisma`: an extension of a Prisma client that encrypts what is stored and decrypts what is read, by
 * the models of the tables.
 */
import type { AnyModel, Read } from '@eaas/sdk/adapter'
import { extendClient } from './extension.js'

export type { AnyModel, Read } from '@eaas/sdk/adapter'

type PlainOf<M> = M extends { readonly '~types'?: { plain: infer P } } ? P : never
type ValueOf<T> = undefined extends T ? Exclude<T, undefined> | null : T

/** An extension as Prisma types it: what is read of a field that is not text has the type of the model. */
export type Encrypted<M> = (client: object) => {
  $extends: {
    extArgs: {
      result: {
        [Name in keyof M & string as Uncapitalize<Name>]: {
          [Field in keyof PlainOf<M[Name]> & string as PlainOf<M[Name]>[Field] extends string | null | undefined
            ? never
            : Field]: () => { needs: Record<string, never>; compute: () => Read<ValueOf<PlainOf<M[Name]>[Field]>> }
        }
      }
      model: Record<never, never>
      query: Record<never, never>
      client: Record<never, never>
    }
  }
}

/**
 * Returns an extension, for `$extends` of a Prisma client, which encrypts the fields of these models when
 * rows are written, decrypts them when rows are read, and searches by their indexes: in nested writes and
 * relations too, and in transactions. Models name their fields, indexes and the columns of `bind` as the
 * fields of Prisma's schema.
 *
 * Queries throw the errors of a model, and `InvalidInputError` for what the database cannot do with encrypted
 * values: sort by them, compare them by anything but equality, or compute with them. SQL as text that names
 * something encrypted is refused too.
 *
 * @param models the model of each table, by the name of the model in Prisma's schema
 * @throws InvalidInputError at `$extends`, when the schema lacks a model or one of its fields
 */
export function encrypted<const M extends Readonly<Record<string, AnyModel>>>(models: M): Encrypted<M> {
  return ((client: object) => extendClient(client, models)) as Encrypted<M>
}
