/** Models: records of which some fields are sealed, some of them searchable; see `Client.model`. */

import { traced } from '../caller.js'
import { type DekScope, demandScope } from '../deks/own-dek.js'
import { InvalidInputError } from '../errors.js'
import { demandKeyId, demandOptions, isMissing, isName, kindOf, type Row, readSignal, takeRows } from '../input.js'
import { loadPart } from '../load-part.js'
import { demandFieldPath, fieldInside, getAt, type Path } from '../records/paths.js'
import type { Progress } from '../records/records.js'
import type { CallOptions } from '../resources/keys.js'
import { demandIndex, normalizeText, warnOfFewValues } from './blind-index.js'
import type { FieldSpec } from './fields.js'
import type { FailedRow, ModelDeps, RowsResult } from './model-rows.js'
import type {
  AnyField,
  Compounds,
  Fields,
  OpenedRow,
  OtherColumns,
  PlainShape,
  Query,
  QueryColumns,
  SealedRow,
  SealedShape,
} from './model-types.js'
import type { RewrapBatch, RewrapOptions } from './rotation.js'
import { packRow, unpackRow } from './rows.js'

export type RowFormat = 'full' | 'compact'

const MODEL_OPTIONS = 'keyId formerKeyIds fields indexes format header dek warn'.split(' ')
const ROWS_OPTIONS = ['signal', 'onProgress'] satisfies (keyof RowsOptions)[]

export interface ModelOptions<F extends Fields, C extends Compounds<F>, T extends RowFormat, H extends string> {
  /** The `id` of the key under which all fields are sealed. */
  keyId: string
  /**
   * The ids of keys under which rows were sealed before: still opened, and sealed under `keyId` by `reseal`. An envelope of any
   * other key is refused: whoever can write to the database could put one there.
   */
  formerKeyIds?: readonly string[] | undefined
  /** The fields to seal, by their names; a dot leads into an object: `'address.street'`. */
  fields: F
  /**
   * Indexes of several fields at once, by their columns: found again only by all of them together. The values are normalised
   * as their fields say, and joined with their lengths in front, so that no two records give the same by accident.
   */
  indexes?: C | undefined
  /**
   * `full`, an envelope in place of each value; `compact`, what a record's envelopes share stored once, in the column
   * `header`, and `{ c, i }` in the fields. Both are read, whichever is written. `full` by default.
   */
  format?: T | undefined
  /** The column of the compact form; `envelope` by default. */
  header?: H | undefined
  /** Which DEK seals: the key's (`shared`, by default), one for each call, or one for each record. */
  dek?: DekScope | undefined
  /** `false` silences the warning about an index over what has few possible values. */
  warn?: boolean | undefined
}

export interface RowsOptions extends CallOptions {
  /** Called now and then, and at the end. */
  onProgress?: ((progress: Progress) => void) | undefined
}

/** What became of many rows: those that opened, in their order, and those that did not. */
export type { FailedRow, RowsResult }

