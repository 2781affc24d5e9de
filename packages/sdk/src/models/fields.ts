/** The kinds of fields, with their bytes (codecs.md) and index texts. Bundlers drop those that are not used. */
import { encodeUtf8 } from '@eaas/protocol'
import { ContentError, InvalidInputError, type RecordPlace } from '../errors.js'
import {
  assertOneOf,
  assertOptions,
  assertValue,
  assertWhole,
  type Bytes,
  isMissing,
  isObject,
  isoText,
  isValidDate,
  kindOf,
  readBinary,
  readValue,
  toText,
} from '../input.js'
import type * as Json from '../json.js'
import type { PlacedField } from './definition.js'
import type { FieldRange, Normalizer } from './index-columns.js'
import type { Bucketing } from './index-texts.js'

/**
 * A field of a model. `T` is the type that the application sees; `M` stands for a missing value, which is stored
 * unchanged; `I` is the column of the blind index; `X` tells whether an index over several fields can include it.
 */
export interface Field<T, M = never, I extends string = never, X extends boolean = boolean> {
  /** Allows the field to be missing or undefined. */
  optional(): Field<T, M | undefined, I, X>
  /** Allows null, which is stored as null. */
  nullable(): Field<T, M | null, I, X>
  readonly '~types'?: { value: T; missing: M; index: I; joinable: X }
  /** @internal */
  readonly '~spec': FieldSpec
}

/** Each is named after the function that makes it. */
export type FieldKind = 'text' | 'bytes' | 'json' | 'number' | 'boolean' | 'date'

/**
 * The content of a field's `'~spec'`, exported so that an application can name it. Make fields with `text()` and the
 * like: any version may change these members.
 */
export interface FieldSpec {
  kind: FieldKind
  missing: readonly (null | undefined)[]
  index?: string | undefined
  /** Steps that change a value, in this order, before its index is made. */
  normalize: readonly Normalizer[]
  /** How many bits of the index are kept, 4 to 256; undefined: all of them. */
  bits?: number | undefined
  /** Whether the index is the hash of the text alone, without the names of the model and the column. */
  shared?: boolean | undefined
  /** The buckets, if the index reveals only a value's bucket; if undefined, it reveals which values are equal. */
  range?: Bucketing | undefined
  /** The multiple of bytes to which values are padded before they are sealed (codecs.md 1). */
  pad?: number | undefined
  assert(value: unknown, place: RecordPlace): void
  /** Returns a value's text for its blind index, before normalisation. Missing for kinds without an index. */
  toIndexText?(value: unknown): string
}

export interface FieldCode extends FieldSpec {
  assert(value: unknown, place: RecordPlace, json?: WriteJson): void
  encode(value: unknown, place: RecordPlace, json: WriteJson): Uint8Array
  /** Reads opened bytes. @throws ContentError */
  decode(opened: Uint8Array, place: RecordPlace): unknown
  readRange?: typeof readRange
}

export type WriteJson = Pick<typeof Json, 'assertJsonValue' | 'encodeJson'>

export interface IndexOptions {
  /**
   * The column of the blind index, for searches by exact value. Anyone who reads the column learns which rows have the
   * same value. They can also test guesses if they have an API key that may `unwrap`, or `hash` for an index in which
   * the service takes part, and, if the client has one, the application's `secret`. So do not index data with few
   * possible values.
   */
  index?: string | undefined
  /** How many bits are kept, 4 to 256; all by default. Fewer reveal less and find more rows: decrypt and filter these with `matches`. */
  bits?: number | undefined
  /**
   * `true` makes the index of the value alone, as clients in other languages do (`POST /v1/hash` of the normalised
   * text). So equal values have equal indexes in all shared columns under a key, and tables can be joined by them. By
   * default the names of the model and the column are also hashed. The service makes a shared index.
   */
  shared?: boolean | undefined
}

export interface PadOptions {
  /**
   * Values are padded to a multiple of this many bytes, 2 to 65,536, before they are sealed, so that their length
   * reveals less. May be changed: padded and unpadded values are both read. Not with `envelope: 1`.
   */
  pad?: number | undefined
}

export interface NumberOptions extends IndexOptions, PadOptions {
  /**
   * Indexes buckets of `step` numbers, for searches by range. The index reveals which rows are in the same bucket, but
   * no order. The service cannot make it. Filter the found rows with `matches`.
   */
  range?: { readonly step: number } | undefined
}

