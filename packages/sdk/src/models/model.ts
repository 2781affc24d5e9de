/** Models: records with sealed fields, some of them searchable. See `Client.model`. */
import { InvalidInputError } from '../errors.js'
import { assertOptions, copyPlain, isMissing, type Row, readSignal, takeRows } from '../input.js'
import type { RowsOptions } from '../records/blocks.js'
import { getAt } from '../records/paths.js'
import type { CallOptions } from '../resources/keys.js'
import { type Soon, traced, use } from '../waiting.js'
import { packRow, unpackRow } from './compact-rows.js'
import type { Definition, ModelOptions, RowFormat } from './definition.js'
import { pickFields, ROW_SEAL, readDefinition } from './definition.js'
import { getQueryFields, matchesQuery } from './index-columns.js'
import { keepInternals, withAccess } from './model-access.js'
import type {
  Accepted,
  Compounds,
  Extras,
  Fields,
  HolderOf,
  ModelDeps,
  NoExtras,
  OpenedRow,
  OtherColumns,
  PartialFields,
  PickedCompounds,
  PlainOf,
  PlainShape,
  Query,
  QueryColumns,
  SealedPartial,
  SealedRow,
  SealedShape,
  WholeShape,
} from './model-types.js'
import type { RowsResult } from './open-rows.js'
import type { RewrapBatch, RewrapOptions } from './rotation.js'

const ROWS_OPTIONS = ['signal', 'onProgress'] satisfies (keyof RowsOptions)[]

/** A type of record with sealed fields, made by `Client.model`. Throws the errors that `Client` lists. */
export interface Model<
  F extends Fields,
  C,
  T extends RowFormat,
  H extends string,
  P extends boolean = false,
  X extends Extras = NoExtras,
