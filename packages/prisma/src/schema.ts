/**
 * What a Prisma client knows of its schema, with the models that seal its tables. Rows have the names of
 * Prisma's fields.
 */
import { InvalidInputError } from '@eaas/sdk'
import { createSealedTable, type Row, type SealedTable } from '@eaas/sdk/adapter'
import { isExact, type ModelTypes, type Reference, readTypes, spell } from './types.js'

export interface KnownModel {
  name: string
  /** Undefined where nothing of the model is encrypted. */
  sealed: SealedTable | undefined
  fields: ReadonlySet<string>
  /** The other model of each relation, by its field. */
  relations: ReadonlyMap<string, string>
  /**
   * How the rows of a relation are joined, by its field; nothing where the schema does not say, as between
   * many and many.
   */
  joins: ReadonlyMap<string, Join>
  /** The fields that the client leaves out of what it returns, unless a call says otherwise. */
  omitted: Readonly<Row>
  /** The fields that are JSON in Prisma: their values are never Prisma's own operations. */
  json: ReadonlySet<string>
  /** The fields of `bind` that the database finds in the spelling only in which it returns them. */
  exact: ReadonlySet<string>
  /** Spells the value of a field as the database returns it, where its type says how. */
  spell(field: string, value: unknown): unknown
}

export interface Join {
  /** Whether the rows of the model itself refer to the others. */
  isOwn: boolean
  pairs: readonly Reference[]
}

export interface Schema {
  get(model: string): KnownModel
  /** The tables with encrypted columns, by their names in the database. */
  tables: readonly (readonly [table: string, isSealed: (column: string) => boolean])[]
}

interface PrismaModel {
  fields: { name: string; kind: string; type: string; dbName?: string | null; relationName?: string }[]
  dbName?: string | null
}

interface Client {
  _runtimeDataModel?: { models: Record<string, PrismaModel> }
  _globalOmit?: Readonly<Record<string, Row>>
}

/** @throws InvalidInputError when it is no Prisma client, or its schema lacks a model or one of its fields */
export function readSchema(client: object, models: Readonly<Record<string, object>>): Schema {
  const { _runtimeDataModel: data, _globalOmit: omit } = client as Client
  if (!data) throw new InvalidInputError('expected a Prisma client', 'Pass what `encrypted` returns to its `$extends`.')
  for (const name of Object.keys(models)) {
    if (Object.hasOwn(data.models, name)) continue
    throw new InvalidInputError(`the schema has no model ${JSON.stringify(name)}`, 'Name models as the schema does.')
  }
  const types = readTypes(client)
  const known = new Map(
    Object.entries(data.models).map(([name, one]) => [
      name,
      {
        ...knowModel(name, one, models[name], types.get(name), omit?.[uncapitalized(name)]),
        joins: new Map(one.fields.flatMap((field) => joinOf(data.models, types, name, field) ?? [])),
      },
    ]),
  )
  return {
    get(name) {
      const found = known.get(name)
      if (!found) throw new InvalidInputError(`the schema has no model ${JSON.stringify(name)}`)
      return found
    },
    tables: [...known.values()].flatMap(({ name, sealed }) => {
      const { dbName, fields = [] } = data.models[name] ?? {}
      const columns = new Set(fields.filter((one) => sealed?.isSealed(one.name)).map((one) => columnOf(one)))
      return sealed ? [[dbName ?? name, (column: string) => columns.has(column)] as const] : []
    }),
  }
}

/** Finds how a relation joins, which only one of its two fields says. */
function joinOf(
  models: Readonly<Record<string, PrismaModel>>,
  types: ReadonlyMap<string, ModelTypes>,
  model: string,
  { name, type, relationName }: PrismaModel['fields'][number],
): [[field: string, join: Join]] | undefined {
  const own = types.get(model)?.references.get(name)
  if (own) return [[name, { isOwn: true, pairs: own }]]
  const other = models[type]?.fields.find(
    (field) => field.relationName === relationName && !(type === model && field.name === name),
  )
  const references = relationName === undefined ? undefined : types.get(type)?.references.get(other?.name ?? '')
  return references && [[name, { isOwn: false, pairs: references.map((one) => ({ own: one.other, other: one.own })) }]]
}

function uncapitalized(name: string): string {
  return name.replace(/^./, (first) => first.toLowerCase())
}

function columnOf({ name, dbName }: PrismaModel['fields'][number]): string {
  return (dbName ?? name).toLowerCase()
}

function knowModel(
  name: string,
  { fields }: PrismaModel,
  model: object | undefined,
  types: ModelTypes | undefined,
  omitted: Row = {},
): Omit<KnownModel, 'joins'> {
  const sealed = model && createSealedTable(model)
  const lacking = sealed?.columns.find((column) => !fields.some((field) => field.name === column))
  if (lacking !== undefined) {
    throw new InvalidInputError(
      `the model ${name} of the schema has no field ${JSON.stringify(lacking)}`,
      'Name fields, indexes and `bind` as the fields of the schema.',
    )
  }
  return {
    name,
    sealed,
    fields: new Set(fields.map((field) => field.name)),
    omitted,
    relations: new Map(fields.filter(({ kind }) => kind === 'object').map((field) => [field.name, field.type])),
    json: new Set(fields.filter(({ type }) => type === 'Json').map((field) => field.name)),
    exact: new Set(
      fields.filter(({ name, type, kind }) => isExact(types, { name, type, kind })).map((field) => field.name),
    ),
    spell: (name, value) =>
      spell(
        types,
        fields.find((field) => field.name === name),
        value,
      ),
  }
}
