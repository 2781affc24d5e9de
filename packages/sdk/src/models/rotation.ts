/** Bringing stored rows to the current version of their key, or to new DEKs: see `rewrap` and `reseal` of a model. */
import type { WrappedKey } from '@eaas/protocol'
import { nameOf } from '../deks/decrypt-deks.js'
import { type EaasError, isEaasError } from '../errors.js'
import { demandNotAborted, demandWhole, type Row } from '../input.js'
import type { CallOptions } from '../resources/keys.js'
import type { Definition } from './model.js'
import { attempt, type ModelDeps, type ModelRows, readJobs } from './model-rows.js'
import { getAt, isCompact, type Path, withValues } from './rows.js'

const BATCH_ROWS = 500
const MAX_BATCH_ROWS = 10_000
/** So many wrapped keys are remembered: rows that share one lie together more often than not. */
const MAX_KNOWN = 10_000

export interface RewrapOptions extends CallOptions {
  /** How many rows are read, sent and given back at a time, 1 to 10,000; 500 by default. */
  batchSize?: number | undefined
}

/** What became of one row; `index` counts from the first row on. */
export type RewrapItem<R> =
  | { index: number; status: 'changed'; row: R }
  /** It was under the current version already; `row` is the one that was given. */
  | { index: number; status: 'current'; row: R }
  | { index: number; status: 'failed'; error: EaasError }

/** What became of a batch of rows, and how far the work is. */
export interface RewrapBatch<R> {
  items: RewrapItem<R>[]
  /** Over all batches until now. */
  progress: { done: number; changed: number; current: number; failed: number }
}

/** Rewraps rows; see `Model.rewrap`. */
export async function* rewrapRows(
  deps: ModelDeps,
  definition: Definition,
  rows: Iterable<Row> | AsyncIterable<Row>,
  options: RewrapOptions,
): AsyncGenerator<RewrapBatch<Row>, void, undefined> {
  const { signal } = options
  const versions = new Map<string, Promise<number>>()
  const known = new Map<string, WrappedKey>()
  const refused = new Map<string, EaasError>()

  const findVersion = (key_id: string): Promise<number> => {
    const version = versions.get(key_id) ?? deps.currentVersion(key_id, signal)
    versions.set(key_id, version)
    version.catch(() => versions.delete(key_id)) // told to who asked; the next batch asks again
    return version
  }
  const ask = async ([name, wrapped]: [string, WrappedKey]) => {
    try {
      const isOld = wrapped.key_version < (await findVersion(wrapped.key_id))
      known.set(name, isOld ? await deps.batcher.rewrap(wrapped, signal) : wrapped)
    } catch (error) {
      if (!isEaasError(error) || error.code === 'E_ABORTED') throw error
      refused.set(name, error)
    }
  }
  const rewrapOne = (row: Row, keys: WrappedKeys, index: number): RewrapItem<Row> => {
    const values: [Path, unknown][] = []
    for (const [path, wrapped] of keys) {
      const error = refused.get(nameOf(wrapped))
      if (error) return { index, status: 'failed', error }
      const { wrapped_key, key_version } = known.get(nameOf(wrapped)) ?? wrapped
      if (wrapped_key === wrapped.wrapped_key) continue
      values.push([path, { ...(getAt(row, path) as Row), wrapped_key, key_version }])
    }
    if (values.length === 0) return { index, status: 'current', row }
    return { index, status: 'changed', row: withValues(row, values) }
  }

  yield* inBatches(rows, options, async (batch, start) => {
    if (known.size > MAX_KNOWN) known.clear()
    refused.clear()
    const asked = new Map<string, WrappedKey>()
    const read = batch.map((row, at) => attempt(() => wrappedKeys(definition, row, start + at)))
    for (const keys of read) {
      if (isEaasError(keys)) continue
      for (const [, wrapped] of keys) if (!known.has(nameOf(wrapped))) asked.set(nameOf(wrapped), wrapped)
    }
    await Promise.all([...asked].map(ask))
    return read.map((keys, at) => {
      const index = start + at
      return isEaasError(keys) ? { index, status: 'failed', error: keys } : rewrapOne(batch[at] ?? {}, keys, index)
    })
  })
}

/** Opens rows and seals them under new DEKs; see `Model.reseal`. */
export async function* resealRows(
  model: ModelRows,
  rows: Iterable<Row> | AsyncIterable<Row>,
  options: RewrapOptions,
): AsyncGenerator<RewrapBatch<Row>, void, undefined> {
  const { signal } = options
  yield* inBatches(rows, options, async (batch, first) => {
    const { ok, failed, indexes } = await model.open(batch, { signal, first })
    const sealed = await model.sealEach(ok, { signal, indexes, ownDek: true })
    const items: RewrapItem<Row>[] = failed.map(({ index, error }) => ({ index, status: 'failed', error }))
    for (const [at, row] of sealed.entries()) {
      const index = indexes[at] ?? first
      items.push(isEaasError(row) ? { index, status: 'failed', error: row } : { index, status: 'changed', row })
    }
    return items.sort((a, b) => a.index - b.index)
  })
}

/** The wrapped keys of a row, and where they are: in the envelopes, or in what the compact form stores once. */
type WrappedKeys = [Path, WrappedKey][]

function wrappedKeys(definition: Definition, row: Row, index: number): WrappedKeys {
  const keys: WrappedKeys = []
  let headerSeen = false
  for (const { field, parts } of readJobs(definition, row, index)) {
    const isInHeader = isCompact(getAt(row, field.path))
    if (!isInHeader) keys.push([field.path, parts])
    else if (!headerSeen) keys.push([[definition.header], parts])
    headerSeen ||= isInHeader
  }
  return keys
}

async function* inBatches(
  rows: Iterable<Row> | AsyncIterable<Row>,
  { batchSize = BATCH_ROWS, signal }: RewrapOptions,
  run: (batch: readonly Row[], start: number) => Promise<RewrapItem<Row>[]>,
): AsyncGenerator<RewrapBatch<Row>, void, undefined> {
  demandWhole('batchSize', batchSize, 1, MAX_BATCH_ROWS)
  const progress = { done: 0, changed: 0, current: 0, failed: 0 }
  const finish = async (batch: readonly Row[]): Promise<RewrapBatch<Row>> => {
    demandNotAborted(signal)
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