> {
  /** How many values only `acceptPlaintext` or `acceptUnbound` let it open. Remove these once a whole table leaves both counts zero. */
  readonly accepted: Accepted
  /** Only for TypeScript, see `PlainRow` and `StoredRow`. */
  readonly '~types'?: { plain: PlainOf<F>; stored: SealedRow<PlainOf<F>, F, C, T, H, X>; holder: HolderOf<F> }
  /**
   * Seals a row: returns a new one with its fields sealed and the columns of its indexes added. Other members stay.
   * Uses one request for the wrap and the indexes, or none. Copies a plain row when called, but not the bytes, Dates
   * and objects in it, nor an instance of a class: do not change those until the promise settles.
   * @throws InvalidInputError with `place` before the network is used, when a value is not of its field's type, or an
   * added column would overwrite one of the row
   * @example
   * ```ts
   * const row = await users.encrypt({ id: 7, email: 'Ada@example.org' })
   * ```
   */
  encrypt<R extends PlainShape<F> & OtherColumns>(row: R, options?: CallOptions): Promise<SealedRow<R, F, C, T, H, X>>
  /** Seals many rows. Checks all before anything is sent, and fails as a whole. Otherwise as `encrypt`. */
  encryptMany<R extends PlainShape<F> & OtherColumns>(
    rows: readonly R[],
    options?: RowsOptions,
  ): Promise<SealedRow<R, F, C, T, H, X>[]>
  /**
   * Opens a row in any form, and returns it as `encrypt` got it. Keeps an index column only if it contains something
   * else than an index. Leaves out null in an optional field, since databases store null for it. @throws
   * InvalidInputError, DecryptionError or ContentError with `place`
   */
  decrypt<R extends SealedShape<F, P> & WholeShape<F, C, X> & OtherColumns>(
    row: R,
    options?: CallOptions,
  ): Promise<OpenedRow<R, F, C, H, X>>
  /**
   * Opens many rows, with one request for all DEKs that are not cached. A row that does not open, for whatever reason,
   * is in `failed` with its index and error, and all others are still opened.
   * @throws AbortedError; InvalidInputError when `rows` is not an array; and the error of a function passed as `apiKey`
   * @example
   * ```ts
   * const { ok, failed } = await users.decryptMany(rows)
   * ```
   */
  decryptMany<R extends SealedShape<F, P> & WholeShape<F, C, X> & OtherColumns>(
    rows: readonly R[],
    options?: RowsOptions,
  ): Promise<RowsResult<OpenedRow<R, F, C, H, X>>>
  /**
   * Makes a model of some fields, to read or write only these. It binds values to the same columns, so rows also need
   * those. It does not seal some fields of an index over several, nor some fields of a row in the compact form.
   * @throws InvalidInputError for a name that is not one of the fields
   * @example
   * ```ts
   * const { email } = await users.pick('email').decrypt(row) // select id, email from users
   * ```
   */
  pick<K extends keyof F & string>(...fields: K[]): Model<Pick<F, K>, PickedCompounds<C, K>, T, H, P, X>
  /**
   * For an update of some columns: seals the fields that a row has, and adds the columns of their indexes. A field that
   * is absent or undefined stays so. Null, in a field that may be missing, is stored as null, and so is its index. An
   * empty text is sealed. Otherwise as `encrypt` of `pick`.
   * @throws InvalidInputError with `place` when a row lacks a column of `bind` for a value to seal, or has only some
   * fields of an index over several
   * @example
   * ```ts
   * const changes = await users.encryptPartial({ id: 7, email: 'ada@example.org' }) // update users set email = …, email_index = … where id = 7
   * ```
   */
  encryptPartial<R extends PlainShape<PartialFields<F>> & OtherColumns>(
    row: R,
    options?: CallOptions,
  ): Promise<SealedPartial<R, F, C, T, X>>
  /** Opens the fields that a row has, and keeps null. Otherwise as `decrypt` of `pick`. */
  decryptPartial<R extends SealedShape<PartialFields<F>, P> & OtherColumns>(
    row: R,
    options?: CallOptions,
  ): Promise<OpenedRow<R, PartialFields<F>, C, H, X>>
  /**
   * Makes the index columns by which to search rows: `{ email_index: '…' }`, in hexadecimal digits. An index over
   * several fields needs a value for each. Uses no request while the index secret is cached, and one if the service
   * takes part. `{ startsWith }` and `{ contains }` search for parts of a text, `{ gte, lt }` and the like for ranges,
   * whose column is a list for `in`. For these, and with `bits`, filter the found rows with `matches`. @throws
   * InvalidInputError when no field is named, a field has no index, or its value cannot be indexed
   */
  index<const Q extends Query<F, C>>(
    query: Q & Record<Exclude<keyof Q, keyof Query<F, C>>, never>,
    options?: CallOptions,
  ): Promise<QueryColumns<F, C, Q, X>>
  /**
   * Tells whether an opened row has these values, compared after normalisation, as indexes compare. Does not use the
   * network. For a login, build the query from strings: a value in a parsed request body may be `{ startsWith }`.
   * @throws InvalidInputError when the query names no field, a field without an index, or a part that `index` refuses
   */
  matches(row: object, query: Query<F, C>): boolean
  /**
   * Replaces rows' wrapped keys by new ones under the current version of their key. Ciphertexts and DEKs stay, and
   * current rows are returned unchanged. Helps if a key version leaked or is to be retired, but not if a DEK leaked:
   * see `reseal`. Needs `keys:read`, `wrap` and `unwrap`; writes one audit entry for each distinct wrapped key. Rows
   * sealed before a change to `dek: 'record'` share wrapped keys: each such row is an entry, preceded by a refusal.
   * @throws InvalidInputError when `rows` is not iterable, or an option is wrong. A row that fails is an item with its
   * error
   * @example
   * ```ts
   * for await (const { items } of users.rewrap(rows)) {
   *   for (const item of items) if (item.status === 'changed') await store(item.row)
   * }
   * ```
   */
  rewrap<R extends SealedShape<F, P>>(
    rows: Iterable<R> | AsyncIterable<R>,
    options?: RewrapOptions,
  ): AsyncGenerator<RewrapBatch<R>, void, undefined>
  /**
   * Opens rows and seals them again, under new DEKs, with new ciphertexts and indexes. For a change of `index`,
   * `normalize`, `bits` or `shared`, or after a leaked DEK, which still opens older copies. A row that does not open or
   * cannot be sealed is `failed`. With `acceptUnbound` and `acceptPlaintext`, such values are sealed to their row.
   */
  reseal<R extends SealedShape<F, P>>(
    rows: Iterable<R> | AsyncIterable<R>,
    options?: RewrapOptions,
  ): AsyncGenerator<RewrapBatch<SealedRow<OpenedRow<R, F, C, H, X>, F, C, T, H, X>>, void, undefined>
  /** Converts a row to the compact form. @throws InvalidInputError when a field is not an envelope, or its fields have several DEKs */
  pack<R extends SealedShape<F>>(
    row: R,
  ): SealedRow<OpenedRow<R, F, C, H, X>, F, C, T extends 'compact-text' ? T : 'compact', H, X>
  /** Converts a row from the compact form to the same envelopes. @throws InvalidInputError without the column `header` */
  unpack<R extends SealedShape<F>>(row: R): SealedRow<OpenedRow<R, F, C, H, X>, F, C, 'full', H, X>
}