/** A typed record: which fields are sealed, which searchable. Made by `Client.model`; throws what `Client` names. */
export interface Model<F extends Fields, C, T extends RowFormat, H extends string> {
  /** For TypeScript only: see `PlainRow` and `StoredRow`. */
  readonly '~types'?: { plain: PlainShape<F>; stored: SealedRow<PlainShape<F>, F, C, T, H> }
  /**
   * Seals a row: returns a new one with its fields sealed and the columns of its indexes added; what is no field of the model
   * stays as it is. Wraps and hashes go out together, as one request, or none. A plain row is
   * taken as it is at the call; bytes, Dates and objects in it, and an instance of a class, must not change until it is done.
   *
   * @throws InvalidInputError with `place` when a value is not what its field takes, or a column of the row would be lost under
   * one that is added; before any network
   * @example
   * ```ts
   * const row = await users.encrypt({ id: 7, email: 'Ada@example.org' })
   * ```
   */
  encrypt<R extends PlainShape<F> & OtherColumns>(row: R, options?: CallOptions): Promise<SealedRow<R, F, C, T, H>>
  /** Seals many rows; all values are checked before anything is sent, and the call fails as a whole. Otherwise as `encrypt`. */
  encryptMany<R extends PlainShape<F> & OtherColumns>(
    rows: readonly R[],
    options?: RowsOptions,
  ): Promise<SealedRow<R, F, C, T, H>[]>
  /**
   * Opens a row, in either form, and leaves the columns of the indexes out: what `encrypt` was given comes back. What is no index
   * in such a column stays. Null in an
   * optional field is what a database has for a value that was left out, and is left out.
   *
   * @throws InvalidInputError, DecryptionError or ContentError with `place`
   */
  decrypt<R extends SealedShape<F> & OtherColumns>(row: R, options?: CallOptions): Promise<OpenedRow<R, F, C, H>>
  /**
   * Opens many rows, with one request for all the DEKs that are not cached. A row that does not open loses no other: it is in
   * `failed`, with its index and its error, whatever the error is, that the service could not be asked included.
   *
   * @throws AbortedError, InvalidInputError when it is no array, and what a function passed as `apiKey` throws; nothing else
   *
   * @example
   * ```ts
   * const { ok, failed } = await users.decryptMany(rows)
   * ```
   */
  decryptMany<R extends SealedShape<F> & OtherColumns>(
    rows: readonly R[],
    options?: RowsOptions,
  ): Promise<RowsResult<OpenedRow<R, F, C, H>>>
  /**
   * Makes the index columns of values, to look rows up by: `{ email_index: '…' }`. An index of several fields comes with the
   * values of all of them. One request. With `bits`, filter what is found with `matches`.
   *
   * @throws InvalidInputError when a field has no index, or its value cannot have one
   */
  index<const Q extends Query<F, C>>(
    query: Q & Record<Exclude<keyof Q, keyof Query<F, C>>, never>,
    options?: CallOptions,
  ): Promise<QueryColumns<F, C, Q>>
  /** Whether an opened row has these values, compared as their indexes are, after normalisation. Does not use the network. */
  matches(row: object, query: Query<F, C>): boolean
  /**
   * Has the wrapped keys of rows replaced by new ones under the current version of their key: the ciphertext stays, and the
   * DEK with it. Rows that are current are left alone. Helps against a key version that leaked or is to be retired, not
   * against a DEK that leaked: see `reseal`. Needs `keys:read`, `encrypt` and `decrypt`; one audit entry for each distinct
   * wrapped key.
   *
   * @example
   * ```ts
   * for await (const { items } of users.rewrap(rows)) {
   *   for (const item of items) if (item.status === 'changed') await store(item.row)
   * }
   * ```
   */
  rewrap<R extends SealedShape<F>>(
    rows: Iterable<R> | AsyncIterable<R>,
    options?: RewrapOptions,
  ): AsyncGenerator<RewrapBatch<R>, void, undefined>
  /**
   * Opens rows and seals them anew, under new DEKs, with new ciphertexts and indexes: helps against a DEK that leaked, and
   * after a change of `index`, `normalize` or `bits`. What was copied before stays readable with the old DEK. A row that does
   * not open, or cannot be sealed, is `failed` and loses no other.
   */
  reseal<R extends SealedShape<F>>(
    rows: Iterable<R> | AsyncIterable<R>,
    options?: RewrapOptions,
  ): AsyncGenerator<RewrapBatch<SealedRow<OpenedRow<R, F, C, H>, F, C, T, H>>, void, undefined>
  /**
   * Turns a row of envelopes into the compact form; of an envelope, what the format has is kept.
   *
   * @throws InvalidInputError when a field is no envelope, or its fields do not share a DEK
   */
  pack<R extends SealedShape<F>>(row: R): SealedRow<OpenedRow<R, F, C, H>, F, C, 'compact', H>
  /** Turns a row of the compact form into envelopes, as they were. @throws InvalidInputError without the column `header` */
  unpack<R extends SealedShape<F>>(row: R): SealedRow<OpenedRow<R, F, C, H>, F, C, 'full', H>
}

interface Typed {
  readonly '~types'?: { plain: unknown; stored: unknown }
}
/** What the application sees of a model: `PlainRow<typeof users>`. */
export type PlainRow<M extends Typed> = NonNullable<M['~types']>['plain']
/** What the application stores of a model: `StoredRow<typeof users>`. */
export type StoredRow<M extends Typed> = NonNullable<M['~types']>['stored']

/** A field with its place in a row. */
export interface PlacedField {
  name: string
  path: Path
  spec: FieldSpec
}

