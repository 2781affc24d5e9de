/** The types of models: from a definition's fields to plain, sealed and opened rows. */
import type { Envelope } from '@eaas/protocol'
import type { Binary, Bytes } from '../input.js'
import type { OpenDeps, RecordsDeps } from '../records/blocks.js'
import type { Show } from '../records/many-records.js'
import type { StoredEnvelope } from '../records/read-envelope.js'
import type { Soon } from '../waiting.js'
import type { CompactField, EnvelopeHeader } from './compact-rows.js'
import type { Rare } from './definition.js'
import type { Field } from './fields.js'
import type * as IndexTexts from './index-texts.js'
import type * as LocalIndex from './local-index.js'
import type * as ModelRows from './model-rows.js'
import type * as OpenRows from './open-rows.js'
import type * as Rotation from './rotation.js'
import type * as SealRows from './seal-rows.js'

export type AnyField = Field<unknown, null | undefined, string, boolean>
/** A model's fields by name. A dot in a name leads into an object. */
export type Fields = Readonly<Record<string, AnyField>>

// Conditional types, since TypeScript widens lookups to their constraints while F is not known.
type Value<D> = D extends { readonly '~types'?: { value: infer V } } ? V : never
type MissingOf<D> = D extends { readonly '~types'?: { missing: infer M } } ? M : never
type IndexOf<D> = D extends { readonly '~types'?: { index: infer I extends string } } ? I : never
type IsJoinable<D> = D extends { readonly '~types'?: { joinable: infer X } } ? X : never
/** The fields that can be part of an index: text, numbers, dates. */
export type JoinableField<F extends Fields> = {
  [P in keyof F & string]: IsJoinable<F[P]> extends true ? P : never
}[keyof F & string]
/** The fields that have an index of their own, or are part of one. */
export type IndexedField<F extends Fields, C> =
  | { [P in keyof F & string]: [IndexOf<F[P]>] extends [never] ? never : P }[keyof F & string]
  | { [N in keyof C]: C[N] extends { readonly fields: readonly (infer P)[] } ? P : never }[keyof C]

/** The fields that hold text, whose parts can be searched. */
export type TextField<F extends Fields> = {
  [P in JoinableField<F>]: [Value<F[P]>] extends [string] ? P : never
}[JoinableField<F>]

export type Compounds<F extends Fields> = Readonly<
  Record<string, CompoundIndex<JoinableField<F>> | PrefixIndex<TextField<F>> | NgramIndex<TextField<F>>>
>
export interface CompoundIndex<P> {
  /** The fields, at least two. A search needs the values of all of them. */
  readonly fields: readonly P[]
  /** 4 to 256; all by default. */
  readonly bits?: number | undefined
  /** Whether the names of the model and the column are left out of what is hashed, as for a field. */
  readonly shared?: boolean | undefined
}
/** An index of a text's first `length` characters. Finds rows by `{ startsWith }`. */
export interface PrefixIndex<P> {
  /** The text field whose beginning is indexed. */
  readonly prefix: P
  /** How many characters, after normalisation. A search needs at least as many. */
  readonly length: number
  /** 4 to 256; all by default. */
  readonly bits?: number | undefined
}
/**
 * An index of every `length` consecutive characters of a text. Finds rows by `{ contains }`. With the table, a list of
 * possible texts and three known rows, an attacker can read nearly all other texts: see the page on an index of parts.
 */
export interface NgramIndex<P> {
  /** The text field whose parts are indexed. */
  readonly ngram: P
  /** How many characters each part has, after normalisation. A search needs at least as many. */
  readonly length: number
  /** How many bits of each part's index are kept, 4 to 256. Few bits find too many rows, and hide little. */
  readonly bits: number
  /** Confirms that you know what the index reveals. */
  readonly acceptLeakage: true
}
/** Refuses an option that this kind of index does not have: where a type parameter is inferred, TypeScript accepts any. */
export type KnownOptions<C> = {
  readonly [N in keyof C]: { readonly [O in Exclude<keyof C[N], OptionOf<C[N]>>]: never }
}
type OptionOf<I> = I extends { readonly prefix: unknown }
  ? keyof PrefixIndex<string>
  : keyof (I extends { readonly ngram: unknown } ? NgramIndex<string> : CompoundIndex<string>)
export type AnyIndex = CompoundIndex<string> | PrefixIndex<string> | NgramIndex<string>