type Typed = { readonly '~types'?: { plain: unknown; stored: unknown } }
/** The type of row that the application sees: `PlainRow<typeof users>`. */
export type PlainRow<M extends Typed> = NonNullable<M['~types']>['plain']
/** The type of row that the application stores: `StoredRow<typeof users>`. */
export type StoredRow<M extends Typed> = NonNullable<M['~types']>['stored']

/** The type for functions that take any model. */
export interface AnyModel {
  pick(...fields: never[]): unknown
  encryptPartial(row: never): Promise<unknown>
}

interface ClientDeps extends Omit<ModelDeps, 'accepted'> {
  hasSecret: boolean
  changesSecret: boolean
}

/** Makes a model over one client. @throws InvalidInputError when the definition is wrong */
export function createModel(
  { hasSecret, changesSecret, ...deps }: ClientDeps,
  options: ModelOptions<Fields, Compounds<Fields>, RowFormat, string, boolean, Extras>,
): unknown {
  const definition = readDefinition(options, hasSecret, changesSecret)
  if (definition.fields.length > deps.maxMessages)
    throw new InvalidInputError('deks.maxMessages must be at least the number of fields, which share a DEK')
  return modelOf({ ...deps, accepted: { plaintext: 0, unbound: 0 } }, definition)
}

function modelOf(deps: ModelDeps, definition: Definition): unknown {
  const toSeal = async (some = definition) => (await deps.loadSealing()).createModelRows(deps, some, definition)
  const toOpen = async (some = definition) => (await deps.loadOpening()).createModelRows(deps, some, definition)
  const paths = definition.fields.map(({ path }) => path)
  if (definition.rowSeal) paths.push([ROW_SEAL])
  const encryptOne = (name: string, pick: (row: Row) => Soon<Definition>) =>
    traced(async (row: Row, options?: CallOptions) => {
      const signal = readSignal(name, options)
      const taken = takeRows([row])
      const rows = await use(pick(taken[0] ?? row), toSeal)
      return (await rows.seal(taken, { signal }))[0]
    })
  const decryptOne = (name: string, pick: (row: Row) => Soon<Definition>) =>
    traced(async (row: Row, options?: CallOptions) => {
      const signal = readSignal(name, options)
      const rows = await use(pick(row), toOpen)
      const { ok, failed } = await rows.open([row], { signal })
      if (failed[0]) throw failed[0].error
      return ok[0]
    })
  const all = () => definition
  const present = async (row: Row) => (await deps.loadRare()).pickPresent(definition, row)
  const model = {
    get accepted() {
      return { ...deps.accepted }
    },
    encrypt: encryptOne('encrypt()', all),
    encryptPartial: encryptOne('encryptPartial()', present),
    encryptMany: traced(async (list: readonly Row[], options: RowsOptions = {}) => {
      assertOptions('encryptMany()', options, ROWS_OPTIONS)
      const taken = takeRows(list)
      return (await toSeal()).seal(taken, options)
    }),
    decrypt: decryptOne('decrypt()', all),
    decryptPartial: decryptOne('decryptPartial()', present),
    decryptMany: traced(async (list: readonly Row[], options: RowsOptions = {}) => {
      assertOptions('decryptMany()', options, ROWS_OPTIONS)
      const rows = await toOpen()
      const { ok, failed } = await rows.open(list, options)
      return { ok, failed }
    }),
    pick: (...fields: string[]) => modelOf(deps, pickFields(definition, fields)),
    index: traced(async (query: Row, options?: CallOptions) => {
      const signal = readSignal('index()', options)
      const asked = copyPlain(query) // the caller may change it before the code has loaded
      return (await toSeal()).hash(asked, signal)
    }),
    matches: (row: Row, query: Row) =>
      getQueryFields(definition, query).every((field) => {
        const value = getAt(row, field.path)
        return !isMissing(value) && matchesQuery(definition, field, value, query[field.name])
      }),
    async *rewrap(list: Iterable<Row>, options: RewrapOptions = {}) {
      yield* (await toOpen()).rewrap(list, options)
    },
    async *reseal(list: Iterable<Row>, options: RewrapOptions = {}) {
      yield* (await toSeal()).reseal(list, options)
    },
    pack: (row: Row) => packRow(row, paths, definition),
    unpack: (row: Row) => unpackRow(row, paths, definition.header),
  }
  const load = async (some: Definition) => {
    const { records } = await deps.loadSealing()
    some.late.rare ??= await deps.loadRare()
    return { rows: await toSeal(some), deps: { ...records, loadRare: deps.loadRare } }
  }
  const access = withAccess(model, definition, async () => {
    const [{ createAccess }, { createModelRows }] = await Promise.all([deps.loadRare(), deps.loadSealing()])
    return createAccess(deps, definition, createModelRows)
  })
  return keepInternals(Object.freeze(access), { definition, load })
}
