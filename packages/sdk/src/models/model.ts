/** Models: records of which some fields are sealed, some of them searchable; see `Client.model`. */
import { traced } from '../caller.js'
import { InvalidInputError } from '../errors.js'
import { assertOptions, isMissing, type Row, readSignal, takeRows } from '../input.js'
import { getAt } from '../records/paths.js'
import type { CallOptions } from '../resources/keys.js'
import { indexText } from './blind-index.js'
import { getQueryFields, type ModelOptions, type RowFormat, readDefinition } from './definition.js'
import type { ModelDeps, RowsOptions } from './model-deps.js'
import type { createModelRows } from './model-rows.js'
import type {
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
import type { RowsResult } from './open-rows.js'
import type { RewrapBatch, RewrapOptions, resealRows, rewrapRows } from './rotation.js'
import { packRow, unpackRow } from './rows.js'

const ROWS_OPTIONS = ['signal', 'onProgress'] satisfies (keyof RowsOptions)[]

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

interface Loaded {
  createModelRows: typeof createModelRows
  resealRows: typeof resealRows
  rewrapRows: typeof rewrapRows
}

/** Makes a model over one client. @throws InvalidInputError when the definition is wrong */
export function createModel(
  deps: ModelDeps & { load: () => Promise<Loaded> },
  options: ModelOptions<Fields, Compounds<Fields>, RowFormat, string>,
): unknown {
  const definition = readDefinition(options)
  if (definition.fields.length > deps.maxMessages) {
    throw new InvalidInputError('deks.maxMessages must be at least the number of fields: those of a record share a DEK')
  }
  // What works is loaded when it is first used: a program that only opens the page does not pay for it.
  const load = async () => {
    const { createModelRows, resealRows, rewrapRows } = await deps.load()
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
      assertOptions('encryptMany()', options, ROWS_OPTIONS)
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
      assertOptions('decryptMany()', options, ROWS_OPTIONS)
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
      getQueryFields(definition, query).every((field) => {
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
