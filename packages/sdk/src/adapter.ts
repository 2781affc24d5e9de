/**
 * `@eaas/sdk/adapter`: what an adapter for an ORM needs of a model and of SQL. `createSealedTable` seals and opens rows
 * with a model, refuses what it cannot do, and finds the index that answers a comparison. An adapter translates between
 * it and its ORM.
 */
import type { Binary, Bytes } from './input.js'
import type { OtherColumns } from './models/model-types.js'

export * from './adapter/found-rows.js'
export type { IdMaker, LackingColumn, MadeIds, RunSql } from './adapter/made-ids.js'
export { createIdMaker, makeLacking, quoteName } from './adapter/made-ids.js'
export * from './adapter/many-rows.js'
export * from './adapter/refusals.js'
export * from './adapter/sealed-table.js'
export type { Filter, Page, Query, SearchCondition, Searches } from './adapter/searches.js'
export {
  BOUNDS,
  IGNORING_CASE,
  joinBounds,
  pageOf,
  readPage,
  readPattern,
  readSearch,
  takeSearches,
} from './adapter/searches.js'
export * from './adapter/spelling.js'
export * from './adapter/sql-parts.js'
export * from './adapter/sql-statements.js'
export type { Mention } from './adapter/sql-text.js'
export { isClosedSql, isOneSqlValue, isRowName, namesInSql, positionsInSql } from './adapter/sql-text.js'
export { assertUnchanged, assertWritable } from './adapter/triggers.js'
export type { Row } from './input.js'
export type { AnyModel } from './models/model.js'
export { looksSealed } from './models/plain-texts.js'
export { type AtCaller, rememberCaller, runFor } from './waiting.js'

/** The type that a model may declare for a column: for bytes, more types than it returns; for an object, some of its members. */
export type Declared<T> = T extends unknown
  ? Bytes extends T
    ? T | Binary
    : T extends Whole
      ? T
      : T extends object
        ? { [K in keyof T]?: Declared<T[K]> | undefined }
        : T
  : never

/** Values without fields inside. The first four may be branded, and then extend `object`. */
type Whole = string | number | bigint | boolean | Binary | Date | readonly unknown[]
/** The type of a column in which a model seals some members of an object. The object may have others. */
export type Holder<T> = T extends Whole ? T : T extends object ? { [K in keyof T]: Holder<T[K]> } & OtherColumns : T
/** The types of a model's values by its columns, as an application sees them. */
export type ColumnsOf<M> = M extends { readonly '~types'?: { plain: infer P; holder: infer H } }
  ? { [Column in keyof P]: Column extends H ? Holder<P[Column]> : P[Column] }
  : never

/** The type that is read from a field declared with this type. */
export type Read<T> = Binary extends T ? Exclude<T, Binary> | Bytes : T
