/** The kinds of fields that a model seals: how a value becomes bytes, and which blind index it has. */
import { encodeUtf8 } from '@eaas/protocol'
import { ContentError, InvalidInputError, type RecordPlace } from '../errors.js'
import { type Bytes, demandValue, kindOf, readJson, readValue, toText } from '../input.js'
import type { Normalizer } from './blind-index.js'

/**
 * A field of a model. `T` is what the application sees; `M` what stands for no value, and is stored as it is; `I` the column
 * of its blind index; `X` whether it can be part of an index of several fields.
 */
export interface Field<T, M = never, I extends string = never, X extends boolean = boolean> {
  /** Allows the field to be missing or undefined. */
  optional(): Field<T, M | undefined, I, X>
  /** Allows null, which is stored as null. */
  nullable(): Field<T, M | null, I, X>
  /** For TypeScript only. */
  readonly '~types'?: { value: T; missing: M; index: I; joinable: X }
  /** @internal */
  readonly '~spec': FieldSpec
}

/** @internal How a field works, without its types. */
export interface FieldSpec {
  kind: string
  missing: readonly (null | undefined)[]
  index?: string | undefined
  normalize: readonly Normalizer[]
  bits?: number | undefined
  /** Refuses a value that cannot be sealed. */
  demand(value: unknown, place: RecordPlace): void
  encode(value: unknown, place: RecordPlace): Uint8Array
  decode(bytes: Uint8Array, place: RecordPlace): unknown
  /** The text that a blind index is made of, before it is normalised; undefined where there is none. */
  toIndexText?(value: unknown): string
}

export interface IndexOptions {
  /**
   * The column for the blind index, by which rows are found again by the exact value. Whoever reads the column learns which
   * rows have the same value, and whoever may call `hash` can guess values: do not index what has few possible values.
   */
  index?: string | undefined
  /**
   * Keeps only so many bits of the index, 4 to 256: several values then share one, which tells less of them, and what is
   * found must be filtered with `matches` once it is decrypted.
   */
  bits?: number | undefined
}

export interface TextOptions extends IndexOptions {
  /** What is done to a value, in this order, before its index is made. What is sealed stays as it is. */
  normalize?: readonly Normalizer[] | undefined
}

/** The column that options name; from the options, since from what a model expects TypeScript would infer any text. */
type ColumnOf<O> = O extends { readonly index: infer I extends string } ? I : never

/** Text, sealed as its UTF-8 bytes. */
export function text<const O extends TextOptions>(options?: O): Field<string, never, ColumnOf<O>, true> {
  return makeField({
    kind: 'text',
    ...indexOf(options),
    demand(value, place) {
      if (typeof value !== 'string') refuse('text', value, place)
      demandValue(value, place)
    },
    encode: readValue,
    decode: toText,
    toIndexText: (value) => value as string,
  })
}

/** Bytes, sealed as they are. */
export function bytes(): Field<Bytes, never, never, false> {
  return makeField({
    kind: 'bytes',
    demand(value, place) {
      if (!(value instanceof Uint8Array)) refuse('a Uint8Array', value, place)
      demandValue(value, place)
    },
    encode: readValue,
    decode: (opened) => opened,
  })
}

/** A value that JSON can hold, sealed as its JSON text. `T` is not checked when it is read. */
export function json<T>(): Field<T, never, never, false> {
  return makeField({
    kind: 'json',
    demand: (value, place) => demandValue(readJson(value, place), place),
    encode: (value, place) => readValue(readJson(value, place), place),
    decode: (opened, place) => parse(opened, place, 'JSON', (read) => JSON.parse(read)),
  })
}

/** A finite number, sealed as its shortest decimal text, as JavaScript prints it. */
export function number<const O extends IndexOptions>(options?: O): Field<number, never, ColumnOf<O>, true> {
  const print = (value: unknown) => (Object.is(value, -0) ? '-0' : String(value))
  return makeField({
    kind: 'number',
    ...indexOf(options),
    demand: (value, place) => {
      if (typeof value !== 'number' || !Number.isFinite(value)) refuse('a finite number', value, place)
    },
    encode: (value) => encodeUtf8(print(value)),
    decode: (opened, place) => parse(opened, place, 'a number', (read) => canonical(read, finite(Number(read)), print)),
    toIndexText: (value) => String(value), // without the sign of -0, which equals 0
  })
}

/** `true` or `false`, sealed as that word. It has no index: two values would be told apart at sight. */
export function boolean(): Field<boolean, never, never, false> {
  return makeField({
    kind: 'boolean',
    demand: (value, place) => {
      if (typeof value !== 'boolean') refuse('true or false', value, place)
    },
    encode: (value) => encodeUtf8(String(value)),
    decode: (opened, place) =>
      parse(opened, place, 'true or false', (read) => canonical(read, read === 'true', String)),
  })
}

/** A Date, sealed as its ISO 8601 text with milliseconds, UTC. */
export function date<const O extends IndexOptions>(options?: O): Field<Date, never, ColumnOf<O>, true> {
  const print = (value: unknown) => (value as Date).toISOString()
  return makeField({
    kind: 'date',
    ...indexOf(options),
    demand: (value, place) => {
      if (!(value instanceof Date) || Number.isNaN(value.getTime())) refuse('a valid Date', value, place)
    },
    encode: (value) => encodeUtf8(print(value)),
    decode: (opened, place) => parse(opened, place, 'a date', (read) => canonical(read, new Date(read), print)),
    toIndexText: print,
  })
}

function indexOf({ index, normalize = [], bits }: TextOptions = {}) {
  return { index, normalize, bits }
}

function makeField<T, I extends string, X extends boolean>(
  spec: Omit<FieldSpec, 'missing' | 'normalize'> & Partial<FieldSpec>,
): Field<T, never, I, X> {
  const { missing = [], normalize = [] } = spec
  const field = {
    '~spec': { ...spec, missing, normalize },
    optional: () => makeField({ ...spec, missing: [...missing, undefined] }),
    nullable: () => makeField({ ...spec, missing: [...missing, null] }),
  }
  return Object.freeze(field) as unknown as Field<T, never, I, X> // the types that callers see are the builders'
}

function refuse(expected: string, value: unknown, place: RecordPlace): never {
  const hint =
    value === null
      ? 'Declare the field nullable().'
      : value === undefined
        ? 'Declare the field optional().'
        : 'Correct the value, or declare the field as another kind.'
  throw new InvalidInputError(`expected ${expected}, got ${kindOf(value)}`, hint, place)
}

// What the parsers throw quotes the text.
function parse<T>(opened: Uint8Array, place: RecordPlace, expected: string, read: (text: string) => T): T {
  const content = toText(opened, place)
  try {
    return read(content)
  } catch {
    throw new ContentError(`the decrypted value is not ${expected}`, 'Declare the field as what was sealed.', place)
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
