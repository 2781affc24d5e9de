/**
 * `@eaas/sdk/backfill`: encrypts a table that is in use, row by row and in place, adds indexes, rewraps and reseals, and tells in which form its
 * values are. An entry of its own, whose functions take the model: no page needs it.
 */
import type { AnyModel } from './any-model.js'
import { createCounts, type TableCounts, type Versions } from './backfill/forms.js'
import { createOpening, lookOnly } from './backfill/inspect.js'
import { type BackfillProgress, type RowFailure, runWork } from './backfill/run.js'
import { columnsOf, type TableSource } from './backfill/table.js'
import { type Reader, WORKS, type Work } from './backfill/works.js'
import { InvalidInputError } from './errors.js'
import { assertFlag, assertNotAborted, assertOptions, assertWhole, kindOf } from './input.js'
import { MAX_BATCH_ROWS } from './limits.js'
import type { Definition } from './models/definition.js'
import { findInternals, getInternals } from './models/internals.js'
import type { CallOptions } from './resources/keys.js'

export { type AwsDecrypted, type AwsMessageOptions, awsMessageReader } from './backfill/aws.js'
export { type CloakOptions, cloakReader } from './backfill/cloak.js'
export type { FieldCounts, IndexCounts, TableCounts } from './backfill/forms.js'
export { type PostgresOptions, type PostgresQuery, postgresTable } from './backfill/postgres.js'
export type { BackfillProgress, RowFailure } from './backfill/run.js'
export type { Table, TableChange, TableColumns, TableRow, TableSource } from './backfill/table.js'
export { type TransitOptions, type TransitPost, transitReader } from './backfill/transit.js'
export type { Reader } from './backfill/works.js'
export { DatabaseError } from './errors.js'
export type { Row } from './input.js'
export type { AnyModel }

const BATCH_ROWS = 200
const MAX_ROWS_PER_SECOND = 1_000_000

/**
 * Tells whether a value is a model that these functions take: one that this copy of the SDK made. For tools that load a model from a module of
 * an application, which may hold another copy.
 *
 * @example
 * ```ts
 * console.log(isModel(users), isModel({})) // → true false
 * ```
 */
export function isModel(value: unknown): value is AnyModel {
  return findInternals(value) !== undefined
}

/**
 * Returns what tells a model from others, as values of JSON: its name, keys, fields, indexes and forms. For tools that go on where an earlier run
 * stopped, which must have had the same model.
 *
 * @throws InvalidInputError when it is not a model of this copy of the SDK
 * @example
 * ```ts
 * console.log(describeModel(users).fields) // → [ 'email', 'phone' ]
 * ```
 */
export function describeModel(model: AnyModel): Record<string, unknown> {
  const { name, envelope, format, keyByRow, keyIds, bind, fields, columns } = getInternals(model).definition
  return {
    name,
    envelope,
    format,
    keys: keyByRow ? 'by row' : [...keyIds],
    bind: bind.map((column) => column.name),
    fields: fields.map((field) => field.name),
    indexes: columns.map(({ column }) => column),
  }
}

/**
 * What is done with each row. `seal`: seals rows of which a value is not sealed as the model seals (plaintext, format v1, a former key, another
 * library's), and adds indexes that are missing. `index`: makes all indexes anew, and no ciphertext. `rewrap`: renews wrapped keys of old
 * versions, and no ciphertext. `reseal`: seals every row anew under new DEKs.
 */
export type BackfillWork = keyof typeof WORKS

export interface InspectOptions extends CallOptions {
  /** Rows that are read and written at a time, 1 to 10,000; 200 by default. */
  batchSize?: number | undefined
  /** Begins behind this key: `after` of the last progress, to go on after a stop. */
  after?: string | undefined
  /** At most so many rows in a second; no limit by default. */
  rowsPerSecond?: number | undefined
  /** Called after each page, when its rows are written, and awaited. What it throws ends the run. */
  onProgress?: ((progress: BackfillProgress) => unknown) | undefined
  /** For `inspectTable`: whether each row is opened too, and its indexes are compared; otherwise only the forms are looked at. */
  open?: boolean | undefined
}

export interface BackfillOptions extends Omit<InspectOptions, 'open'> {
  /** `seal` by default. */
  work?: BackfillWork | undefined
  /**
   * By field: turns what a column holds that is no envelope into the field's value, such as another library's ciphertext into its
   * plaintext. Null, undefined and an error of its own refuse the value, and the row is left as it is.
   */
  read?: Readonly<Record<string, Reader>> | undefined
  /** Reads and checks everything, and writes nothing. Its `after` stays as it was given, since no row is done. */
  dryRun?: boolean | undefined
}

/** What was found in a table. Holds keys of rows, and no value of a field. */
export interface InspectReport {
  /** What was found, before anything was written. */
  found: TableCounts
  /** How many rows do not open, or stay as they were because they cannot be sealed or written. */
  failed: number
  /** The first 100 of them, and why. */
  failures: RowFailure[]
  /** The key of the last row. */
  after: string | undefined
}

/** What a run found and did; with `dryRun`, what it would have done. */
export interface BackfillReport extends InspectReport {
  rows: number
  changed: number
  /** Rows with nothing to do. */
  current: number
  /** Rows that others changed or held locked each time: run it again. */
  contended: number
  /** Rows that were deleted while the run worked on them. */
  gone: number
}

