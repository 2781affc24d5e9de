/** `@eaas/typeorm`: a TypeORM data source that encrypts and decrypts rows by the models of its entities. */
import type { AnyModel, Declared } from '@eaas/sdk/adapter'
import type { DataSource, EntityTarget, ObjectLiteral } from 'typeorm'
import { wrapDataSource } from './data-source.js'

export type { AnyModel } from '@eaas/sdk/adapter'

/** The models of some entities, whose fields have the types of the entities' properties. */
export type ModelsOf<Entities extends readonly ObjectLiteral[]> = {
  readonly [At in keyof Entities]: readonly [
    entity: EntityTarget<Entities[At]>,
    model: AnyModel & {
      readonly '~types'?: { plain: { [Name in keyof Entities[At]]?: Declared<Entities[At][Name]> | undefined } }
    },
  ]
}

/**
 * Returns the data source, which from then on encrypts the fields of these entities' models when rows are written,
 * decrypts them when rows are read, and searches by their indexes: in repositories, managers and query builders, in
 * cascades, relations and transactions. Models name their fields, indexes and the columns of `bind` as the properties
 * of the entity. For PostgreSQL.
 *
 * Its queries throw the errors of a model, and `InvalidInputError` for what the database cannot do with encrypted
 * values: sort by them, compare them in a way that no index answers, or compute with them. SQL as text that names
 * something encrypted is refused too.
 *
 * @param dataSource is changed; `initialize` comes after, and throws `InvalidInputError` when an entity lacks a column
 * of its model, or `synchronize` would drop one to change its type
 * @param entities each entity, a class or an `EntitySchema`, with its model
 * @throws InvalidInputError when the data source is initialized, already has its models, or is of another database
 */
export function encrypted<D extends DataSource, const Entities extends readonly ObjectLiteral[]>(
  dataSource: D,
  entities: ModelsOf<Entities>,
): D {
  wrapDataSource(dataSource, entities)
  return dataSource
}
