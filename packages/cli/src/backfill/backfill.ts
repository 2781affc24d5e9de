/** `backfill` and `inspectTable`. The copy of the SDK that made the model does the SDK's part of the work. */
import { InvalidInputError } from '@eaas/sdk'
import type { AnyModel, Reader, TableCounts } from '@eaas/sdk/maintenance'
import * as sdk from '@eaas/sdk/maintenance'
import { type BackfillProgress, type FailureCause, type RowFailure, runWork } from './run.js'
import type { TableSource } from './table.js'

export const WORKS = ['seal', 'index', 'rewrap', 'reseal', 'open', 'check'] as const
const MAX_BATCH_ROWS = 10_000
const BATCH_ROWS = 200
const MAX_ROWS_PER_SECOND = 1_000_000

/**
 * What to do with each row. `seal`: seals rows with a value that is not sealed in the model's way (plaintext, format
 * v1, a former key, another library's), and adds missing indexes. `index`: makes all indexes anew, beginning with rows
 * that lack one; ciphertexts stay. `rewrap`: renews wrapped keys of old versions; ciphertexts stay. `reseal`: seals
 * every row anew under new DEKs. `open`: the opposite of `seal`: replaces each sealed value by its plaintext, and
 * leaves the indexes, by which the application still searches. `check`: opens every row and writes nothing, to find the
 * rows on which `open` would fail.
 */
export type BackfillWork = (typeof WORKS)[number]

export interface InspectOptions {
  /** Ends the run with AbortedError. */
  signal?: AbortSignal | undefined
  /** How many rows are read and written at a time, 1 to 10,000; 200 by default. */
  batchSize?: number | undefined
  /** Begins after this key. To continue after a stop, pass `after` of the last progress. */
  after?: string | undefined
  /** The most rows per second; no limit by default. */
  rowsPerSecond?: number | undefined
  /** Called and awaited after each page, once its rows are written. An error from it ends the run. */
  onProgress?: ((progress: BackfillProgress) => unknown) | undefined
  /** For `inspectTable`: whether to open each row and compare its indexes, not only count the forms. */
  open?: boolean | undefined
}

export interface BackfillOptions extends Omit<InspectOptions, 'open'> {
  /** `seal` by default. */
  work?: BackfillWork | undefined
  /**
   * By field: a function that reads a stored value which is not an envelope, such as another library's ciphertext. If
   * it returns null or undefined, or throws its own error, the row fails and stays as it is.
   */
  read?: Readonly<Record<string, Reader>> | undefined
  /** Reads and checks everything, and writes nothing. `after` stays as given, since no row is done. */
  dryRun?: boolean | undefined
}

/** What was found in a table. Contains keys of rows, but no value of a field. */
export interface InspectReport {
  /** What was found, before anything was written. */
  found: TableCounts
  /** How many rows do not open, or stayed as they were because they could not be sealed or written. */
  failed: number
  /** The first 100 of these rows, and why they failed. */
  failures: RowFailure[]
  /** The first 100 reasons, each with its rows. */
  causes: FailureCause[]
  after: string | undefined
}

/** What a run found and did; with `dryRun`, what it would have done. */
export type BackfillReport = InspectReport &
  Pick<BackfillProgress, 'rows' | 'changed' | 'current' | 'contended' | 'gone'>