export interface DateOptions extends IndexOptions {
  /**
   * Indexes the day, month or year in UTC, for searches by range. The index reveals which rows have the same one, but
   * no order. The service cannot make it. Filter the found rows with `matches`.
   */
  range?: 'day' | 'month' | 'year' | undefined
}

export interface TextOptions extends IndexOptions, PadOptions {
  /** Steps that change a value, in this order, before its index is made. The sealed value stays. */
  normalize?: readonly Normalizer[] | undefined
}

const MAX_PAD_BYTES = 65_536
/** Enough for `true` and `false`, so that both are sealed to the same length. */
const BOOLEAN_PAD_BYTES = 8
const INDEX_OPTIONS = ['index', 'bits', 'shared'] satisfies (keyof IndexOptions)[]

// Only `I` is inferred: if the options had a type parameter, an unknown option would compile.

/** Text, sealed as UTF-8. */
export function text<const I extends string = never>(
  options?: TextOptions & { readonly index?: I | undefined },
): Field<string, never, NoInfer<I>, true> {
  return createField({
    ...readOptions('text', [...INDEX_OPTIONS, 'normalize', 'pad'], options),
    assert(value, place) {
      if (typeof value !== 'string') refuse('text', value, place)
      assertValue(value, place)
    },
    encode: readValue,
    decode: toText,
    toIndexText: (value) => value as string,
  })
}

/** Bytes, sealed unchanged: an ArrayBuffer, or any view of one. */
export function bytes(options?: Record<string, never>): Field<Bytes, never, never, false> {
  return createField({
    ...readOptions('bytes', [], options),
    assert(value, place) {
      if (!readBinary(value)) refuse('bytes', value, place)
      assertValue(value, place)
    },
    encode: readValue,
    decode: (opened) => opened,
  })
}

/** A value that JSON represents without loss, as for `encryptJson`. `T` is not checked when it is opened. */
export function json<T>(options?: PadOptions): Field<T, never, never, false> {
  return createField({
    ...readOptions('json', ['pad'], options),
    assert: (value, place, json) => json?.assertJsonValue(value, place),
    encode: (value, place, json) => json.encodeJson(value, place),
    decode: (opened, place) => parse(opened, place, 'JSON', (read) => JSON.parse(read)),
  })
}

/** A finite number, sealed as its shortest decimal text, as JavaScript prints it. */
export function number<const I extends string = never>(
  options?: NumberOptions & { readonly index?: I | undefined },
): Field<number, never, NoInfer<I>, true> {
  return createField({
    ...readOptions('number', [...INDEX_OPTIONS, 'pad', 'range'], options),
    assert: (value, place) => {
      if (typeof value !== 'number' || !Number.isFinite(value)) refuse('a finite number', value, place)
    },
    encode: (value) => encodeUtf8(printNumber(value)),
    decode: (opened, place) =>
      parse(opened, place, 'a number', (read) => canonical(read, finite(Number(read)), printNumber)),
    toIndexText: (value) => String(value), // -0 and 0 are equal, and both give '0'
    readRange,
  })
}

/** Sealed as its word, padded to 8 bytes except with `envelope: 1`. Its length, or an index, would reveal the value. */
export function boolean(options?: Record<string, never>): Field<boolean, never, never, false> {
  return createField({
    ...readOptions('boolean', [], options),
    pad: BOOLEAN_PAD_BYTES,
    assert(value, place) {
      if (typeof value !== 'boolean') refuse('true or false', value, place)
    },
    encode: (value) => encodeUtf8(String(value)),
    decode: (opened, place) =>
      parse(opened, place, 'true or false', (read) => canonical(read, read === 'true', String)),
  })
}

/** A Date, or an instance of a subclass, sealed as ISO 8601 text with milliseconds, in UTC. */
export function date<const I extends string = never>(
  options?: DateOptions & { readonly index?: I | undefined },
): Field<Date, never, NoInfer<I>, true> {
  return createField({
    ...readOptions('date', [...INDEX_OPTIONS, 'range'], options),
    assert: (value, place) => {
      if (!isValidDate(value)) refuse('a valid Date', value, place)
    },
    encode: (value) => encodeUtf8(isoText(value as Date)),
    decode: (opened, place) => parse(opened, place, 'a date', (read) => canonical(read, new Date(read), isoText)),
    toIndexText: (value) => isoText(value as Date),
    readRange,
  })
}

