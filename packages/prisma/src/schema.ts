/** What a Prisma client knows of its schema, with the models of its tables. Rows have the schema's field names. */
import { InvalidInputError } from '@eaas/sdk'
import {
  createIdMaker,
  createSealedTable,
  type IdMaker,
  quoteName,
  type Row,
  refuseUnbindable,
  type SealedTable,
} from '@eaas/sdk/adapter'
import { findClientDefault } from './client-ids.js'
import { assertFields, isExact, isMadeByDatabase, type ModelTypes, type Reference, readTypes, spell } from './types.js'

export interface KnownModel {
  name: string
  get(model: string): KnownModel
  table: string
  /** Fields with a default whose values must be known before a row is sealed. */
  made: Map<string, Made>
  /** Undefined where nothing of the model is encrypted. */
  sealed: SealedTable | undefined
  fields: ReadonlySet<string>
  /** The fields that identify a row; none if the schema does not say. */
  ids: readonly string[]
  /** The fields of each compound unique key, by the name that it has in conditions. */
  uniques: ReadonlyMap<string, readonly string[]>
  /** The other model of each relation, by its field. */
  relations: ReadonlyMap<string, string>
  /** How the rows of a relation are joined, by its field; absent if the schema does not say, as for many-to-many. */
  joins: ReadonlyMap<string, Join>
  lists: ReadonlySet<string>
  /** The fields that the client leaves out of what it returns, unless a call says otherwise. */
  omitted: Readonly<Row>
  /** The fields of Prisma's type Json: an object in them is a value, never an operation such as `set`. */
  json: ReadonlySet<string>
  /** The fields by which the database finds a value only as it returns it. */
  exact: ReadonlySet<string>
  /** Spells a value as the database returns it, if the field's type determines that. */
  spell(field: string, value: unknown): unknown
}

/** How a missing value is generated: by the client or, without `make`, by the database. */
export interface Made {
  column: string
  make: (() => string) | undefined
  /** Whether Prisma accepts its value only in rows with foreign keys, not with `connect` and the like. */
  isUnchecked: boolean
}

export interface Join {
  /** Whether the model's own rows hold the foreign key. */
  isOwn: boolean
  pairs: readonly Reference[]
}

export interface Schema {
  ids: IdMaker
  get(model: string): KnownModel
  /** The tables with encrypted columns, by their names in the database. */
  tables: readonly (readonly [table: string, isSealed: (column: string) => boolean])[]
  /** The tables of PostgreSQL, by their names in SQL. */
  ofPostgres: readonly { sealed: SealedTable; table: string; nameIn(field: string): string }[]
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
  const get = (name: string): KnownModel => {
    const found = known.get(name)
    if (!found) throw new InvalidInputError(`the schema has no model ${JSON.stringify(name)}`)
    return found
  }
  const known: Map<string, KnownModel> = new Map(
    Object.entries(data.models).map(([name, one]) => [
      name,
      {
        ...knowModel(name, one, models[name], types.get(name), omit?.[uncapitalized(name)]),
        get,
        joins: new Map(one.fields.flatMap((field) => joinOf(data.models, types, name, field) ?? [])),
      },
    ]),
  )
  for (const model of known.values()) {
    for (const field of neededIds(model, known)) {
      const made = findMade(model, field, data.models[model.name], types.get(model.name))
      if (made) model.made.set(field, made)
    }
  }
  const all = [...known.values()].flatMap(({ name, table, sealed }) => {
    const columns = new Map(data.models[name]?.fields.map((one) => [one.name, columnOf(one)]))
    return sealed ? [{ name, table, sealed, nameIn: (field: string) => columns.get(field) ?? field }] : []
  })
  return {
    ids: createIdMaker(),
    get,
    tables: all.map(({ name, sealed, nameIn }) => {
      const columns = new Set(sealed.columns.filter((field) => sealed.isSealed(field)).map(nameIn))
      return [data.models[name]?.dbName ?? name, (column: string) => columns.has(column)] as const
    }),
    ofPostgres: all.filter(({ name }) => isPostgres(types.get(name))),
  }
}

/** Returns the fields of `bind`, and those that rows nested in a row of the model are bound to. */
function neededIds({ sealed, joins, relations }: KnownModel, known: ReadonlyMap<string, KnownModel>): Set<string> {
  const inherited = [...joins].flatMap(([field, { isOwn, pairs }]) => {
    const other = known.get(relations.get(field) ?? '')
    return isOwn ? [] : pairs.filter((pair) => other?.sealed?.bind.includes(pair.other)).map(({ own }) => own)
  })
  return new Set([...(sealed?.bind ?? []), ...inherited])
}

function isPostgres(types: ModelTypes | undefined): boolean {
  return types?.provider === 'postgresql' || types?.provider === 'postgres'
}

/** @throws InvalidInputError if the database generates the value only during the insert */
function findMade(
  { name, sealed }: KnownModel,
  field: string,
  model: PrismaModel | undefined,
  types: ModelTypes | undefined,
): Made | undefined {
  const of = types?.defaults.get(field)
  if (!types || !of) return undefined
  const column = model?.fields.find((one) => one.name === field)?.dbName ?? field
  if (!isMadeByDatabase(of)) {
    const make = findClientDefault(of.name, of.argument)
    return make && { column, make, isUnchecked: false }
  }
  if (!isPostgres(types)) {
    if (!sealed?.bind.includes(field)) return undefined
    const why = `a database of ${types.provider} makes it, and cannot be asked for it before the insert`
    const hint = 'Use @default(uuid()), @default(cuid()) or another default of the client, or `bind: false`.'
    refuseUnbindable(name, field, why, hint)
  }
  return { column, make: undefined, isUnchecked: of.name === 'autoincrement' }
}

/** Finds how a relation joins. Only one of its two fields says so. */
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

export function uncapitalized(name: string): string {
  return name.replace(/^./, (first) => first.toLowerCase())
}

function columnOf({ name, dbName }: PrismaModel['fields'][number]): string {
  return (dbName ?? name).toLowerCase()
}

function knowModel(
  name: string,
  { fields, dbName }: PrismaModel,
  model: object | undefined,
  types: ModelTypes | undefined,
  omitted: Row = {},
): Omit<KnownModel, 'joins' | 'get'> {
  const sealed = model && createSealedTable(model)
  const lacking = sealed?.columns.find((column) => !fields.some((field) => field.name === column))
  if (lacking !== undefined)
    throw new InvalidInputError(
      `the model ${name} of the schema has no field ${JSON.stringify(lacking)}`,
      'Name fields, indexes and `bind` as the fields of the schema.',
    )
  if (sealed) assertFields(name, sealed, { fields, types })
  return {
    name,
    table: quoteName(dbName ?? name, types?.schema),
    made: new Map(),
    sealed,
    fields: new Set(fields.map((field) => field.name)),
    ids: types?.ids ?? [],
    uniques: types?.uniques ?? new Map(),
    omitted,
    relations: new Map(fields.filter(({ kind }) => kind === 'object').map((field) => [field.name, field.type])),
    lists: types?.lists ?? new Set(),
    json: new Set(fields.filter(({ type }) => type === 'Json').map((field) => field.name)),
    exact: new Set(fields.filter((field) => isExact(types, field)).map((field) => field.name)),
    spell(name, value) {
      const field = fields.find((one) => one.name === name)
      return spell(types, field, value)
    },
  }
}
