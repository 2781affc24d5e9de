/** The types of writes: where Prisma expects the stored text or JSON, a field of a model takes its own type. */
import type { ColumnsOf } from '@eaas/sdk/adapter'
import type { DbNullClass, JsonNullClass, Types } from '@prisma/client/runtime/client'

/** What may be missing is stored as null. */
export type ValueOf<T> = undefined extends T ? Exclude<T, undefined> | null : T

/** The fields of a model that are not text, and their types. */
export type ValuesOf<M> = {
  [Field in keyof ColumnsOf<M> & string as ColumnsOf<M>[Field] extends string | null | undefined
    ? never
    : Field]: ValueOf<ColumnsOf<M>[Field]>
}

/** The models of an extension, by their names in the schema. */
type Models = Readonly<Record<string, unknown>>

/** A model of the schema, as Prisma's types describe it. */
interface Payload {
  name: string
  objects: Record<string, unknown>
  scalars: Record<string, unknown>
  composites: Record<string, unknown>
}

type ValuesIn<M extends Models, P extends Payload> = P['name'] extends keyof M ? ValuesOf<M[P['name']]> : unknown

/** What a field takes: its value, or what Prisma writes in place of null and undefined. */
type FieldInput<Given, V> =
  | V
  | Extract<Given, undefined | Types.Skip>
  | (null extends V ? Extract<Given, DbNullClass | JsonNullClass> : never)

/** The rows or changes of a write, on any level. */
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

/** The writes that are nested in a relation. */
type Nested<Given, M extends Models, P extends Payload> = Given extends object
  ? {
      [W in keyof Given]: W extends 'create'
        ? Data<Given[W], M, P>
        : W extends 'createMany' | 'connectOrCreate' | 'upsert' | 'updateMany'
          ? Members<Given[W], M, P>
          : W extends 'update'
            ? Update<Given[W], M, P>
            : Given[W]
    }
  : Given

/** The members of arguments that are rows or changes. */
type Members<Given, M extends Models, P extends Payload> = Given extends readonly (infer One)[]
  ? Members<One, M, P>[]
  : Given extends object
    ? { [K in keyof Given]: K extends 'data' | 'create' | 'update' ? Data<Given[K], M, P> : Given[K] }
    : Given

/**
 * A nested update: the changes in `data` or, for a relation to one row, the changes themselves, in which a field
 * `data` is optional.
 */
type Update<Given, M extends Models, P extends Payload> = Given extends readonly (infer One)[]
  ? Update<One, M, P>[]
  : Given extends { data: unknown }
    ? Members<Given, M, P>
    : Data<Given, M, P>

type Create = 'create' | 'createMany' | 'createManyAndReturn'
/** The operations that write rows. */
type Operation = Create | 'update' | 'updateMany' | 'updateManyAndReturn' | 'upsert'
type Fluent = 'create' | 'update' | 'upsert'

/** The types of a client: those of its schema, and what it omits from all reads. */
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
 * An operation that writes. `T` is the member of the client whose operation it is, so that the result includes what
 * further extensions add to its rows. The arguments do not depend on it, since TypeScript would then take
 * `omit: { x: true }` for `boolean`.
 */
type Write<Args, O extends Operation, Map extends TypeMap, Name extends string> = <T, A extends Args>(
  this: T,
  args: Types.Public.Exact<A, Args>,
) => Types.Public.PrismaPromise<Types.Result.GetResult<PayloadOf<T>, A, O, Map['globalOmitOptions']>> &
  (O extends Fluent ? Types.Extensions.DynamicModelExtensionFluentApi<Map, Name, O, never> : unknown)

/** The operations of a client that take values in the types of the models; none where all fields are text. */
export type Writes<C, M extends Models> = [{ [Name in keyof M]: keyof ValuesOf<M[Name]> }[keyof M]] extends [never]
  ? Record<never, never>
  : [C, TypesOf<C>] extends [object, infer Map extends TypeMap]
    ? {
        [Name in keyof Map['model'] & string as Uncapitalize<Name>]: {
          [O in Operation & keyof Map['model'][Name]['operations']]: () => Write<
            Members<ArgsOf<Map['model'][Name]['operations'][O]>, M, Map['model'][Name]['payload']>,
            O,
            Map,
            Name
          >
        }
      }
    : Record<never, never>

type ArgsOf<T> = T extends { args: infer Args } ? Args : never
