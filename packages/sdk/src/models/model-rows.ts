/** Sealing and opening the rows of a model: loops that await nothing for each field where the engine answers at once. */
import type { Envelope } from '@eaas/protocol'
import { createBacklog } from '../async/backlog.js'
import { isPromise } from '../async/is-promise.js'
import { createPace, type Pace } from '../async/pace.js'
import { nameOf } from '../deks/decrypt-deks.js'
import { DecryptionError, type EaasError, InvalidInputError, isEaasError, placedAt } from '../errors.js'
import { demandNotAborted, isMissing, type Row } from '../input.js'
import { type OwnDek, readEnvelope } from '../records/envelopes.js'
import { getAt, type Path, withValues } from '../records/paths.js'
import { copyRow, demandPath } from '../records/plain-rows.js'
import { demandNoColumn, demandNoLookalike, demandNoNullObject } from '../records/presence.js'
import {
  BLOCK_RECORDS,
  copyRows,
  demandIndexColumn,
  demandList,
  hashEach,
  isIndexColumn,
  type OpenJob,
  type Progress,
  type RecordsOptions,
  restAndReport,
  unwrapEach,
  withDeks,
} from '../records/records.js'
import { CODECS } from './codecs.js'
import { columnText, columnValue, textsOf } from './index-columns.js'
import { type Definition, type IndexColumn, indexText, type PlacedField } from './model.js'
import { demandHeaderColumn, envelopeAt, isHeaderUsed, packRow } from './rows.js'

/** What a model needs of its client. */
export interface ModelDeps extends RecordsOptions {
  /** How many messages a DEK may seal. */
  maxMessages: number
  /** The current version of a key. */
  currentVersion(keyId: string, signal: AbortSignal | undefined): Promise<number>
}

/** A row that did not open: its place in the list that was given, and why. */
export interface FailedRow {
  index: number
  error: EaasError
}

/** What became of many rows: those that opened, in their order, and those that did not. */
export interface RowsResult<R> {
  ok: R[]
  failed: FailedRow[]
}

interface Options {
  signal?: AbortSignal | undefined
  onProgress?: ((progress: Progress) => void) | undefined
}

interface SealOptions extends Options {
  /** Whether the DEK must be another than the key's own. */
  ownDek?: boolean
}

/** Rows that opened, and where each of them stands in the list that was given. */
interface Opened extends RowsResult<Row> {
  indexes: number[]
}

export interface ModelRows {
  /** Seals all rows, or none. */
  seal(rows: readonly Row[], options: SealOptions): Promise<Row[]>
  /** Seals each row by itself; `indexes` are the places that errors name. */
  sealEach(rows: readonly Row[], options: SealOptions & { indexes: readonly number[] }): Promise<(Row | EaasError)[]>
  /** Opens each row by itself; the first one's place is `first`, 0 by default. */
  open(rows: readonly Row[], options: Options & { first?: number }): Promise<Opened>
  /** Has the indexes of a query's values made, by their columns. */
  hash(query: Row, signal: AbortSignal | undefined): Promise<Row>
}

/** The text of each index of a row, in the order of the columns; undefined where a value is missing. */
type Texts = readonly (string | undefined)[]

/** Makes what seals and opens rows as the definition says. */
export function createModelRows(deps: ModelDeps, definition: Definition): ModelRows {
  const { keyId, columns } = definition

  const sealRead = async (rows: readonly Row[], texts: readonly Texts[], pace: Pace, options: SealOptions) => {
    await deps.envelopes.ready()
    const values = new Set(texts.flat().filter((text) => text !== undefined))
    const hashing = hashEach(deps.batcher, values, { keyId, signal: options.signal }) // in one request with the wrap
    const [hashes, sealed] = await Promise.all([hashing, sealRows(deps, definition, rows, { ...options, pace })])
    for (const [at, row] of sealed.entries()) {
      for (const [number, column] of columns.entries()) {
        const text = texts[at]?.[number]
        row[column.column] = text === undefined ? null : columnValue(column, hashes.get(text) ?? '')
      }
    }
    options.onProgress?.({ done: rows.length, total: rows.length })
    return sealed
  }
  return {
    async seal(records, options) {
      demandNotAborted(options.signal)
      const rows = copyRows(records, { paths: definition.fields.map(({ path }) => path), toStore: true })
      const pace = createPace()
      const texts: Texts[] = []
      for (const read of readEach(definition, rows, [...rows.keys()])) {
        if (pace.due()) await rest(pace, options)
        if (isEaasError(read)) throw read
        texts.push(read)
      }
      return sealRead(rows, texts, pace, options)
    },
    async sealEach(rows, { indexes, ...options }) {
      const read = [...readEach(definition, rows, indexes)]
      const texts = read.filter((one): one is Texts => !isEaasError(one))
      const good = rows.filter((_, at) => !isEaasError(read[at]))
      try {
        const sealed = (await sealRead(good, texts, createPace(), options)).values()
        return read.map((one) => (isEaasError(one) ? one : (sealed.next().value ?? {})))
      } catch (error) {
        if (!isEaasError(error) || error.code === 'E_ABORTED') throw error
        return read.map((one) => (isEaasError(one) ? one : error)) // the service could not be asked
      }
    },
    async open(records, { first = 0, ...options }) {
      demandNotAborted(options.signal)
      demandList(records)
      await deps.envelopes.ready()
      return openRows(deps, definition, records, { ...options, first })
    },
    async hash(query, signal) {
      const texts = textsOf(definition, query)
      const hashes = await hashEach(deps.batcher, new Set(texts.values()), { keyId, signal })
      const row: Row = {}
      for (const [column, text] of texts) row[column.column] = columnValue(column, hashes.get(text) ?? '')
      return row
    },
  }
}