/**
 * Works through a table that is in use. Reads pages in the order of the keys and writes each row only if all columns of the model still hold what
 * was read, so that no write of the application is lost; a row that changed meanwhile is read again. A row that fails stays as it
 * is, and is in `failures`. May be killed at any time, and run again from the beginning or behind `after`: rows that are done cost
 * reading only. Accepts what the model accepts: for plaintext and for format v1 pass one with `acceptPlaintext` and `acceptUnbound`.
 *
 * Needs `keys:read`, `encrypt` and `decrypt`, and `hash` where the service makes the indexes.
 *
 * @throws InvalidInputError when an option or the table is wrong; DatabaseError (`E_DATABASE`) when the database fails; what `onProgress` and a
 * table of the application throw; and the errors of a client, when the service fails. Rows that were written stay so
 * @example
 * ```ts
 * const report = await backfill(users, postgresTable(query, 'users'), { onProgress: (progress) => console.log(progress) })
 * ```
 */
export async function backfill(
  model: AnyModel,
  table: TableSource,
  options: BackfillOptions = {},
): Promise<BackfillReport> {
  assertOptions('backfill()', options, [...SHARED_OPTIONS, 'work', 'read', 'dryRun'])
  const { work = 'seal', read = {}, dryRun = false } = options
  if (!Object.hasOwn(WORKS, work)) throw new InvalidInputError(`work must be one of ${Object.keys(WORKS).join(', ')}`)
  assertFlag('dryRun', dryRun)
  return run(model, table, { options, work: () => WORKS[work], read, dryRun, isResumable: !dryRun })
}

/**
 * Reads a whole table and counts in which form its values are; with `open` also opens each row and compares its indexes. Writes nothing. `left` of
 * `found` is zero when every value is sealed as the model seals, under the current version of its key, and every index is there. Options and errors
 * as of `backfill`; needs `keys:read`, and with `open` also `decrypt`, and `hash` where the service makes the indexes.
 *
 * @example
 * ```ts
 * const { found, failures } = await inspectTable(users, postgresTable(query, 'users'), { open: true })
 * ```
 */
export async function inspectTable(
  model: AnyModel,
  table: TableSource,
  options: InspectOptions = {},
): Promise<InspectReport> {
  assertOptions('inspectTable()', options, [...SHARED_OPTIONS, 'open'])
  assertFlag('open', options.open)
  const work = options.open ? createOpening : () => lookOnly
  const { found, failed, failures, after } = await run(model, table, {
    options,
    work,
    read: {},
    dryRun: true,
    isResumable: true,
  })
  return { found, failed, failures, after }
}

const SHARED_OPTIONS = ['signal', 'batchSize', 'after', 'rowsPerSecond', 'onProgress'] as const

interface Plan {
  options: InspectOptions
  work: (counts: TableCounts) => Work
  read: Readonly<Record<string, Reader>>
  dryRun: boolean
  isResumable: boolean
}

async function run(
  model: AnyModel,
  source: TableSource,
  { options, work, read, dryRun, isResumable }: Plan,
): Promise<BackfillReport> {
  const { batchSize = BATCH_ROWS, after, rowsPerSecond, onProgress, signal } = options
  assertNotAborted(signal)
  assertWhole('batchSize', batchSize, 1, MAX_BATCH_ROWS)
  if (rowsPerSecond !== undefined) assertWhole('rowsPerSecond', rowsPerSecond, 1, MAX_ROWS_PER_SECOND)
  if (after !== undefined && typeof after !== 'string') {
    throw new InvalidInputError('after must be the text that progress told', 'Omit it to begin at the first row.')
  }
  const { definition, load } = getInternals(model)
  if (definition.keyByRow) {
    const hint = 'Seal such rows by `encryptMany` or `reseal` of the model.'
    throw new InvalidInputError('a backfill needs a model with one key, not a key for each row', hint)
  }
  assertReaders(read, definition)
  const table = typeof source === 'function' ? await source(columnsOf(definition)) : source
  // The run itself refuses what the model does not accept: what a reader returns was not read from the table.
  const { rows, deps } = await load({ ...definition, acceptPlaintext: true, warn: false })
  const currentVersion = async (id: string) => [id, await deps.currentVersion(id, signal)] as const
  const versions: Versions = new Map(await Promise.all([...definition.keyIds].map(currentVersion)))
  const found = createCounts(definition)
  const { progress, failures } = await runWork(
    table,
    { definition, read, rows, deps, signal },
    {
      work: work(found),
      versions,
      counts: found,
      options: { batchSize, after, rowsPerSecond, dryRun, isResumable, onProgress },
    },
  )
  const { total: _, rowsPerSecond: _rate, secondsLeft: _left, ...done } = progress
  return { ...done, found, failures }
}

function assertReaders(read: Readonly<Record<string, unknown>>, { fields }: Definition): void {
  const names = fields.map(({ name }) => name)
  assertOptions('read', read, names)
  const wrong = Object.values(read).find((reader) => typeof reader !== 'function')
  if (wrong !== undefined) throw new InvalidInputError(`read: a reader must be a function, got ${kindOf(wrong)}`)
}
