/** Reads and checks the definition of a model. `index-columns.ts` reads its indexes. */
import { isUuid } from '@eaas/protocol'
import { InvalidInputError } from '../errors.js'
import type { DekScope, Row } from '../input.js'
import {
  assertArray,
  assertFlag,
  assertFormat,
  assertKeyId,
  assertOneOf,
  assertOptions,
  assertScope,
  isMissing,
  isName,
  kindOf,
} from '../input.js'
import type { Path, RecordField } from '../records/paths.js'
import { assertFieldPath, assertNoneInside, fieldInside, getAt, withValues } from '../records/paths.js'
import type { FieldCode } from './fields.js'
import { assertByService, assertColumns, type IndexColumn, readIndexColumns } from './index-columns.js'
import type { IndexBy, IndexSource, NamedKey } from './index-source.js'
import { createNamedKey, optionsOf, readIndexSource, readKeyName } from './index-source.js'
import type { AnyField, Compounds, Extras, Fields, KnownOptions, NoExtras } from './model-types.js'
import type * as RareRows from './rare-rows.js'

export type RowFormat = 'full' | 'compact' | 'text' | 'compact-text'
const FORMATS: readonly RowFormat[] = ['full', 'compact', 'text', 'compact-text']

export function isTextFormat(format: RowFormat): boolean {
  return format.endsWith('text')
}

export function isCompactFormat(format: RowFormat): boolean {
  return format.startsWith('compact')
}
const MODEL_OPTIONS =
  'name key keyId formerKeyIds fields index formerIndex indexes bind envelope sealed acceptUnbound acceptPlaintext format header dek warn'.split(
    ' ',
  )
/** bindings.md 4 */
export const ROW_SEAL = 'row_seal'
/** The most pairs of a context (envelope-v2.md 3), without those of the model and the field. */
const MAX_BIND_COLUMNS = 30
type Options = ModelOptions<Fields, Compounds<Fields>, RowFormat, string, boolean, Extras>

/** The options of a model. Values are bound to the model's name, so it needs one unless it writes format v1. */
export type ModelOptions<
  F extends Fields,
  C extends Compounds<F>,
  T extends RowFormat,
  H extends string,
  P extends boolean = false,
  X extends Extras = NoExtras,
> = SharedOptions<F, C, T, H, P, X['former']> & KeyOptions & (UnboundOptions | BoundOptions<X['seal']>) // an error names what the last one lacks

/** Options of a model that writes format v2 (bindings.md 1). */
export interface BoundOptions<S extends 'row' | undefined = 'row' | undefined> {
  /** The model's name, such as its table's. Values are bound to it and do not open under another. Never change it. */
  name: string
  /**
   * Columns that identify a row, such as `['id']`; a dot leads into an object. Values are also bound to them, so a
   * value moved to another row does not open. Each row must have them, as text or whole numbers, before it is sealed,
   * and they never change. With `false`, anyone who can write to the table can exchange the values of two rows.
   */
  bind: readonly string[] | false
  /** The format in which envelopes are written and read: 2 by default. */
  envelope?: 2 | undefined
  /**
   * `'row'` adds the column `row_seal`, which binds the row as a whole: it does not open if a cell was set to null or
   * to an older value, or an index was exchanged. Needs `bind`. Rows must be written and read with all columns.
   */
  sealed?: S | undefined
  /** `true` also opens values of format v1 and rows without a seal. Only for a migration; `accepted` counts them. */
  acceptUnbound?: boolean | undefined
}

/** Options of a model that writes format v1, for clients in other languages. Its values can be exchanged. */
export interface UnboundOptions {
  /** The format that clients in other languages also read. */
  envelope: 1
  /** Only for messages: no value is bound to it. */
  name?: string | undefined
  /** Needs format v2. */
  bind?: false | undefined
  /** Needs format v2. */
  sealed?: undefined
  /** Needs format v2. */
  acceptUnbound?: undefined
}