type PrefixField<C> = { [N in keyof C]: C[N] extends { readonly prefix: infer P } ? P : never }[keyof C]
type NgramField<C> = { [N in keyof C]: C[N] extends { readonly ngram: infer P } ? P : never }[keyof C]

type Format = 'full' | 'compact' | 'text' | 'compact-text'
type Intersect<U> = (U extends unknown ? (member: U) => void : never) extends (member: infer I) => void ? I : never

type Nest<P extends string, V, Optional extends boolean> = P extends `${infer Head}.${infer Tail}`
  ? Optional extends true
    ? { [K in Head]?: Nest<Tail, V, Optional> }
    : { [K in Head]: Nest<Tail, V, Optional> }
  : Optional extends true
    ? { [K in P]?: V }
    : { [K in P]: V }
type IsOptional<D extends AnyField> = undefined extends MissingOf<D> ? true : false
type Shape<F extends Fields, V extends { [P in keyof F]: unknown }> = Intersect<
  { [P in keyof F & string]: Nest<P, V[P], IsOptional<F[P]>> }[keyof F & string]
>

type Taken<V> = V extends Bytes ? Binary : V
/** Other columns. Without it, TypeScript's errors would blame them for a missing field. `any`: interfaces have no index signature. */
export interface OtherColumns {
  // biome-ignore lint/suspicious/noExplicitAny: see above
  [column: string]: any
}
/** The least that a row to seal has: the fields, with the values that the application sees. */
export type PlainShape<F extends Fields> = Shape<F, { [P in keyof F]: Taken<Value<F[P]>> | MissingOf<F[P]> }>
/** The same, as editors print it: each object with all its members. */
export type PlainOf<F extends Fields> = ShowNested<PlainShape<F>, keyof F & string>
type ShowNested<S, N extends string> = {
  [K in keyof S]: Extract<N, `${K & string}.${string}`> extends never
    ? S[K]
    : S[K] extends infer V
      ? V extends object
        ? ShowNested<V, TailOf<N, K & string>>
        : V
      : never
} & {}
/** The columns that hold an object with fields in it. */
export type HolderOf<F extends Fields> = HeadOf<keyof F & string>
type HeadOf<N> = N extends `${infer Head}.${string}` ? Head : never
type TailOf<N, K extends string> = N extends `${K}.${infer Tail}` ? Tail : never
/** The fields of rows that have only some: each may be absent, and null stands for no value where it may be missing. */
export type PartialFields<F extends Fields> = {
  readonly [P in keyof F]: Field<
    Value<F[P]>,
    undefined | NullIf<MissingOf<F[P]>>,
    IndexOf<F[P]>,
    Extract<IsJoinable<F[P]>, boolean>
  >
}
/** The indexes over several fields that are all picked, by column. */
export type PickedCompounds<C, K> = {
  readonly [N in keyof C as C[N] extends
    | { readonly fields: readonly (infer P)[] }
    | { readonly prefix: infer P }
    | { readonly ngram: infer P }
    ? [P] extends [K]
      ? N
      : never
    : never]: C[N]
}
/** A missing value in a stored row: databases also store null for a value that was left out. */
type StoredMissing<M> = M | (undefined extends M ? null : never)
/** The least that a row to open has: the fields, sealed in any form; with `acceptPlaintext` also not sealed. */
export type SealedShape<F extends Fields, Plain extends boolean = false> = Shape<
  F,
  {
    [P in keyof F]:
      | StoredEnvelope
      | CompactField
      | StoredMissing<MissingOf<F[P]>>
      | (Plain extends true ? Taken<Value<F[P]>> : never)
  }
>

type SealedField<T extends Format> = T extends 'compact'
  ? CompactField
  : T extends 'text' | 'compact-text'
    ? string
    : Envelope
// A conditional type, since editors print its result; of a union they would print the name and arguments.
type Replaced<V, M, New> = [Exclude<V, M>] extends [never] ? Extract<V, M> : Extract<V, M> | New
type Opened<V, M, New> =
  | Replaced<Exclude<V, Exclude<null, M>>, M, New>
  | (null extends V ? (null extends M ? never : undefined) : never)

