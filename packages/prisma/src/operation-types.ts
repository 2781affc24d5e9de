/** The types of operations: a model's field has its own type where Prisma's types expect the stored text or JSON. */
import type { ColumnsOf } from '@eaas/sdk/adapter'
import type { AnyNullClass, DbNullClass, JsonNullClass, Types } from '@prisma/client/runtime/client'

/** A missing value is stored as null. */
export type ValueOf<T> = undefined extends T ? Exclude<T, undefined> | null : T

/** The fields of a model that are not text, with their types. */
export type ValuesOf<M> = {
  [Field in keyof ColumnsOf<M> & string as ColumnsOf<M>[Field] extends string | null | undefined
    ? never
    : Field]: ValueOf<ColumnsOf<M>[Field]>
}

type Models = Readonly<Record<string, unknown>>

interface Payload {
  name: string
  objects: Record<string, unknown>
  scalars: Record<string, unknown>
  composites: Record<string, unknown>
}

type ValuesIn<M extends Models, P extends Payload> = P['name'] extends keyof M ? ValuesOf<M[P['name']]> : unknown

/** The input type of a field: its value, or Prisma's ways to write null and undefined. */
type FieldInput<Given, V> =
  | V
  | Extract<Given, undefined | Types.Skip>
  | (null extends V ? Extract<Given, DbNullClass | JsonNullClass> : never)

type Data<Given, M extends Models, P extends Payload> = Given extends readonly (infer One)[]
  ? Data<One, M, P>[]
  : Given extends object
    ? {
        [K in keyof Given]: K extends keyof ValuesIn<M, P>
          ? FieldInput<Given[K], ValuesIn<M, P>[K]>
          : K extends keyof P['objects']
            ? Nested<Given[K], M, RelatedTo<P['objects'][K]>>
            : Given[K]
      }
    : Given

type RelatedTo<Objects> = Extract<NonNullable<Objects extends readonly (infer One)[] ? One : Objects>, Payload>

type Nested<Given, M extends Models, P extends Payload> = Given extends object
  ? {
      [W in keyof Given]: W extends 'create'
        ? Data<Given[W], M, P>
        : W extends 'createMany' | 'connectOrCreate' | 'upsert' | 'updateMany'
          ? Members<Given[W], M, P>
          : W extends 'update'
            ? Update<Given[W], M, P>
            : Where<Given[W], M, P>
    }
  : Given

type Members<Given, M extends Models, P extends Payload> = Given extends readonly (infer One)[]
  ? Members<One, M, P>[]
  : Given extends object
    ? {
        [K in keyof Given]: K extends 'data' | 'create' | 'update'
          ? Data<Given[K], M, P>
          : K extends 'where'
            ? Where<Given[K], M, P>
            : K extends 'select' | 'include'
              ? Selection<Given[K], M, P>
              : Given[K]
      }
    : Given

type Selection<Given, M extends Models, P extends Payload> = Given extends object
  ? {
      [K in keyof Given]: K extends keyof P['objects']
        ? Members<Given[K], M, RelatedTo<P['objects'][K]>>
        : K extends '_count'
          ? Members<Given[K], M, P>
          : Given[K]
    }
  : Given

interface Comparison<V> extends Partial<Record<'gt' | 'gte' | 'lt' | 'lte', NonNullable<V> | undefined>> {
  equals?: V | undefined
  not?: V | Comparison<V> | undefined
  in?: NonNullable<V>[] | undefined
  notIn?: NonNullable<V>[] | undefined
}
type Compared<V> = NonNullable<V> extends Date | number ? V | Comparison<V> : never

/** A condition on rows: what Prisma takes, and the values of the model. */
type Where<Given, M extends Models, P extends Payload> = Given extends readonly (infer One)[]
  ? Where<One, M, P>[]
  : Given extends Types.Skip
    ? Given
    : Given extends object
      ? {
          [K in keyof Given]: [Exclude<Given[K], undefined>] extends [never]
            ? Given[K]
            : K extends keyof ValuesIn<M, P>
              ? Given[K] | Compared<ValuesIn<M, P>[K]> | Extract<ValuesIn<M, P>[K], null>
              : K extends keyof P['objects']
                ? Where<Given[K], M, RelatedTo<P['objects'][K]>>
                : K extends keyof P['scalars']
                  ? Given[K]
                  : Where<Given[K], M, P> // `AND`, `some` and the like, a combined key
        }
      : Given

type Nulls = null | DbNullClass | JsonNullClass | AnyNullClass
type OnlyNull = { equals?: Nulls | undefined; not?: Nulls | OnlyNull | undefined }
/** What the adapter accepts in a condition on a field; it refuses the rest of Prisma's type for the column. */
type Taken<V> = Compared<V> | (null extends V ? Nulls | OnlyNull : never) | Types.Skip | undefined