/** A column of a blind index, and the fields that it is made of. */
export interface IndexColumn {
  column: string
  fields: readonly PlacedField[]
  bits: number | undefined
  compound: boolean
}

/** A definition that was checked. */
export interface Definition {
  keyId: string
  /** The keys whose envelopes it opens. */
  keyIds: ReadonlySet<string>
  fields: readonly PlacedField[]
  columns: readonly IndexColumn[]
  /** The names of the fields and of the columns that are added. */
  names: ReadonlySet<string>
  format: RowFormat
  header: string
  dek: DekScope
}

/** Makes a model over one client. @throws InvalidInputError when the definition is wrong */
export function createModel(
  deps: ModelDeps,
  options: ModelOptions<Fields, Compounds<Fields>, RowFormat, string>,
): unknown {
  const definition = readDefinition(options)
  if (definition.fields.length > deps.maxMessages) {
    throw new InvalidInputError('deks.maxMessages must be at least the number of fields: those of a record share a DEK')
  }
  // What works is loaded when it is first used: a program that only opens the page does not pay for it.
  const load = async () => {
    const { createModelRows, resealRows, rewrapRows } = await loadPart(() => import('../parts.js'))
    return { rows: createModelRows(deps, definition), resealRows, rewrapRows }
  }
  const paths = definition.fields.map(({ path }) => path)
  return Object.freeze({
    encrypt: traced(async (row: Row, options?: CallOptions) => {
      const signal = readSignal('encrypt()', options)
      const taken = takeRows([row])
      const { rows } = await load()
      return (await rows.seal(taken, { signal }))[0]
    }),
    encryptMany: traced(async (list: readonly Row[], options: RowsOptions = {}) => {
      demandOptions('encryptMany()', options, ROWS_OPTIONS)
      const taken = takeRows(list)
      const { rows } = await load()
      return rows.seal(taken, options)
    }),
    decrypt: traced(async (row: Row, options?: CallOptions) => {
      const signal = readSignal('decrypt()', options)
      const { rows } = await load()
      const { ok, failed } = await rows.open([row], { signal })
      if (failed[0]) throw failed[0].error
      return ok[0]
    }),
    decryptMany: traced(async (list: readonly Row[], options: RowsOptions = {}) => {
      demandOptions('decryptMany()', options, ROWS_OPTIONS)
      const { rows } = await load()
      const { ok, failed } = await rows.open(list, options)
      return { ok, failed }
    }),
    index: traced(async (query: Row, options?: CallOptions) => {
      const signal = readSignal('index()', options)
      const asked = { ...query } // it may change before the part is there
      const { rows } = await load()
      return rows.hash(asked, signal)
    }),
    matches: (row: Row, query: Row) =>
      fieldsOf(definition, query).every((field) => {
        const value = getAt(row, field.path)
        return !isMissing(value) && indexText(field, value) === indexText(field, query[field.name])
      }),
    async *rewrap(list: Iterable<Row>, options: RewrapOptions = {}) {
      const { rewrapRows } = await load()
      yield* rewrapRows(deps, definition, list, options)
    },
    async *reseal(list: Iterable<Row>, options: RewrapOptions = {}) {
      const { rows, resealRows } = await load()
      yield* resealRows(rows, list, options)
    },
    pack: (row: Row) => packRow(row, paths, definition.header),
    unpack: (row: Row) => unpackRow(row, paths, definition.header),
  })
}

/** The text that a field's index is made of. @throws InvalidInputError */
export function indexText({ name, spec }: PlacedField, value: unknown, index = 0): string {
  const place = { index, field: name }
  spec.demand?.(value, place)
  if (!spec.toIndexText) throw new InvalidInputError(`a field of ${spec.kind} has no index`, undefined, place)
  return normalizeText(spec.toIndexText(value), spec.normalize, place)
}

/** The fields that a query names. @throws InvalidInputError when one has no index */
export function fieldsOf({ columns }: Definition, query: Row): PlacedField[] {
  if (typeof query !== 'object' || query === null) throw new InvalidInputError('a query must be an object')
  const indexed = new Map(columns.flatMap(({ fields }) => fields.map((field) => [field.name, field] as const)))
  return Object.keys(query).map((name) => {
    const field = indexed.get(name)
    if (!field) throw new InvalidInputError(`${JSON.stringify(name)} has no index`, 'Give the field an index.')
    return field
  })
}