/** The key under which a model seals: one by name, one by id, or one for each row. */
export type KeyOptions = KeyByName | KeyById

export interface KeyByName {
  /**
   * The name of the key under which all fields are sealed. The model looks it up when first used, and creates a missing
   * one at the first write or search: the API key needs `keys:read`, and `keys:create` if the key may be missing.
   */
  key: string
  /** Not with `key`. */
  keyId?: undefined
}

export interface KeyById {
  /** Not with `keyId`. */
  key?: undefined
  /**
   * The `id` of the key under which all fields are sealed. Or a function that returns the id of each row's own key, so
   * that destroying it makes one person's data unreadable: see the page on deleting a person's data. It gets the row,
   * stored or not, without its fields and the columns that the model adds: `(row) => row.key_id`. It must read all its
   * columns before it decides by one. Another row's key does not open. Indexes then need the key of `index`.
   */
  keyId: string | ((row: Readonly<Record<string, unknown>>) => unknown)
}

interface SharedOptions<
  F extends Fields,
  C extends Compounds<F>,
  T extends RowFormat,
  H extends string,
  P extends boolean,
  O extends Readonly<Record<string, string>>,
> {
  /**
   * The ids of keys under which rows were sealed before. The model still opens these, and `reseal` seals them under its
   * key. Envelopes of any other key are refused, since an attacker who can write could have put them there.
   */
  formerKeyIds?: readonly string[] | undefined
  /** The fields to seal, by name; a dot leads into an object: `'address.street'`. */
  fields: F
  /**
   * What makes the model's indexes. By default this process does: no value leaves it, and once it has the secret, a
   * search needs no request. The service makes `shared` columns and, with `envelope: 1`, all.
   */
  index?: IndexBy | undefined
  /**
   * For a change of `index`: what made the indexes before and, by index column, the column that keeps the former index.
   * What is not stated is as in `index`, except that `generation` is 1. The model writes both columns, and `index`
   * returns both: search for either. Not with `sealed: 'row'`.
   */
  formerIndex?: (IndexBy & { readonly columns: O }) | undefined
  /**
   * Indexes over several fields, by column. A search needs all their values, which are normalised as the fields say and
   * joined with their lengths in front, so that different values never give the same text. Also `{ prefix: field,
   * length }`, to search for the first characters of a text, and `{ ngram: field, length }`, for a part of it.
   */
  indexes?: (C & KnownOptions<C>) | undefined
  /**
   * `full`, the default, stores an envelope in each field. `compact` stores what a record's envelopes share once, in
   * the column `header`, and `{ c, i }` (ciphertext and iv) in the fields. `text` stores each envelope as text
   * (`toText`), for text columns, and `compact-text` the compact form as text. Whichever it writes, the model reads all
   * forms.
   */
  format?: T | undefined
  /**
   * `true` also opens rows in which some fields are not sealed yet. Only for a migration: an attacker who can write to
   * the table can then put any value there. A value that looks like an envelope is never accepted as plaintext.
   * `accepted` of the model counts the accepted values, and the first one logs a warning.
   */
  acceptPlaintext?: P | undefined
  /** The compact form's column; `envelope` by default. */
  header?: H | undefined
  /** Which DEK seals: the key's (`shared`, the default), one for each `call`, or one for each `record`. */
  dek?: DekScope | undefined
  /** `false` silences the warnings about an index over few possible values, and about values that are not sealed. */
  warn?: boolean | undefined
}

export interface PlacedField extends RecordField {
  spec: FieldCode
}

/** UTF-8 never contains this byte, so it can mark where padding begins (codecs.md 1). */
export const PADDING = 0xff
const asItIs = (bytes: unknown) => bytes as Uint8Array

