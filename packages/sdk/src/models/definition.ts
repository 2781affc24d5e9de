/** Reads and checks what an application declares of a model. `index-columns.ts` reads its indexes. */
import { isUuid } from '@eaas/protocol'
import { InvalidInputError } from '../errors.js'
import {
  assertArray,
  assertFlag,
  assertKeyId,
  assertOneOf,
  assertOptions,
  assertScope,
  type DekScope,
  isName,
  kindOf,
  type Row,
} from '../input.js'
import { assertFieldPath, assertNoneInside, fieldInside, getAt, type Path, withValues } from '../records/paths.js'
import type { FieldSpec } from './fields.js'
import { assertByService, type IndexColumn, readIndexColumns, warnOfFewValues } from './index-columns.js'
import { type IndexKey, readIndexKey } from './index-key.js'
import type { AnyField, Compounds, Fields } from './model-types.js'

export type RowFormat = 'full' | 'compact' | 'text'

const FORMATS: readonly RowFormat[] = ['full', 'compact', 'text']
const MODEL_OPTIONS =
  'name keyId formerKeyIds fields indexKey indexes bind envelope acceptUnbound acceptPlaintext format header dek warn'.split(
    ' ',
  )
/** The pairs of a context (envelope-v2.md 3) without those of the model and the field. */
const MAX_BIND_COLUMNS = 30
type Options = ModelOptions<Fields, Compounds<Fields>, RowFormat, string, boolean>

/** What a model is made of. Models bind their values, so they have a name, unless they write format v1. */
export type ModelOptions<
  F extends Fields,
  C extends Compounds<F>,
  T extends RowFormat,
  H extends string,
  P extends boolean = false,
> = SharedOptions<F, C, T, H, P> & (BoundOptions | UnboundOptions)

/** Of a model whose values are bound to where they belong, in format v2 (bindings.md 1). */
export interface BoundOptions {
  /**
   * The name of the model, such as that of its table. Values are bound to it and to their field: one that was
   * moved to another model or another field does not open. Never change it while rows are stored.
   */
  name: string
  /**
   * Columns that identify a row, such as `['id']`; a dot leads into an object. Values are bound to them too,
   * so that one that was moved to another row does not open. Each row must have them, as text or whole
   * numbers, before it is sealed, and they must never change.
   */
  bind?: readonly string[] | undefined
  /** The format of the envelopes that are written and read: 2 by default. */
  envelope?: 2 | undefined
  /**
   * `true` also opens values of format v1, which are bound to nothing: for a migration. `accepted` of the
   * model counts them.
   */
  acceptUnbound?: boolean | undefined
}

/**
 * Of a model whose rows clients in other languages read, in format v1: whoever can write to the table can
 * exchange its values.
 */
export interface UnboundOptions {
  /** The format of the envelopes, which clients in other languages read, too. */
  envelope: 1
  /** The name of the model, for messages alone: no value is bound to it. */
  name?: string | undefined
  /** Needs format v2. */
  bind?: undefined
  /** Needs format v2. */
  acceptUnbound?: undefined
}

interface SharedOptions<
  F extends Fields,
  C extends Compounds<F>,
  T extends RowFormat,
  H extends string,
  P extends boolean,
> {
  /**
   * The `id` of the key under which all fields are sealed. Or a function that returns the id of each row's
   * own key, so that destroying one key makes one person's data unreadable: see the page on deleting a
   * person's data. It is given the row without its fields and the columns that the model adds, stored and
   * unstored rows alike: `(row) => row.key_id`. An envelope of another row's key does not open. Indexes then
   * need `indexKey`.
   */
  keyId: string | ((row: Readonly<Record<string, unknown>>) => unknown)
  /**
   * The ids of keys under which rows were sealed before. The model still opens these rows, and `reseal` seals
   * them under `keyId`. It refuses envelopes of any other key, since whoever can write to the database could
   * have put them there.
   */
  formerKeyIds?: readonly string[] | undefined
  /** The fields to seal, by their names; a dot leads into an object: `'address.street'`. */
  fields: F
  /**
   * The text that `createIndexKey` returned. All indexes of the model are then made in this process: the
   * service sees no value, and a search needs no request. Without it the service makes them, with `shared:
   * true` as clients in other languages do.
   */
  indexKey?: string | undefined
  /**
   * Indexes over several fields, by their columns. A search needs the values of all of them. The values are
   * normalised as their fields say and joined with their lengths in front, so that different values never
   * give the same text. `shared` as of a field. With `indexKey` also `{ prefix: field, length }`, to search
   * for the first characters of a text, and `{ ngram: field, length }`, to search for a part of it.
   */
  indexes?: C | undefined
  /**
   * `full`, the default, stores an envelope in each field. `compact` stores what a record's envelopes share
   * once, in the column `header`, and `{ c, i }` (ciphertext and iv) in the fields. `text` stores each
   * envelope as text (`toText`), for text columns. All forms are read, whichever is written.
   */
  format?: T | undefined
  /**
   * `true` also opens rows in which some fields are not sealed yet: for a migration, since whoever can write
   * to the table can then put any value there. A value that looks like an envelope is never taken for one
   * that is not sealed. `accepted` of the model counts them, and the first one writes a warning.
   */
  acceptPlaintext?: P | undefined
  /** The column of the compact form; `envelope` by default. */
  header?: H | undefined
  /** Which DEK seals: the key's (`shared`, the default), one for each `call`, or one for each `record`. */
  dek?: DekScope | undefined
  /**
   * `false` silences the warnings about an index over data of few possible values, and about values that are
   * not sealed.
   */
  warn?: boolean | undefined
}

