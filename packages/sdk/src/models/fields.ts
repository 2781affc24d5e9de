/** The kinds of fields that a model seals: which values they take, and which blind index they have. `codecs.ts` has the bytes. */
import { InvalidInputError, type RecordPlace } from '../errors.js'
import { assertOptions, assertValue, type Bytes, isoText, isValidDate, kindOf } from '../input.js'
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

/** @internal */
export type FieldKind = 'text' | 'bytes' | 'json' | 'number' | 'boolean' | 'date'

/** @internal How a field works, without its types. */
export interface FieldSpec {
  kind: FieldKind
  missing: readonly (null | undefined)[]
  index?: string | undefined
  normalize: readonly Normalizer[]
  bits?: number | undefined
  /** Refuses a value that cannot be sealed. Here where an index needs it too; of other kinds it is in `codecs.ts`. */
  assert?(value: unknown, place: RecordPlace): void
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
  return createField({
    ...readIndexOptions('text', options),
    assert(value, place) {
      if (typeof value !== 'string') refuse('text', value, place)
      assertValue(value, place)
    },
    toIndexText: (value) => value as string,
  })
}

/** Bytes, sealed as they are: an ArrayBuffer, or any view of one. */
export function bytes(options?: Record<string, never>): Field<Bytes, never, never, false> {
  return createField({
    kind: refuseOptions('bytes', options),
  })
}

/**
 * A value of which JSON loses nothing, sealed as its JSON text; a Map, a Date or NaN in it is refused, as `encryptJson` does, in a
 * message that holds names of members. `T` is not checked when it is read.
 */
export function json<T>(options?: Record<string, never>): Field<T, never, never, false> {
  return createField({
    kind: refuseOptions('json', options),
  })
}

/** A finite number, sealed as its shortest decimal text, as JavaScript prints it. */
export function number<const O extends IndexOptions>(options?: O): Field<number, never, ColumnOf<O>, true> {
  return createField({
    ...readIndexOptions('number', options),
    assert: (value, place) => {
      if (typeof value !== 'number' || !Number.isFinite(value)) refuse('a finite number', value, place)
    },
    toIndexText: (value) => String(value), // without the sign of -0, which equals 0
  })
}

/** `true` or `false`, sealed as that word. It has no index: two values would be told apart at sight. */
export function boolean(options?: Record<string, never>): Field<boolean, never, never, false> {
  return createField({
    kind: refuseOptions('boolean', options),
  })
}

/** A Date, also of a subclass, sealed as its ISO 8601 text with milliseconds, UTC. */
export function date<const O extends IndexOptions>(options?: O): Field<Date, never, ColumnOf<O>, true> {
  return createField({
    ...readIndexOptions('date', options),
    assert: (value, place) => {
      if (!isValidDate(value)) refuse('a valid Date', value, place)
    },
    toIndexText: (value) => isoText(value as Date),
  })
}

function readIndexOptions(kind: FieldKind, options: TextOptions = {}) {
  assertOptions(`${kind}()`, options, kind === 'text' ? ['index', 'bits', 'normalize'] : ['index', 'bits'])
  const { index, normalize = [], bits } = options
  return { kind, index, normalize, bits }
}

function refuseOptions(kind: FieldKind, options: object = {}): FieldKind {
  assertOptions(`${kind}()`, options, [])
  return kind
}

function createField<T, I extends string, X extends boolean>(
  spec: Omit<FieldSpec, 'missing' | 'normalize'> & Partial<FieldSpec>,
): Field<T, never, I, X> {
  const { missing = [], normalize = [] } = spec
  const field = {
    '~spec': { ...spec, missing, normalize },
    optional: () => createField({ ...spec, missing: [...missing, undefined] }),
    nullable: () => createField({ ...spec, missing: [...missing, null] }),
  }
  return Object.freeze(field) as unknown as Field<T, never, I, X> // the types that callers see are the builders'
}

/** @throws InvalidInputError */
export function refuse(expected: string, value: unknown, place: RecordPlace): never {
  const hint =
    value === null
      ? 'Declare the field nullable().'
      : value === undefined
        ? 'Declare the field optional().'
        : 'Correct the value, or declare the field as another kind.'
  throw new InvalidInputError(`expected ${expected}, got ${kindOf(value)}`, hint, place)
}