/** The seal as a field, with an empty value. */
export const SEAL_FIELD: PlacedField = {
  name: ROW_SEAL,
  path: [ROW_SEAL],
  spec: { kind: 'bytes', missing: [], normalize: [], assert: asItIs, encode: asItIs, decode: asItIs },
}

export interface Definition {
  name: string
  named: NamedKey | undefined
  /** Returns a row's key. `index` is for errors; `watch` wraps the row that the application's function gets. */
  keyOf: (row: Row, index: number, watch?: (plain: Row) => Row) => string
  keyByRow: boolean
  envelope: 1 | 2
  bind: readonly RecordField[]
  rowSeal: boolean
  acceptUnbound: boolean
  acceptPlaintext: boolean
  /** Whether plaintext is already a value, from a reader of the maintenance, and not a column's text. */
  plainIsRead?: boolean | undefined
  /** The ids of the keys whose envelopes the model opens in any row. */
  keyIds: ReadonlySet<string>
  fields: readonly PlacedField[]
  columns: readonly IndexColumn[]
  /** The complete definition, if this one has only some fields: see `pickFields`. */
  whole?: Definition
  names: ReadonlySet<string>
  format: RowFormat
  header: string
  dek: DekScope
  warn: boolean
  /** Whether the client has a secret, with which all values are then sealed. */
  hasSecret: boolean
  /** What is loaded once a row needs it, shared by all definitions derived from this one. */
  late: { rare?: Rare }
}

export type Rare = typeof RareRows

/** `changesSecret`: the former indexes have another secret, or none. @throws InvalidInputError naming what is wrong */
export function readDefinition(options: Options, hasSecret = false, changesSecret = false): Definition {
  assertOptions('model()', options, MODEL_OPTIONS)
  const {
    key: name,
    fields: given,
    indexes = {},
    format = 'full',
    header = 'envelope',
    dek = 'shared',
    warn = true,
    formerKeyIds = [],
    acceptPlaintext = false,
  } = options
  const byName = name === undefined ? undefined : readKeyName(options)
  const keyId = byName === undefined ? options.keyId : undefined
  const keyByRow = typeof keyId === 'function'
  if (!keyByRow && byName === undefined) assertKeyId(keyId)
  assertArray('formerKeyIds', formerKeyIds)
  for (const one of formerKeyIds) assertKeyId(one, 'formerKeyIds')
  assertScope(dek)
  assertFlag('acceptPlaintext', acceptPlaintext)
  const binding = readBinding(options, hasSecret)
  assertOptions('fields', given)
  assertNoHiddenField(given)
  assertOptions('indexes', indexes)
  assertOneOf('format', format, FORMATS)
  const fields = Object.entries(given).map(([name, field]) => {
    const path = name.split('.')
    assertFieldPath(name, path)
    const spec = field?.['~spec'] as FieldCode | undefined
    if (!spec) {
      const message = `${JSON.stringify(name)}: expected a field, got ${kindOf(field)}`
      throw new InvalidInputError(message, 'Declare it with text(), json() and the like.')
    }
    return { name, path, spec: binding.envelope === 1 ? withoutPad(name, spec) : spec }
  })
  if (fields.length === 0) throw new InvalidInputError('fields must have at least one field')
  assertNoneInside(fields)

  const added = binding.rowSeal ? [header, ROW_SEAL] : [header]
  const made = readIndexColumns({ fields, indexes })
  const columns = withSources(options, made, changesSecret) // adapters search by the first, which all rows have
  assertColumns(columns, fields, added)
  const names = new Set([...fields.map(({ name }) => name), ...columns.map(({ column }) => column), ...added])
  assertBind(binding.bind, fields, names)
  const keyIds = new Set(typeof keyId === 'string' ? [keyId, ...formerKeyIds] : formerKeyIds)
  const named = byName === undefined ? undefined : createNamedKey(byName, keyIds)
  assertByService(columns, { model: binding.name, hasSecret })
  const unkeyed = keyByRow && columns.find(({ source }) => !source.keyId && !source.named)
  if (unkeyed) {
    const message = `the index ${JSON.stringify(unkeyed.column)} needs a key: each row has another key`
    throw new InvalidInputError(message, 'Name one that all rows share: index: { key: … }.')
  }
  const keyOf = keyByRow ? keyOfRow(keyId, fields, names) : () => named?.id ?? (keyId as string)
  return {
    ...{ ...binding, named, keyOf, keyByRow, keyIds, acceptPlaintext },
    ...{ fields, columns, names, format, header, dek, warn, hasSecret, late: {} },
  }
}

