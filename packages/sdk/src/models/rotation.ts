/** Moves stored rows to the current version of their key, or to new DEKs. See `rewrap` and `reseal` of a model. */
import { type WrappedKey, wrappingVersion } from '@eaas/protocol'
import { dekName } from '../deks/decrypt-deks.js'
import { type EaasError, InvalidInputError, isEaasError, placedAt } from '../errors.js'
import { assertNotAborted, assertOptions, assertWhole, isObject, kindOf, listHint, type Row } from '../input.js'
import { attempt, failureOf, type OpenDeps } from '../records/blocks.js'
import { getAt, type Path, withValues } from '../records/paths.js'
import { type CommittedKey, withWrappedKey } from '../records/rewrapping.js'
import type { CallOptions } from '../resources/keys.js'
import { createPace, type Soon } from '../waiting.js'
import { named, naming } from './bindings.js'
import { headerTextOf, isCompact, isHeaderText } from './compact-rows.js'
import type { Definition, Rare } from './definition.js'
import type { ModelRows } from './model-rows.js'
import type * as OpenRows from './open-rows.js'
import type * as SealRows from './seal-rows.js'
import type { RowRead, SealDeps, SealOptions } from './seal-rows.js'

const BATCH_ROWS = 500
const MAX_BATCH_ROWS = 10_000
/** How many wrapped keys are remembered. Rows that share one are usually close together. */
const MAX_KNOWN = 10_000

export interface RewrapOptions extends CallOptions {
  /** How many rows are read, sent and returned at a time, 1 to 10,000; 500 by default. */
  batchSize?: number | undefined
}

/** The result for one row. `index` counts from 0 over all batches. */
export type RewrapItem<R> =
  | { index: number; status: 'changed'; row: R }
  /** The row was already under the current version, and is returned unchanged. */
  | { index: number; status: 'current'; row: R }
  | { index: number; status: 'failed'; error: EaasError }

export interface RewrapBatch<R> {
  items: RewrapItem<R>[]
  progress: { done: number; changed: number; current: number; failed: number }
}

interface RewrapDeps extends OpenDeps, Pick<typeof OpenRows, 'copyStored' | 'readJobs'> {
  loadRare: () => Soon<Rare>
}

export async function* rewrapRows(
  deps: RewrapDeps,
  definition: Definition,
  rows: Iterable<Row> | AsyncIterable<Row>,
  options: RewrapOptions,
): AsyncGenerator<RewrapBatch<Row>, void, undefined> {
  const { signal } = options
  definition.late.rare ??= await deps.loadRare()
  const versions = new Map<string, Promise<number>>()
  const known = new Map<string, WrappedKey>()
  const refused = new Map<string, EaasError>()

  const findVersion = (key_id: string): Promise<number> => {
    const version = versions.get(key_id) ?? deps.getKey(key_id, signal).then((key) => key.current_version)
    versions.set(key_id, version)
    version.catch(() => versions.delete(key_id)) // this batch's callers get the error; the next batch tries again
    return version
  }
  const ask = async ([name, wrapped]: [string, CommittedKey]) => {
    try {
      const isOld = wrappingVersion(wrapped) < (await findVersion(wrapped.key_id))
      known.set(name, isOld ? await deps.rewrap(wrapped, signal) : wrapped)
    } catch (error) {
      refused.set(name, failureOf(error))
    }
  }
  const rewrapOne = (row: Row, keys: WrappedKeys, index: number): Row | EaasError | undefined => {
    const values: [Path, unknown][] = []
    for (const [path, wrapped] of keys) {
      const error = refused.get(nameOf(wrapped))
      if (error) return named(placedAt(error, { index, field: path.join('.') }), definition, row)
      const now = known.get(nameOf(wrapped)) ?? wrapped
      if (now.wrapped_key === wrapped.wrapped_key) continue
      const stored = getAt(row, path)
      values.push([path, isHeaderText(stored) ? headerTextOf({ ...wrapped, ...now }) : withWrappedKey(stored, now)])
    }
    return values.length === 0 ? undefined : withValues(row, values)
  }

  yield* inBatches(rows, options, 'rewrap()', async (batch, start) => {
    if (known.size > MAX_KNOWN) known.clear()
    refused.clear()
    const failure = await definition.named?.find(deps.findKey, options.signal).catch(failureOf)
    const asked = new Map<string, CommittedKey>()
    const read = batch.map((given, at) =>
      attempt(() => {
        const row = deps.copyStored(definition, given, start + at)
        return {
          row,
          keys: naming(definition, row, () =>
            wrappedKeys(definition, deps.readJobs(definition, row, start + at, failure), row),
          ),
        }
      }),
    )
    for (const one of read) {
      if (isEaasError(one)) continue
      for (const [, wrapped] of one.keys) if (!known.has(nameOf(wrapped))) asked.set(nameOf(wrapped), wrapped)
    }
    await Promise.all([...asked].map(ask))
    return read.map((one, at) => {
      const index = start + at
      const row = isEaasError(one) ? one : rewrapOne(one.row, one.keys, index)
      return row ? itemOf(index, row) : { index, status: 'current', row: batch[at] ?? {} }
    })
  })
}