type Seal<R, F extends Fields, T extends Format, P extends string = ''> = {
  [K in keyof R]: `${P}${K & string}` extends infer N extends keyof F & string
    ? Replaced<R[K], MissingOf<F[N]>, SealedField<T>>
    : Extract<keyof F, `${P}${K & string}.${string}`> extends never
      ? R[K]
      : R[K] extends infer V
        ? V extends object
          ? Show<Seal<V, F, T, `${P}${K & string}.`>>
          : V
        : never
}
type Open<R, F extends Fields, P extends string = ''> = {
  [K in keyof R]: `${P}${K & string}` extends infer N extends keyof F & string
    ? Opened<R[K], MissingOf<F[N]>, Value<F[N]>>
    : Extract<keyof F, `${P}${K & string}.${string}`> extends never
      ? R[K]
      : R[K] extends infer V
        ? V extends object
          ? Show<Open<V, F, `${P}${K & string}.`>>
          : V
        : never
}

type NullIf<M> = [M] extends [never] ? never : null
type IndexName<F extends Fields, C> = { [P in keyof F & string]: IndexOf<F[P]> }[keyof F & string] | (keyof C & string)
export type IndexColumns<F extends Fields, C> = {
  [P in keyof F & string as IndexOf<F[P]>]: string | NullIf<MissingOf<F[P]>>
} & {
  -readonly [N in keyof C]: C[N] extends { readonly fields: readonly (infer P)[] } | { readonly prefix: infer P }
    ? string | NullIf<MissingOf<F[P & keyof F]>>
    : C[N] extends { readonly ngram: infer P }
      ? string[] | NullIf<MissingOf<F[P & keyof F]>>
      : never
}
/** The header of a compact row as text (compact-rows.md 2). */
type HeaderText = `eaas.h${string}`
type HeaderColumn<T extends Format, H extends string> = T extends 'compact'
  ? { [K in H]: EnvelopeHeader | null }
  : T extends 'compact-text'
    ? { [K in H]: HeaderText | null }
    : unknown

/** What else a model adds: a row's seal, and the columns of the former index, by the columns of the indexes. */
export interface Extras {
  readonly seal: 'row' | undefined
  readonly former: Readonly<Record<string, string>>
}
export interface NoExtras extends Extras {
  readonly seal: undefined
  readonly former: Readonly<Record<never, never>>
}
/** A model's extras. Without any, the type has a name of its own, which editors print. */
export type ExtrasOf<S extends 'row' | undefined, O extends Readonly<Record<string, string>>> = [S, keyof O] extends [
  undefined,
  never,
]
  ? NoExtras
  : { seal: S; former: O }
type FormerName<X extends Extras> = X['former'][keyof X['former']] & string
type FormerColumns<I, X extends Extras> = { [N in keyof X['former'] & keyof I as X['former'][N]]: I[N] }
// The order matters: without `strictNullChecks` undefined extends every type.
type SealColumn<T extends Format, X extends Extras> = 'row' extends X['seal'] ? { row_seal: SealedField<T> } : unknown
/** What a row needs to be opened with `sealed: 'row'` besides its fields: the seal and the index columns. */
export type WholeShape<F extends Fields, C, X extends Extras> = 'row' extends X['seal']
  ? { row_seal: StoredEnvelope | CompactField | null } & {
      [N in keyof IndexColumns<F, C>]: IndexColumns<F, C>[N] | null
    }
  : unknown

export type SealedRow<R, F extends Fields, C, T extends Format, H extends string, X extends Extras = NoExtras> = [
  R,
] extends [unknown]
  ? Show<
      Seal<R, F, T> & IndexColumns<F, C> & HeaderColumn<T, H> & SealColumn<T, X> & FormerColumns<IndexColumns<F, C>, X>
    >
  : never
type At<R, P> = P extends `${infer Head}.${infer Tail}`
  ? Head extends keyof R
    ? At<NonNullable<R[Head]>, Tail> | Extract<R[Head], undefined>
    : never
  : P extends keyof R
    ? R[P]
    : never
/** The fields that a row certainly has; with `Maybe`, also those whose type includes undefined. */
type Given<R, F extends Fields, Maybe extends boolean> = {
  [P in keyof F & string as [Exclude<At<R, P>, undefined>] extends [never]
    ? never
    : undefined extends At<R, P>
      ? Maybe extends true
        ? P
        : never
      : P]: Field<Value<F[P]>, Extract<At<R, P>, null>, IndexOf<F[P]>, Extract<IsJoinable<F[P]>, boolean>>
}
type IndexColumnsOf<G extends Fields, C, X extends Extras> =
  IndexColumns<G, PickedCompounds<C, keyof G>> extends infer I ? I & FormerColumns<I, X> : never