/**
 * A condition as the application wrote it. A literal that the adapter refuses, such as the text of a date, does not
 * compile. A value typed as one of Prisma's own types does, since all their members are optional.
 */
type Written<A, Wide, M extends Models, P extends Payload> = A extends readonly (infer One)[]
  ? Written<One, Wide, M, P>[]
  : A extends Types.Skip | Nulls
    ? A
    : A extends object
      ? object extends A
        ? A
        : {
            [K in keyof A]: [MemberOf<Wide, K>] extends [never]
              ? never
              : K extends keyof ValuesIn<M, P>
                ? object extends Extract<A[K], object>
                  ? A[K]
                  : Taken<ValuesIn<M, P>[K]>
                : K extends keyof P['objects']
                  ? Written<A[K], MemberOf<Wide, K>, M, RelatedTo<P['objects'][K]>>
                  : K extends keyof P['scalars']
                    ? A[K]
                    : Written<A[K], MemberOf<Wide, K>, M, P>
          }
      : A
type MemberOf<T, K> = T extends readonly (infer One)[]
  ? MemberOf<One, K>
  : K extends keyof T
    ? NonNullable<T[K]>
    : never

/** A nested update: `{ where, data }` or, for a relation to one row, the changes, among which may be a field `data`. */
type Update<Given, M extends Models, P extends Payload> = Given extends readonly (infer One)[]
  ? Update<One, M, P>[]
  : Given extends { data: unknown }
    ? Members<Given, M, P>
    : Data<Given, M, P>

/** Operations by result: one row, whose relations can be followed; one or none; anything else. */
type OfOne = 'create' | 'update' | 'upsert' | 'delete' | 'findUniqueOrThrow' | 'findFirstOrThrow'
type OfOneOrNone = 'findUnique' | 'findFirst'
type OfMany =
  | `${'create' | 'update'}Many${'' | 'AndReturn'}`
  | 'deleteMany'
  | 'findMany'
  | 'count'
  | 'aggregate'
  | 'groupBy'
type Operation = OfOne | OfOneOrNone | OfMany

/** A client's types: those of its schema, and the fields that it omits from all reads. */
type TypesOf<C> = C extends {
  $extends: Types.Extensions.ExtendsHook<infer _Variant, infer Callback, infer ExtArgs, infer _TypeMap>
}
  ? Types.Utils.Call<Callback, { extArgs: ExtArgs }>
  : never

interface TypeMap {
  model: Record<string, { payload: Payload; operations: Partial<Record<Operation, { args: unknown }>> }>
  globalOmitOptions?: unknown
}

type PayloadOf<T> = T extends { [K: symbol]: { types: { payload: infer P extends Payload } } } ? P : never

/**
 * An operation. `T` is the client's member with this operation, so that the result includes what later extensions add.
 * The arguments do not depend on it, or TypeScript would take `omit: { x: true }` for `boolean`.
 */
type Run<Args, O extends Operation, Map extends TypeMap, Name extends string, M extends Models> = object extends Args
  ? <T, A extends Args>(this: T, args?: Passed<A, Args, M, PayloadIn<Map, Name>>) => Result<T, A, O, Map, Name>
  : <T, A extends Args>(this: T, args: Passed<A, Args, M, PayloadIn<Map, Name>>) => Result<T, A, O, Map, Name>

type PayloadIn<Map extends TypeMap, Name extends string> = Map['model'][Name]['payload']
type Passed<A, Args, M extends Models, P extends Payload> = Types.Public.Exact<
  A,
  {
    [K in keyof Args]: K extends 'where'
      ? A extends { where: infer W }
        ? Written<W, Args[K], M, P>
        : Args[K]
      : Args[K]
  }
>
type Result<T, A, O extends Operation, Map extends TypeMap, Name extends string> = Types.Public.PrismaPromise<
  Types.Result.GetResult<PayloadOf<T>, A, O, Map['globalOmitOptions']>
> &
  (O extends OfOne | OfOneOrNone
    ? Types.Extensions.DynamicModelExtensionFluentApi<Map, Name, O, O extends OfOne ? never : null>
    : unknown)

/** A client's operations, with values in the types of the models; none where all fields are text. */
export type OperationsOf<C, M extends Models> = [{ [Name in keyof M]: keyof ValuesOf<M[Name]> }[keyof M]] extends [
  never,
]
  ? Record<never, never>
  : [C, TypesOf<C>] extends [object, infer Map extends TypeMap]
    ? {
        [Name in keyof Map['model'] & string as Uncapitalize<Name>]: {
          [O in Operation & keyof Map['model'][Name]['operations']]: () => Run<
            Members<ArgsOf<Map['model'][Name]['operations'][O]>, M, PayloadIn<Map, Name>>,
            O,
            Map,
            Name,
            M
          >
        }
      }
    : Record<never, never>

type ArgsOf<T> = T extends { args: infer Args } ? Args : never