/**
 * Works through a table that is in use. Reads pages in the order of the keys, and writes a row only if all columns of
 * the model still hold what was read, so that no write of the application is lost. A row that changed meanwhile is read
 * again. A row that fails stays as it is, and is in `failures`. May be killed at any time, and run again from the
 * beginning or with `after`: finished rows are only read. Accepts what the model accepts: to read plaintext or format
 * v1, the model needs `acceptPlaintext` or `acceptUnbound`.
 *
 * Needs `keys:read`, `wrap` and `unwrap`, and `hash` if the service makes the indexes; `open` and `check` need only
 * `unwrap`.
 *
 * @throws InvalidInputError when an option or the table is wrong; DatabaseError (`E_DATABASE`) when the database fails;
 * whatever `onProgress` or a table of the application throws; and the errors of a client, when the service fails.
 * Written rows stay written
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
  return backfillWith(sdk, model, table, options)
}

/**
 * Reads a whole table and counts the forms of its values; with `open`, also opens each row and compares its indexes.
 * Writes nothing. `left` of `found` is zero when every value is sealed in the model's way, under the current version of
 * its key, and no index is missing. Takes the options and throws the errors of `backfill`. Needs `keys:read`, and with
 * `open` also `unwrap`, and `hash` if the service makes the indexes.
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
  return inspectWith(sdk, model, table, options)
}

/** The SDK's part of a run. It comes from the copy of the SDK that made the model: an application may have several. */
export type Sdk = Pick<typeof sdk, 'describeModel' | 'getVersions' | 'isModel' | 'maintain'>

export async function backfillWith(
  sdkOfModel: Sdk,
  model: AnyModel,
  table: TableSource,
  options: BackfillOptions,
): Promise<BackfillReport> {
  sdk.assertOptions('backfill()', options, [...SHARED_OPTIONS, 'work', 'read', 'dryRun'])
  const { work = 'seal', read = {}, dryRun = false } = options
  if (!WORKS.includes(work)) throw new InvalidInputError(`work must be one of ${WORKS.join(', ')}`)
  sdk.assertFlag('dryRun', dryRun)
  const isCheck = work === 'check'
  const own = isCheck ? 'open' : work
  const isDry = dryRun || isCheck
  return run(sdkOfModel, { model, table, options, work: own, read, dryRun: isDry, isCheck, isResumable: !dryRun })
}

export async function inspectWith(
  sdkOfModel: Sdk,
  model: AnyModel,
  table: TableSource,
  options: InspectOptions,
): Promise<InspectReport> {
  sdk.assertOptions('inspectTable()', options, [...SHARED_OPTIONS, 'open'])
  sdk.assertFlag('open', options.open)
  const work = options.open ? 'compare' : 'look'
  const plan = { model, table, options, work, read: {}, dryRun: true, isCheck: true, isResumable: true } as const
  const { found, failed, failures, causes, after } = await run(sdkOfModel, plan)
  return { found, failed, failures, causes, after }
}

const SHARED_OPTIONS = ['signal', 'batchSize', 'after', 'rowsPerSecond', 'onProgress'] as const

interface Plan {
  model: AnyModel
  table: TableSource
  options: InspectOptions
  work: sdk.MaintenanceWork
  read: Readonly<Record<string, Reader>>
  dryRun: boolean
  isCheck: boolean
  isResumable: boolean
}

async function run({ describeModel, maintain }: Sdk, plan: Plan): Promise<BackfillReport> {
  const { model, table: source, options, work, read, dryRun, isCheck, isResumable } = plan
  const { batchSize = BATCH_ROWS, after, rowsPerSecond, onProgress, signal } = options
  sdk.assertNotAborted(signal)
  sdk.assertWhole('batchSize', batchSize, 1, MAX_BATCH_ROWS)
  if (rowsPerSecond !== undefined) sdk.assertWhole('rowsPerSecond', rowsPerSecond, 1, MAX_ROWS_PER_SECOND)
  if (after !== undefined && typeof after !== 'string') {
    const about = { option: 'after' }
    const hint = 'Omit it to begin at the first row.'
    throw new InvalidInputError('after must be the text that progress told', hint, about)
  }
  const { table: columns } = describeModel(model)
  const maintenance = await maintain(model, { work, read, dryRun, signal })
  const table = typeof source === 'function' ? await source(columns) : source
  if (!isCheck) await table.assertTakes?.(work === 'open' ? 'plaintext' : 'envelopes')
  const { progress, failures, causes } = await runWork(table, maintenance, {
    ...{ batchSize, after, rowsPerSecond, dryRun, isCheck, isResumable, signal, onProgress },
    isIndexing: work === 'index',
  })
  const { total: _, rowsPerSecond: _rate, secondsLeft: _left, ahead: _ahead, ...done } = progress
  return { ...done, found: maintenance.found, failures, causes }
}