/** Removes the padding of `boolean()`, which readers of format v1 do not know. @throws InvalidInputError for another `pad` */
function withoutPad(name: string, { pad, ...spec }: FieldCode): FieldCode {
  if (pad !== undefined && spec.kind !== 'boolean')
    throw new InvalidInputError(`${JSON.stringify(name)}: pad needs envelope 2`)
  return spec
}

/** Shows the application's function only what is stored in plain: it is the same before and after sealing, and no plaintext of a field. */
function keyOfRow(find: (row: Row) => unknown, fields: readonly PlacedField[], names: ReadonlySet<string>) {
  return (row: Row, index: number, watch = (plain: Row) => plain): string => {
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
      keyId = find(watch(plain))
      got = kindOf(keyId)
    } catch {
      // Refused below: an error of the application may quote the row.
    }
    if (typeof keyId === 'string' && isUuid(keyId)) return keyId
    const hint = 'Store it in a column of each row, and read its column too.'
    throw new InvalidInputError(`keyId() must return the id of a key, a UUID, got ${got}`, hint, place)
  }
}

function withSources(
  { index = {}, formerIndex, name: model = '', envelope, sealed, key, keyId }: Options,
  made: readonly Omit<IndexColumn, 'source'>[],
  changesSecret: boolean,
): IndexColumn[] {
  assertOptions('index', index, optionsOf(index?.by))
  const { by = 'service', generation = 1 } = index
  const allShared = made.every(({ shared }) => shared)
  if (
    (envelope === 1 || (allShared && made.length > 0)) &&
    (by !== 'service' || generation !== 1 || formerIndex !== undefined)
  )
    throw new InvalidInputError('generation, local, oblivious and formerIndex need envelope 2 and an index not shared')
  const isService = envelope === 1 || index.by === 'service' || allShared
  const source = readIndexSource('index', index, { model, isService })
  const service = isService ? source : { ...source, secret: undefined }
  const now = made.map((one) => ({ ...one, source: one.shared ? service : source }))
  if (formerIndex === undefined) return now

  const from = formerIndex?.by ?? index.by
  assertOptions('formerIndex', formerIndex, [...optionsOf(from), 'columns'])
  if (sealed)
    throw new InvalidInputError('formerIndex needs a model without `sealed`', 'Reseal rows with a seal instead.')
  const { columns, ...own } = formerIndex
  const unshared = now.filter(({ shared }) => !shared)
  assertOptions(
    'formerIndex.columns, none of them shared,',
    columns,
    unshared.map(({ column }) => column),
  )
  const given =
    own.key || own.keyId
      ? own
      : { ...index, generation: 1, ...own, key: own.key ?? index.key, keyId: own.keyId ?? index.keyId }
  const former = readIndexSource('formerIndex', { ...given, by: from }, { model, isFormer: true })
  const told = (one: IndexSource) => [one.secret, one.oblivious, one.keyId ?? one.named?.name ?? keyId ?? key].join()
  if (!own.by && !changesSecret && told(former) === told(source))
    throw new InvalidInputError('formerIndex: it is as `index`', 'State its by, generation or key.')
  const before = unshared.flatMap((one) => {
    const column = columns[one.column]
    return column === undefined ? [] : [{ ...one, column, source: former }]
  })
  return [...before, ...now]
}