function readOptions(
  kind: FieldKind,
  known: readonly string[],
  options: TextOptions & { range?: Bucketing | undefined } = {},
) {
  assertOptions(`${kind}()`, options, known)
  if (options.pad !== undefined) assertWhole(`${kind}(): pad`, options.pad, 2, MAX_PAD_BYTES)
  const { range } = options
  if (range !== undefined && kind === 'date') assertOneOf('date(): range', range, ['day', 'month', 'year'])
  if (range !== undefined && kind === 'number') assertStep(range)
  return { ...options, kind }
}

function assertStep(range: unknown): void {
  assertOptions('number(): range', range, ['step'])
  const { step } = range as { step?: unknown }
  if (typeof step === 'number' && step > 0 && Number.isFinite(step)) return
  throw new InvalidInputError('number(): range.step must be a number above 0')
}

function createField<T, I extends string, X extends boolean>(
  spec: Omit<FieldCode, 'missing' | 'normalize'> & { [K in 'missing' | 'normalize']?: FieldSpec[K] | undefined },
): Field<T, never, I, X> {
  const { missing = [], normalize = [] } = spec
  const field = {
    '~spec': { __proto__: null, ...spec, missing, normalize }, // inherits no option
    optional: () => createField({ ...spec, missing: [...missing, undefined] }),
    nullable: () => createField({ ...spec, missing: [...missing, null] }),
  }
  return Object.freeze(field) as unknown as Field<T, never, I, X> // the types that callers see are the builders'
}

function refuse(expected: string, value: unknown, place: RecordPlace): never {
  throw new InvalidInputError(`expected ${expected}, got ${kindOf(value)}`, hintFor(value), place)
}

function hintFor(value: unknown): string {
  if (isMissing(value)) return `Give it, or declare the field ${value === null ? 'nullable' : 'optional'}().`
  const isSealed = Object(value).ciphertext !== undefined
  return isSealed
    ? 'Decrypt it first: it is encrypted already.'
    : 'Correct the value, or declare the field as another kind.'
}

/** Reads `{ gte, lt }` and the like; undefined for a single value. @throws InvalidInputError for an invalid range */
function readRange(field: PlacedField, value: unknown): FieldRange | undefined {
  const { range } = field.spec
  if (!isObject(value) || isValidDate(value)) return undefined
  const name = JSON.stringify(field.name)
  if (!range) throw new InvalidInputError(`${name} is not indexed for ranges`, 'Declare `range` of the field.')
  assertOptions(name, value, ['gte', 'gt', 'lte', 'lt'])
  const { gte, gt, lte, lt } = value as Record<'gte' | 'gt' | 'lte' | 'lt', Date | number | undefined>
  const [lower, tooLow] = gte === undefined ? [gt] : [gte, gt]
  const [upper, tooHigh] = lte === undefined ? [lt] : [lte, lt]
  if (lower === undefined || upper === undefined || tooLow !== undefined || tooHigh !== undefined) {
    const isOne = lower !== upper && tooLow === undefined && tooHigh === undefined
    const [bound, such] = upper === undefined ? ['lt', 'a value above the greatest'] : ['gte', 'the least value']
    throw new InvalidInputError(
      `${name}: a range has one lower and one upper bound`,
      `Give ${isOne ? `${bound} too, such as ${such}` : 'both'}: as { gte, lt }, or in an ORM by two conditions.`,
    )
  }
  for (const bound of [lower, upper]) field.spec.assert(bound, { index: 0, field: field.name })
  const openAbove = lte === undefined
  const has = (value: number) => {
    const isAbove = gte === undefined ? value > Number(lower) : value >= Number(lower)
    return isAbove && (openAbove ? value < Number(upper) : value <= Number(upper))
  }
  return { lower, upper, openAbove, has }
}

const printNumber = (value: unknown) => (Object.is(value, -0) ? '-0' : String(value))

// Without the parsers' errors, which quote the text.
function parse<T>(opened: Uint8Array, place: RecordPlace, expected: string, read: (text: string) => T): T {
  const content = toText(opened, place)
  try {
    return read(content)
  } catch {
    const hint = 'Declare the field as the kind that was encrypted.'
    throw new ContentError(`the decrypted value is not ${expected}`, hint, place)
  }
}

function canonical<T>(read: string, value: T, print: (value: T) => string): T {
  if (print(value) !== read) throw new Error('not canonical')
  return value
}

function finite(value: number): number {
  if (!Number.isFinite(value)) throw new Error('not finite')
  return value
}