/** A field and its path in a row. */
export interface PlacedField {
  name: string
  path: Path
  spec: FieldSpec
}

/** A column that rows are bound to, and its path in a row. */
export interface BindColumn {
  name: string
  path: Path
}

/** A checked definition. */
export interface Definition {
  /** Empty in a model of format v1 that has none. */
  name: string
  /** The key of a row; its number is for errors. */
  keyOf: (row: Row, index: number) => string
  /** Whether each row has a key of its own. */
  keyByRow: boolean
  envelope: 1 | 2
  bind: readonly BindColumn[]
  acceptUnbound: boolean
  acceptPlaintext: boolean
  /** The ids of the keys whose envelopes the model opens, whatever the row. */
  keyIds: ReadonlySet<string>
  /** Without it the service makes the indexes. */
  indexKey: IndexKey | undefined
  fields: readonly PlacedField[]
  columns: readonly IndexColumn[]
  /** The definition of all fields, where these are some of them: see `pickFields`. */
  whole?: Definition
  /** The names of the fields and of all columns that the model adds. */
  names: ReadonlySet<string>
  format: RowFormat
  header: string
  dek: DekScope
  warn: boolean
}

/**
 * Reads a definition, and warns of indexes over data of few possible values. @throws InvalidInputError naming
 * what is wrong
 */
export function readDefinition(options: Options): Definition {
  assertOptions('model()', options, MODEL_OPTIONS)
  const {
    keyId,
    fields: given,
    indexes = {},
    format = 'full',
    header = 'envelope',
    dek = 'shared',
    warn = true,
    formerKeyIds = [],
    acceptPlaintext = false,
  } = options
  const keyByRow = typeof keyId === 'function'
  if (!keyByRow) assertKeyId(keyId)
  assertArray('formerKeyIds', formerKeyIds)
  for (const one of formerKeyIds) assertKeyId(one, 'formerKeyIds')
  assertScope(dek)
  assertFlag('acceptPlaintext', acceptPlaintext)
  const binding = readBinding(options)
  assertOptions('fields', given)
  assertNoHiddenField(given)
  assertOptions('indexes', indexes)
  assertOneOf('format', format, FORMATS)
  const fields = Object.entries(given).map(([name, field]) => {
    const path = name.split('.')
    assertFieldPath(name, path)
    if (!field?.['~spec']) {
      const message = `${JSON.stringify(name)}: expected a field, got ${kindOf(field)}`
      throw new InvalidInputError(message, 'Declare it with text(), json() and the like.')
    }
    return { name, path, spec: field['~spec'] }
  })
  if (fields.length === 0) throw new InvalidInputError('fields must have at least one field')
  assertNoneInside(fields)

  const columns = readIndexColumns({ fields, indexes, header })
  if (warn) for (const { column, fields } of columns) warnOfFewValues(column, namesOf(fields))
  const names = new Set([...namesOf(fields), ...columns.map(({ column }) => column), header])
  assertBind(binding.bind, fields, names)
  const keyIds = new Set(keyByRow ? formerKeyIds : [keyId, ...formerKeyIds])
  const indexKey = readLocal(options, binding.name, keyByRow ? undefined : keyIds)
  const shared = columns.find((column) => column.shared)
  if (indexKey && shared)
    throw new InvalidInputError(`${JSON.stringify(shared.column)}: the service makes a shared index: omit indexKey`)
  if (!indexKey) assertByService(columns, binding.name)
  if (!indexKey && keyByRow && columns[0]) {
    throw new InvalidInputError(
      `the index ${JSON.stringify(columns[0].column)} needs indexKey: each row has another key`,
      'Make one with createIndexKey().',
    )
  }
  const keyOf = keyByRow ? keyOfRow(keyId, fields, names) : () => keyId
  return {
    ...{ ...binding, keyOf, keyByRow, keyIds, indexKey, acceptPlaintext },
    ...{ fields, columns, names, format, header, dek, warn },
  }
}

/**
 * Makes the function that finds the key of a row. The application's function gets what is stored in plain, so
 * that it gives the same key for a row that is to be sealed and for the stored one, and no plaintext can get
 * into its errors.
 */