function readBinding(options: BoundOptions | UnboundOptions, hasSecret: boolean) {
  const { name = '', envelope = 2, bind: given, sealed, acceptUnbound = false } = options
  assertFormat({ envelope }, hasSecret)
  assertFlag('acceptUnbound', acceptUnbound)
  if (envelope === 2 && (given === undefined || (given && given.length === 0))) {
    const hint = "Name the columns that identify a row: ['id']. Or pass false: rows can then exchange its values."
    throw new InvalidInputError('bind is missing', hint)
  }
  const bind = given || []
  const isList = Array.isArray(bind) && bind.length <= MAX_BIND_COLUMNS && new Set(bind).size === bind.length
  if (!isList || !bind.every((column) => isName(column) && column.split('.').every(isName))) {
    const message = `bind must list at most ${MAX_BIND_COLUMNS} columns, each once`
    throw new InvalidInputError(message, "Pass a list of names: ['id'].")
  }
  if (envelope === 1 && (bind.length > 0 || acceptUnbound))
    throw new InvalidInputError('bind and acceptUnbound need envelope 2')
  if (sealed !== undefined) assertOneOf('sealed', sealed, ['row'])
  if (sealed && bind.length === 0)
    throw new InvalidInputError('sealed needs bind', 'Rows that are bound to no column could be exchanged as a whole.')
  if (typeof name !== 'string' || (envelope === 2 && name === ''))
    throw new InvalidInputError('a model must have a name', 'Values are bound to it, except with `envelope: 1`.')
  const columns = bind.map((column) => ({ name: column, path: column.split('.') }))
  return { name, envelope, bind: columns, rowSeal: sealed !== undefined, acceptUnbound }
}

/** Refuses a column that sealing changes: values are bound only to what stays in plain. @throws InvalidInputError */
function assertBind(bind: readonly RecordField[], fields: readonly PlacedField[], names: ReadonlySet<string>): void {
  const wrong = bind.find(
    (column) => names.has(column.name) || names.has(column.path[0] ?? '') || fieldInside([...fields, column]),
  )
  if (wrong) throw new InvalidInputError(`bind: ${JSON.stringify(wrong.name)} is sealed, or made by the model`)
}

type GivenFields = Readonly<Record<PropertyKey, AnyField>>

/** Refuses an inherited, hidden or symbol field, since it would not be sealed. @throws InvalidInputError */
function assertNoHiddenField(fields: GivenFields): void {
  const seen: PropertyKey[] = Object.keys(fields)
  for (let owner: object = fields; owner; owner = Object.getPrototypeOf(owner)) {
    const hidden = Reflect.ownKeys(owner).find((key) => !seen.includes(key) && memberOf(fields, owner, key)?.['~spec'])
    if (hidden) throw new InvalidInputError(`fields: ${String(hidden)} must be enumerable, and the object's own`)
  }
}

/** Does not call the accessor `__proto__`, which throws under `node --disable-proto=throw`. */
function memberOf(fields: GivenFields, owner: object, key: PropertyKey): AnyField | undefined {
  return key === '__proto__' ? Object.getOwnPropertyDescriptor(owner, key)?.value : fields[key]
}

/** Picks some fields, and the indexes made only from these. @throws InvalidInputError for an unknown one */
export function pickFields(definition: Definition, names: readonly string[]): Definition {
  const isPicked = ({ name }: { name: string }) => names.includes(name)
  const fields = definition.fields.filter(isPicked)
  const unknown = names.find((name) => !fields.some((field) => field.name === name))
  if (unknown !== undefined) throw new InvalidInputError(`the model has no field ${JSON.stringify(unknown)}`)
  const columns = definition.columns.filter((column) => column.fields.every(isPicked))
  return { ...definition, fields, columns, whole: definition.whole ?? definition }
}

export function isNothing(missing: readonly unknown[], value: unknown): boolean {
  return isMissing(value) && missing.includes(value)
}