function readDefinition(options: ModelOptions<Fields, Compounds<Fields>, RowFormat, string>): Definition {
  demandOptions('model()', options, MODEL_OPTIONS)
  const {
    keyId,
    fields: given,
    indexes = {},
    format = 'full',
    header = 'envelope',
    dek = 'shared',
    warn = true,
    formerKeyIds = [],
  } = options
  demandKeyId(keyId)
  if (!Array.isArray(formerKeyIds)) throw new InvalidInputError('formerKeyIds must be an array of ids')
  for (const one of formerKeyIds) demandKeyId(one, 'formerKeyIds')
  demandScope(dek)
  demandOptions('fields', given)
  demandNoHiddenField(given)
  demandOptions('indexes', indexes)
  if (format !== 'full' && format !== 'compact') throw new InvalidInputError('format must be "full" or "compact"')
  const fields = Object.entries(given).map(([name, field]) => {
    const path = name.split('.')
    demandFieldPath(name, path)
    if (!field?.['~spec']) {
      const message = `${JSON.stringify(name)}: expected a field, got ${kindOf(field)}`
      throw new InvalidInputError(message, 'Declare it with text(), json() and the like.')
    }
    return { name, path, spec: field['~spec'] }
  })
  if (fields.length === 0) throw new InvalidInputError('fields must hold at least one field')
  const byName = new Map(fields.map((field) => [field.name, field]))
  const inside = fieldInside(fields)
  if (inside) throw new InvalidInputError(`${JSON.stringify(inside.name)} lies inside another field`)

  const columns: IndexColumn[] = []
  for (const field of fields) {
    const { index, bits, normalize } = field.spec
    demandIndex(index ?? field.name, normalize, bits)
    if (index !== undefined) columns.push({ column: index, fields: [field], bits, compound: false })
    else if (bits !== undefined) throw new InvalidInputError(`${JSON.stringify(field.name)}: bits needs an index`)
  }
  for (const [column, compound] of Object.entries(indexes)) {
    demandOptions(`indexes.${column}`, compound, ['fields', 'bits'])
    const { fields: names, bits } = compound
    demandIndex(column, [], bits)
    if (!Array.isArray(names))
      throw new InvalidInputError(`${JSON.stringify(column)}: fields must be an array of names`)
    const parts = names.map((name) => {
      const field = byName.get(name)
      if (field?.spec.toIndexText) return field
      throw new InvalidInputError(`${JSON.stringify(column)} names ${JSON.stringify(name)}, which cannot be indexed`)
    })
    if (parts.length < 2) throw new InvalidInputError(`${JSON.stringify(column)} must name at least two fields`)
    columns.push({ column, fields: parts, bits, compound: true })
  }
  demandColumns(columns, fields, header)
  if (warn)
    for (const { column, fields } of columns)
      warnOfFewValues(
        column,
        fields.map(({ name }) => name),
      )
  const names = new Set([...byName.keys(), ...columns.map(({ column }) => column), header])
  return { keyId, keyIds: new Set([keyId, ...formerKeyIds]), fields, columns, names, format, header, dek }
}

/** Refuses a field that is inherited, not enumerable or a symbol's: nothing would seal it. @throws InvalidInputError */
function demandNoHiddenField(fields: Readonly<Record<PropertyKey, AnyField>>): void {
  const seen: PropertyKey[] = Object.keys(fields)
  for (let owner: object = fields; owner; owner = Object.getPrototypeOf(owner)) {
    const hidden = Reflect.ownKeys(owner).find((key) => !seen.includes(key) && fields[key]?.['~spec'])
    if (hidden) throw new InvalidInputError(`fields: ${String(hidden)} must be enumerable, and the object's own`)
  }
}

function demandColumns(columns: readonly IndexColumn[], fields: readonly PlacedField[], header: string): void {
  const taken = new Set(fields.map(({ path }) => path[0]))
  for (const column of [...columns.map(({ column }) => column), header]) {
    if (!isName(column)) throw new InvalidInputError('a column must have a name')
    if (taken.has(column)) {
      const hint = column === header ? 'Name another one for the compact form: `header`.' : 'Name another one.'
      throw new InvalidInputError(`the column ${JSON.stringify(column)} is taken already`, hint)
    }
    taken.add(column)
  }
}
