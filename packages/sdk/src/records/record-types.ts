/** The types of `encryptMany` and `decryptMany`: which fields they take, and what they make of records. */
import type { Envelope } from '@eaas/protocol'
import type { Binary } from '../input.js'
import type { StoredEnvelope } from './read-envelope.js'

/**
 * The same type, which editors and declarations print with its members instead of the types that it is made from.
 * Public types use it within `[R] extends [unknown] ? … : never`: while `R` is not known, in an application's generic
 * function, they are printed by name, since such a type has no members yet.
 */
export type Show<T> = { [K in keyof T]: T[K] } & {}

type Missing = null | undefined
type Sealable = string | Binary | Missing
type Openable = StoredEnvelope | Missing

type FieldOf<R, V> = { [K in keyof R & string]-?: R[K] extends V ? K : never }[keyof R & string]
/** The same, with paths into objects, at most four deep, since types may contain themselves. */
type PathOf<R, V, Depth extends 0[] = []> =
  | FieldOf<R, V>
  | (Depth['length'] extends 4
      ? never
      : { [K in keyof R & string]-?: PathInto<K, Exclude<R[K], Missing>, V, [...Depth, 0]> }[keyof R & string])
type PathInto<K extends string, O, V, Depth extends 0[]> = O extends V | readonly unknown[]
  ? never
  : O extends object
    ? `${K}.${PathOf<O, V, Depth>}`
    : never
/** The fields that can be sealed: text, bytes, null, undefined; `'address.street'` inside an object. */
export type SealableField<R> = PathOf<R, Sealable>
/** The names of the fields of `R` that hold envelopes, null or undefined; `'address.street'` inside an object. */
export type OpenableField<R> = PathOf<R, Openable>

type HeadOf<F> = F extends `${infer Head}.${string}` ? Head : never
type TailOf<F, K> = F extends `${K & string}.${infer Tail}` ? Tail : never
type Replaced<R, F extends string, V> = Omit<R, F | HeadOf<F>> & {
  [K in keyof Pick<R, F & keyof R>]: Extract<R[K], Missing> | (Exclude<R[K], Missing> extends never ? never : V)
} & {
  [K in keyof Pick<R, Exclude<HeadOf<F>, F> & keyof R>]:
    | Extract<R[K], Missing>
    | Show<Replaced<Exclude<R[K], Missing>, TailOf<F, K>, V>>
}
type ValueAt<R, P> = P extends keyof R
  ? R[P]
  : P extends `${infer Head}.${infer Tail}`
    ? Head extends keyof R
      ? Extract<R[Head], Missing> | ValueAt<Exclude<R[Head], Missing>, Tail>
      : never
    : never
type IndexColumns<R, I> = { -readonly [K in keyof I as I[K] & string]: Extract<ValueAt<R, K>, Missing> | string }

/** A record whose fields `F` are sealed, with the columns of the blind indexes `I` added. */
export type EncryptedRecord<R, F extends string, I = Record<never, never>> = [R] extends [unknown]
  ? Show<Replaced<R, F, Envelope> & IndexColumns<R, I>>
  : never
export type DecryptedRecord<R, F extends string, V> = [R] extends [unknown] ? Show<Replaced<R, F, V>> : never