async function rest(pace: Pace, { signal }: Options): Promise<void> {
  await pace.rest()
  demandNotAborted(signal)
}

/** Checks every value of each row, and makes the texts of its indexes. */
function* readEach(
  definition: Definition,
  rows: readonly Row[],
  indexes: readonly number[],
): Generator<Texts | EaasError, void, undefined> {
  for (const [at, row] of rows.entries()) yield attempt(() => readTexts(definition, row, indexes[at] ?? at))
}

function readTexts({ fields, columns, names, format, header }: Definition, row: Row, index: number): Texts {
  for (const field of fields) {
    const { path, name, spec } = field
    demandPath(row, path, index)
    const value = getAt(row, path)
    if (isMissing(value)) demandNoLookalike(row, field, names, index)
    else demandNoColumn(row, field, index)
    if (value === undefined && !spec.missing.includes(undefined)) demandNoNullObject(row, field, index)
    const { demand } = spec.demand ? spec : CODECS[spec.kind]
    if (!isNothing(spec.missing, value)) demand?.(value, { index, field: name })
  }
  if (format === 'compact') demandHeaderColumn(row, header, index)
  return columns.map((column) => {
    demandIndexColumn(row, column, { index, field: column.fields[0]?.name ?? '' })
    return textOf(column, row, index)
  })
}

function textOf(column: IndexColumn, row: Row, index: number): string | undefined {
  const texts: string[] = []
  for (const field of column.fields) {
    const value = getAt(row, field.path)
    if (isMissing(value)) return undefined
    texts.push(indexText(field, value, index))
  }
  return columnText(column, texts)
}

async function sealRows(
  deps: ModelDeps,
  definition: Definition,
  rows: readonly Row[],
  options: SealOptions & { pace: Pace },
): Promise<Row[]> {
  const { envelopes } = deps
  const { keyId, fields, format, header } = definition
  const { pace, signal } = options
  const dek = options.ownDek && definition.dek === 'shared' ? 'call' : definition.dek
  const paths = fields.map(({ path }) => path)
  const backlog = createBacklog(envelopes.isSync())
  const out: Row[] = []
  const put = (at: number, present: readonly PlacedField[], sealed: readonly Envelope[]) => {
    const values = present.map(({ path }, number): [Path, unknown] => [path, sealed[number]])
    const full = withValues(rows[at] ?? {}, values)
    out[at] = format === 'compact' ? packRow(full, paths, header, at) : full
  }
  await withDeks(deps, { keyId, dek, count: rows.length, signal }, async (start, end, dekOf) => {
    for (let at = start; at < end; at++) {
      // Not before the first one: its DEK is asked for in the turn in which the indexes are.
      if (at > 0 && pace.due()) await restAndReport(deps, pace, options, { done: at, total: rows.length })
      const present = fields.filter(({ path, spec }) => !isNothing(spec.missing, getAt(rows[at] ?? {}, path)))
      const plaintexts = present.map(({ path, name, spec }) =>
        CODECS[spec.kind].encode(getAt(rows[at] ?? {}, path), { index: at, field: name }),
      )
      const own = dekOf(at)
      const sealed = own
        ? sealAllWith(deps, own, plaintexts)
        : plaintexts.length === 0
          ? []
          : envelopes.sealAll(plaintexts, keyId, signal)
      if (isPromise(sealed)) await backlog.add(sealed.then((list) => put(at, present, list)))
      else put(at, present, sealed)
    }
  })
  await backlog.flush()
  return out
}

function sealAllWith({ envelopes }: ModelDeps, own: OwnDek, plaintexts: readonly Uint8Array[]) {
  const sealed = plaintexts.map((plaintext) => envelopes.sealWith(own, plaintext))
  return envelopes.isSync() ? (sealed as Envelope[]) : Promise.all(sealed)
}

interface Job extends OpenJob {
  field: PlacedField
}

/** What became of one value. */
type Outcome = { value: unknown } | { error: EaasError }