/** The row with some fields sealed, and the columns of the indexes whose fields it all has. */
export type SealedPartial<R, F extends Fields, C, T extends Format, X extends Extras = NoExtras> = [R] extends [unknown]
  ? Show<
      Seal<R, PartialFields<F>, T> &
        IndexColumnsOf<Given<R, F, false>, C, X> &
        Partial<IndexColumnsOf<Given<R, F, true>, C, X>>
    >
  : never
/** The column of the compact form, unless the application uses it. */
type HeaderName<R, H extends string> = H extends keyof R
  ? NonNullable<R[H]> extends EnvelopeHeader | HeaderText
    ? NonNullable<R[H]> extends { ciphertext: unknown }
      ? never
      : H
    : never
  : never
/** The row that opening `R` returns: without the index columns and the column of the compact form. */
export type OpenedRow<R, F extends Fields, C, H extends string, X extends Extras = NoExtras> = [R] extends [unknown]
  ? Show<
      Omit<
        Open<R, F>,
        IndexName<F, C> | HeaderName<R, H> | FormerName<X> | ('row' extends X['seal'] ? 'row_seal' : never)
      >
    >
  : never

/** The columns that a query returns: the indexes whose fields it all has. */
export type QueryColumns<F extends Fields, C, Q, X extends Extras = NoExtras> =
  Queried<F, C, Q> extends infer I ? Show<I & FormerColumns<I, X>> : never
type Queried<F extends Fields, C, Q> = {
  [P in keyof F & keyof Q & string as Q[P] extends Part ? never : IndexOf<F[P]>]: ColumnOf<Q[P]>
} & {
  -readonly [N in keyof C as C[N] extends { readonly fields: readonly (infer P)[] }
    ? [P] extends [keyof Q]
      ? N
      : never
    : never]: string
} & {
  /** Of several prefix indexes only the longest that the text fills. */
  -readonly [N in keyof C as C[N] extends { readonly prefix: infer P extends keyof Q }
    ? Q[P] extends { readonly startsWith: string }
      ? N
      : never
    : never]?: string
} & {
  -readonly [N in keyof C as C[N] extends { readonly ngram: infer P extends keyof Q }
    ? Q[P] extends { readonly contains: string }
      ? N
      : never
    : never]: string[]
}
/** For each kind of value that the query's type allows. A part of a text has no column of the whole text. */
type ColumnOf<V> = V extends Part ? undefined : V extends Bounded ? string[] : string
type Bounded = { readonly gte: unknown } | { readonly gt: unknown }
/** A range of dates or numbers to search for. */
export type Range<V> = ({ readonly gte: V } | { readonly gt: V }) & ({ readonly lte: V } | { readonly lt: V })
type Part = { readonly startsWith: string } | { readonly contains: string }
type RangeOf<V> = [V] extends [Date] ? Range<Date> : [V] extends [number] ? Range<number> : never
/** Values of indexed fields to search for, or parts of them. */
export type Query<F extends Fields, C> = {
  [P in (IndexedField<F, C> | PrefixField<C> | NgramField<C>) & keyof F]?:
    | (P extends IndexedField<F, C> ? Value<F[P]> | RangeOf<Value<F[P]>> : never)
    | (P extends PrefixField<C> ? { readonly startsWith: string } : never)
    | (P extends NgramField<C> ? { readonly contains: string } : never)
}

/** How many values a model opened because of `acceptPlaintext` or `acceptUnbound`. */
export interface Accepted {
  plaintext: number
  /** Values of format v1, which are bound to nothing. */
  unbound: number
}

export interface ModelDeps {
  accepted: Accepted
  maxMessages: number
  loadSealing(): Soon<
    { records: RecordsDeps } & Pick<typeof ModelRows, 'createModelRows'> &
      Pick<typeof SealRows, 'sealRows' | 'sealRead' | 'readRow' | 'findFewValues'> &
      Pick<typeof IndexTexts, 'makeColumnTexts' | 'hashColumnTexts'> &
      Pick<typeof LocalIndex, 'mixedIn'>
  >
  loadOpening(): Soon<
    { records: OpenDeps } & Pick<typeof ModelRows, 'createModelRows'> &
      Pick<typeof OpenRows, 'openRows' | 'copyStored' | 'readJobs'>
  >
  loadRare(): Soon<Rare>
  loadMore(): Soon<Pick<typeof Rotation, 'rewrapRows' | 'resealRows' | 'sealEach'>>
}
