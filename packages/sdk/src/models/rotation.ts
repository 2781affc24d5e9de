/** Bringing stored rows to the current version of their key, or to new DEKs: see `rewrap` and `reseal` of a model. */
import type { WrappedKey } from '@eaas/protocol'
import { type EaasError, isEaasError } from '../errors.js'
import { demandNotAborted, demandWhole } from '../input.js'
import { readEnvelope } from '../records/envelopes.js'
import { demandRows } from '../records/records.js'
import type { CallOptions } from '../resources/keys.js'
import type { Definition } from './model.js'
import type { ModelDeps, ModelRows } from './model-rows.js'
import { envelopeAt, getAt, isCompact, isMissing, type Path, type Row, withValues } from './rows.js'

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
  const rewrapOne = (row: Row, index: number): RewrapItem<Row> => {
    const values: [Path, unknown][] = []
    for (const [path, wrapped] of wrappedKeys(definition, row, index)) {
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
    const items = batch.map((row, at) => attempt(start + at, () => [...wrappedKeys(definition, row, start + at)]))
    for (const found of items) {
      if (!Array.isArray(found)) continue
      for (const [, wrapped] of found) if (!known.has(nameOf(wrapped))) asked.set(nameOf(wrapped), wrapped)
    }
    await Promise.all([...asked].map(ask))
    return batch.map((row, at) => {
      const found = items[at]
      return Array.isArray(found) || !found ? rewrapOne(row, start + at) : found
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
  yield* inBatches(rows, options, async (batch, start) => {
    const { ok, failed, indexes } = await model.open(batch, { signal })
    const sealed = await model.seal(ok, { signal, ownDek: true })
    const items: RewrapItem<Row>[] = failed.map(({ index, error }) => ({
      index: start + index,
      status: 'failed',
      error,
    }))
    for (const [at, row] of sealed.entries()) items.push({ index: start + (indexes[at] ?? 0), status: 'changed', row })
    return items.sort((a, b) => a.index - b.index)
  })
}

/** Where the wrapped keys of a row are: in the envelopes, or in what the compact form stores once. */
function* wrappedKeys({ fields, header }: Definition, row: Row, index: number): Generator<[Path, WrappedKey]> {
  let headerSeen = false
  for (const { path, name } of fields) {
    const value = getAt(row, path)
    if (isMissing(value) || (isCompact(value) && headerSeen)) continue
    const wrapped = readEnvelope(envelopeAt(row, path, header), { index, field: name })
    yield [isCompact(value) ? [header] : path, wrapped]
    headerSeen ||= isCompact(value)
  }
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
    const items = await run(demandRows(batch), progress.done)
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

function attempt<T>(index: number, run: () => T): T | RewrapItem<Row> {
  try {
    return run()
  } catch (error) {
    if (!isEaasError(error)) throw error
    return { index, status: 'failed', error }
  }
}

function nameOf({ key_id, wrapped_key }: WrappedKey): string {
  return `${key_id}/${wrapped_key}`
}