/** Opens rows; each fails by itself. */
async function openRows(
  deps: ModelDeps,
  definition: Definition,
  rows: readonly unknown[],
  options: Options & { first: number },
): Promise<Opened> {
  const { signal, first } = options
  const pace = createPace()
  const deks = new Map<string, Uint8Array>()
  const result: Opened = { ok: [], failed: [], indexes: [] }
  try {
    for (let start = 0; start < rows.length; start += BLOCK_RECORDS) {
      const block = rows.slice(start, start + BLOCK_RECORDS)
      const read = Array.from(block, (given, at) =>
        attempt(() => {
          const row = copyStored(definition, given, first + start + at)
          return { row, jobs: readJobs(definition, row, first + start + at) }
        }),
      )
      const jobs = read.flatMap((one) => (isEaasError(one) ? [] : one.jobs))
      const refused = await unwrapEach(deps, jobs, deks, signal)
      const backlog = createBacklog(deps.envelopes.isSync())
      const opened = new Map<Job, Outcome>()
      for (const job of jobs) {
        if (pace.due()) {
          await restAndReport(deps, pace, options, { done: job.place.index - first, total: rows.length })
        }
        const dek = deks.get(nameOf(job.parts))
        if (!dek) continue
        const promise = openOne(deps, job, dek, (outcome) => opened.set(job, outcome))
        if (promise) await backlog.add(promise)
      }
      await backlog.flush()
      for (const [at, one] of read.entries()) {
        const index = first + start + at
        const row = isEaasError(one) ? one : join(definition, one.row, one.jobs, { opened, refused })
        if (isEaasError(row)) result.failed.push({ index, error: row })
        else {
          result.ok.push(row)
          result.indexes.push(index)
        }
      }
    }
  } finally {
    for (const dek of deks.values()) dek.fill(0)
  }
  options.onProgress?.({ done: rows.length, total: rows.length })
  return result
}

/** A copy of a stored row. @throws InvalidInputError when it is no row, or cannot be read */
export function copyStored({ fields, header }: Definition, row: unknown, index: number): Row {
  return copyRow(row, { index, paths: [...fields.map(({ path }) => path), [header]], toStore: false })
}

/** The envelopes of a row. @throws InvalidInputError when it is no row of the model */
export function readJobs({ fields, names, keyIds, header }: Definition, row: Row, index: number): Job[] {
  return fields.flatMap((field) => {
    const place = { index, field: field.name }
    demandPath(row, field.path, index)
    const value = getAt(row, field.path)
    if (!isMissing(value)) {
      const parts = readEnvelope(envelopeAt(row, field.path, header, place), place)
      if (keyIds.has(parts.key_id)) return [{ place, field, parts }]
      const message = `could not decrypt: sealed under the key ${parts.key_id}, which is not the model's`
      const hint = 'If rows were sealed under that key before, name it in `formerKeyIds`; else restore the envelope.'
      throw new DecryptionError(place, { message, hint })
    }
    if (value === undefined) demandNoLookalike(row, field, names, index)
    if (isLeftOut(field, value)) return []
    demandNoNullObject(row, field, index)
    const hint = 'Read its column too; where there may be none, declare the field optional() or nullable().'
    throw new InvalidInputError(`the value is ${String(value)}`, hint, place)
  })
}

function openOne(
  { envelopes }: ModelDeps,
  { parts, place, field, plaintext }: Job,
  dek: Uint8Array,
  tell: (outcome: Outcome) => void,
): Promise<void> | undefined {
  const fail = (error: unknown) => {
    if (!isEaasError(error)) throw error
    tell({ error })
  }
  const read = (bytes: Uint8Array) => {
    try {
      tell({ value: CODECS[field.spec.kind].decode(bytes, place) })
    } catch (error) {
      fail(error)
    }
  }
  try {
    const bytes = plaintext ?? envelopes.openWith(dek, parts, place)
    if (isPromise(bytes)) return bytes.then(read, fail)
    read(bytes)
  } catch (error) {
    fail(error)
  }
  return undefined
}

interface Outcomes {
  opened: ReadonlyMap<Job, Outcome>
  refused: ReadonlyMap<string, EaasError>
}

/** The row that its values make, or the first error. */
function join(definition: Definition, row: Row, jobs: readonly Job[], { opened, refused }: Outcomes): Row | EaasError {
  const { fields, columns, header } = definition
  const values: [Path, unknown][] = []
  for (const job of jobs) {
    const outcome = opened.get(job)
    if (!outcome || 'error' in outcome) {
      const error = outcome?.error ?? refused.get(nameOf(job.parts))
      if (error) return placedAt(error, job.place)
    } else values.push([job.field.path, outcome.value])
  }
  for (const { path, spec } of fields) {
    // What was left out comes back from a database as null.
    if (getAt(row, path) === null && !spec.missing.includes(null)) values.push([path, undefined])
  }
  const plain = withValues(row, values)
  for (const column of columns) if (isIndexColumn(row, column)) delete plain[column.column] // what is none is the application's
  const paths = fields.map(({ path }) => path)
  if (isHeaderUsed(row, paths, header)) delete plain[header]
  return plain
}

/** Whether a value may be missing in a row that was stored: databases have null for what was left out. */
function isLeftOut({ spec }: PlacedField, value: null | undefined): boolean {
  return isNothing(spec.missing, value) || (value === null && spec.missing.includes(undefined))
}

function isNothing(missing: readonly unknown[], value: unknown): boolean {
  return isMissing(value) && missing.includes(value)
}

/** What the function gives, or the error that it throws. */
export function attempt<T>(run: () => T): T | EaasError {
  try {
    return run()
  } catch (error) {
    if (!isEaasError(error)) throw error
    return error
  }
}