function keyOfRow(find: (row: Row) => unknown, fields: readonly PlacedField[], names: ReadonlySet<string>) {
  return (row: Row, index: number): string => {
    const present = fields.filter(({ path }) => getAt(row, path) !== undefined)
    const plain = withValues(
      row,
      present.map(({ path }): [Path, undefined] => [path, undefined]),
    )
    for (const name of names) delete plain[name]
    const place = { index, field: 'keyId' }
    let keyId: unknown
    let got = 'an error'
    try {
      keyId = find(plain)
      got = kindOf(keyId)
    } catch {
      // Refused below: an error of the application may quote the row.
    }
    if (typeof keyId === 'string' && isUuid(keyId)) return keyId
    const hint = 'Store it in a column of each row, and read its column too.'
    throw new InvalidInputError(`keyId() must return the id of a key, a UUID, got ${got}`, hint, place)
  }
}

/**
 * Reads the key of a local index. @throws InvalidInputError when it is garbled, or of another model or key
 */
function readLocal(
  { indexKey, envelope }: Options,
  model: string,
  keyIds: ReadonlySet<string> | undefined,
): IndexKey | undefined {
  if (indexKey === undefined) return undefined
  if (envelope === 1)
    throw new InvalidInputError(
      'indexKey needs envelope 2',
      'Clients in other languages need the index of the service.',
    )
  const read = readIndexKey(indexKey)
  if (read.model !== '' && read.model !== model) {
    throw new InvalidInputError(
      `indexKey belongs to the model ${JSON.stringify(read.model)}`,
      'Make one for this model.',
    )
  }
  if (!keyIds || keyIds.has(read.wrapped.key_id)) return read
  const message = `indexKey was made under the key ${read.wrapped.key_id}, which is not the model's`
  throw new InvalidInputError(message, 'Make one under `keyId`, or name its key in `formerKeyIds`.')
}

/** Reads the options that say what values are bound to. @throws InvalidInputError naming what is wrong */
function readBinding({ name = '', envelope = 2, bind = [], acceptUnbound = false }: BoundOptions | UnboundOptions) {
  assertOneOf('envelope', envelope, [1, 2])
  assertFlag('acceptUnbound', acceptUnbound)
  const isList = Array.isArray(bind) && bind.length <= MAX_BIND_COLUMNS && new Set(bind).size === bind.length
  if (!isList || !bind.every((column) => isName(column) && column.split('.').every(isName))) {
    const message = `bind must list at most ${MAX_BIND_COLUMNS} columns, each once`
    throw new InvalidInputError(message, "Pass a list of names: ['id'].")
  }
  if (envelope === 1 && (bind.length > 0 || acceptUnbound))
    throw new InvalidInputError('bind and acceptUnbound need envelope 2')
  if (typeof name !== 'string' || (envelope === 2 && name === '')) {
    throw new InvalidInputError('a model must have a name', 'Values are bound to it, except with `envelope: 1`.')
  }
  return { name, envelope, bind: bind.map((column) => ({ name: column, path: column.split('.') })), acceptUnbound }
}

/**
 * Refuses a column whose value sealing changes: values are bound to what is stored in plain. @throws
 * InvalidInputError
 */
function assertBind(bind: readonly BindColumn[], fields: readonly PlacedField[], names: ReadonlySet<string>): void {
  const wrong = bind.find(
    (column) => names.has(column.name) || names.has(column.path[0] ?? '') || fieldInside([...fields, column]),
  )
  if (wrong) throw new InvalidInputError(`bind: ${JSON.stringify(wrong.name)} is sealed, or made by the model`)
}

/**
 * Refuses a field that is inherited, not enumerable or under a symbol, since it would not be sealed. @throws
 * InvalidInputError
 */
function assertNoHiddenField(fields: Readonly<Record<PropertyKey, AnyField>>): void {
  const seen: PropertyKey[] = Object.keys(fields)
  for (let owner: object = fields; owner; owner = Object.getPrototypeOf(owner)) {
    const hidden = Reflect.ownKeys(owner).find((key) => !seen.includes(key) && memberOf(fields, owner, key)?.['~spec'])
    if (hidden) throw new InvalidInputError(`fields: ${String(hidden)} must be enumerable, and the object's own`)
  }
}

/**
 * Reads a member. Does not call the accessor `__proto__` that objects inherit, which throws under `node --disable-proto=throw`.
 */
function memberOf(
  fields: Readonly<Record<PropertyKey, AnyField>>,
  owner: object,
  key: PropertyKey,
): AnyField | undefined {
  return key === '__proto__' ? Object.getOwnPropertyDescriptor(owner, key)?.value : fields[key]
}

function namesOf(fields: readonly PlacedField[]): string[] {
  return fields.map(({ name }) => name)
}