export async function* resealRows(
  model: ModelRows,
  rows: Iterable<Row> | AsyncIterable<Row>,
  options: RewrapOptions,
): AsyncGenerator<RewrapBatch<Row>, void, undefined> {
  const { signal } = options
  yield* inBatches(rows, options, 'reseal()', async (batch, first) => {
    const { ok, failed, indexes } = await model.open(batch, { signal, first })
    const sealed = await model.sealEach(ok, { signal, indexes, ownDek: true })
    const items = failed.map(({ index, error }) => itemOf(index, error))
    for (const [at, row] of sealed.entries()) items.push(itemOf(indexes[at] ?? first, row))
    return items.sort((a, b) => a.index - b.index)
  })
}

function itemOf(index: number, row: Row | EaasError): RewrapItem<Row> {
  return isEaasError(row) ? { index, status: 'failed', error: row } : { index, status: 'changed', row }
}

/** Names all that the result of a wrapped key depends on, so that an altered row affects no other. */
function nameOf(wrapped: CommittedKey): string {
  return [wrappingVersion(wrapped), wrapped.commitment, wrapped.needsSecret, dekName(wrapped)].join('/')
}

/** A row's wrapped keys with their paths, from its envelopes or from the compact form's header. */
type WrappedKeys = [Path, CommittedKey][]

function wrappedKeys(definition: Definition, jobs: ReturnType<typeof OpenRows.readJobs>, row: Row): WrappedKeys {
  const keys: WrappedKeys = []
  let headerSeen = false
  for (const { field, parts } of jobs) {
    const isInHeader = isCompact(getAt(row, field.path))
    if (!isInHeader) keys.push([field.path, parts])
    else if (!headerSeen) keys.push([[definition.header], parts])
    headerSeen ||= isInHeader
  }
  return keys
}

async function* inBatches(
  rows: Iterable<Row> | AsyncIterable<Row>,
  options: RewrapOptions,
  name: 'rewrap()' | 'reseal()',
  run: (batch: readonly Row[], start: number) => Promise<RewrapItem<Row>[]>,
): AsyncGenerator<RewrapBatch<Row>, void, undefined> {
  assertOptions(name, options, ['batchSize', 'signal'])
  const { batchSize = BATCH_ROWS, signal } = options
  assertIterable(rows)
  assertWhole('batchSize', batchSize, 1, MAX_BATCH_ROWS)
  const progress = { done: 0, changed: 0, current: 0, failed: 0 }
  const finish = async (batch: readonly Row[]): Promise<RewrapBatch<Row>> => {
    assertNotAborted(signal)
    const items = await run(batch, progress.done)
    progress.done += batch.length
    for (const { status } of items) progress[status]++
    return { items, progress: { ...progress } }
  }
  let batch: Row[] = []
  for await (const row of rows) {
    if (batch.push(row) < batchSize) continue
    yield await finish(batch)
    batch = []
  }
  if (batch.length > 0) yield await finish(batch)
}

function assertIterable(rows: unknown): void {
  const iterable = rows as Partial<Iterable<Row> & AsyncIterable<Row>>
  if (isObject(rows) && (iterable[Symbol.asyncIterator] ?? iterable[Symbol.iterator])) return
  throw new InvalidInputError(`rows must be an array or another iterable, got ${kindOf(rows)}`, listHint(rows))
}

export async function sealEach(
  sealing: Pick<typeof SealRows, 'readRow' | 'sealRead'>,
  deps: SealDeps,
  { definition, rows }: { definition: Definition; rows: readonly Row[] },
  { indexes, ...options }: SealOptions & { indexes: readonly number[] },
): Promise<(Row | EaasError)[]> {
  const failure = await definition.named?.find(deps.ensureKey, options.signal).catch(failureOf)
  definition.late.rare ??= await deps.loadRare()
  const read = failure ? rows.map(() => failure) : readEach(sealing, definition, rows, indexes)
  const byKey: Record<string, RowRead[]> = {}
  for (const one of read) {
    if (isEaasError(one)) continue
    const { keyId = '' } = one
    byKey[keyId] ??= []
    byKey[keyId].push(one)
  }
  const sealed = new Map<unknown, Row | EaasError>()
  const pace = createPace()
  // A key that cannot be used fails only its own rows. The wraps of all keys are still sent together.
  const sealingEach = Object.values(byKey).map(async (own) => {
    const made = await sealing
      .sealRead(deps, definition, own, { ...options, pace })
      .catch((error) => own.map(() => failureOf(error)))
    for (const [at, one] of own.entries()) sealed.set(one, made[at] ?? {})
  })
  await Promise.all(sealingEach)
  return read.map((one) => (isEaasError(one) ? one : (sealed.get(one) ?? {})))
}

/** Reads each row as `readRow` does. Returns an error for each that it refuses. */
export function readEach(
  { readRow }: Pick<typeof SealRows, 'readRow'>,
  definition: Definition,
  rows: readonly Row[],
  indexes: readonly number[],
): (RowRead | EaasError)[] {
  return rows.map((row, at) =>
    attempt(() => naming(definition, undefined, () => readRow(definition, row, indexes[at] ?? at))),
  )
}
