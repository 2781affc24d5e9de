/** What a model exposes beyond its interface, to ORM adapters and to the maintenance of stored rows. */
import { InvalidInputError } from '../errors.js'
import type { Row } from '../input.js'
import type { RecordField } from '../records/paths.js'
import type { Definition, PlacedField, RowFormat } from './definition.js'
import type { IndexColumn } from './index-columns.js'
import type { ModelRows } from './model-rows.js'
import type { SealDeps } from './seal-rows.js'

/** What a model exposes to adapters, which are other packages. The model may come from another copy of this package. */
export interface ModelAccess {
  readonly name: string
  readonly fields: readonly PlacedField[]
  readonly bind: readonly RecordField[]
  readonly columns: readonly IndexColumn[]
  readonly format: RowFormat
  /** Whether rows have a seal in the column `row_seal`, and are written and read as a whole. */
  readonly rowSeal: boolean
  readonly header: string
  readonly keyByRow: boolean
  /** Returns a row's key; `watch` wraps the row for `keyId`. @throws InvalidInputError if its columns do not determine the key */
  keyOf(row: Row, index: number, watch?: (plain: Row) => Row): string
  load(): Promise<AccessRows>
}

export interface AccessRows {
  /** Seals all or some fields of rows, with the indexes over only these. A field that may be missing also takes null. */
  seal(rows: readonly Row[], fields?: readonly string[]): Promise<Row[]>
  /** Opens some fields of all rows, or none. Keeps every null, as from an outer join, and the index columns. */
  open(rows: readonly Row[], fields: readonly string[]): Promise<Row[]>
  index(query: Row, signal?: AbortSignal): Promise<Row>
}

/** The member of a model that is its `ModelAccess`. Its number changes with that interface. */
const MODEL_ACCESS = Symbol.for('eaas.model/1')

export function withAccess<M extends object>(model: M, definition: Definition, load: () => Promise<AccessRows>): M {
  const { name, fields, bind, columns, format, rowSeal, header, keyByRow, keyOf } = definition
  const access: ModelAccess = { name, fields, bind, columns, format, rowSeal, header, keyByRow, keyOf, load }
  return Object.defineProperty(model, MODEL_ACCESS, { value: access })
}

/** @throws InvalidInputError when it is not a model, or one of an SDK version with another `ModelAccess` */
export function getModelAccess(model: unknown): ModelAccess {
  const access = (model as Partial<Record<symbol, ModelAccess>> | null | undefined)?.[MODEL_ACCESS]
  if (access) return access
  const hint = 'Pass the model itself. If it is one, @eaas/sdk is installed in two versions.'
  throw new InvalidInputError('expected a model, made by model() of a client', hint)
}

/** What the maintenance needs of a model. Kept apart, so that no program reaches it through the model. */
export interface ModelInternals {
  definition: Definition
  /** Makes the functions that seal and open rows, for the definition or one derived from it. */
  load(some: Definition): Promise<{ rows: ModelRows; deps: SealDeps }>
}

const known = new WeakMap<object, ModelInternals>()

export function keepInternals<M extends object>(model: M, internals: ModelInternals): M {
  known.set(model, internals)
  return model
}

/** Returns undefined for what is not a model of this copy of the SDK. */
export function findInternals(model: unknown): ModelInternals | undefined {
  return known.get(model as object) // also undefined for what is not an object
}

export function getInternals(model: unknown): ModelInternals {
  const internals = findInternals(model)
  if (internals) return internals
  throw new InvalidInputError(
    'expected a model, made by model() of a client of this copy of @eaas/sdk: `import` and `require` load one each',
    'Pass such a model, and load the entries of @eaas/sdk all by `import`, or all by `require`.',
  )
}
