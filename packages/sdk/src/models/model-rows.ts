/** Sealing and opening the rows of a model: loops that await nothing for each field where the engine answers at once. */
import { type Envelope, type EnvelopeParts, FormatError } from '@eaas/protocol'
import { createBacklog } from '../async/backlog.js'
import { createPace, type Pace } from '../async/pace.js'
import { type EaasError, InvalidInputError, isEaasError, type RecordPlace } from '../errors.js'
import { demandNotAborted } from '../input.js'
import { type OwnDek, readEnvelope } from '../records/envelopes.js'
import {
  BLOCK_RECORDS,
  demandRows,
  hashEach,
  nameOf,
  type Progress,
  type RecordsOptions,
  restAndReport,
  withDeks,
} from '../records/records.js'
import { columnText, columnValue, type Definition, type IndexColumn, indexText, type PlacedField } from './model.js'
import { demandPath, envelopeAt, getAt, isMissing, type Path, packRow, type Row, withValues } from './rows.js'

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

export interface ModelRows {
  seal(rows: readonly Row[], options: Options & { ownDek?: boolean }): Promise<Row[]>
  open(rows: readonly Row[], options: Options): Promise<RowsResult<Row> & { indexes: number[] }>
  /** Has the indexes of texts made, by their columns. */
  hash(texts: ReadonlyMap<IndexColumn, string>, signal: AbortSignal | undefined): Promise<Row>
}

/** Makes what seals and opens rows as the definition says. */
export function createModelRows(deps: ModelDeps, definition: Definition): ModelRows {
  const { keyId, columns } = definition
  return {
    async seal(records, { ownDek = false, ...options }) {
      const { signal } = options
      demandNotAborted(signal)
      const rows = demandRows(records)
      const pace = createPace()
      const texts = await readTexts(definition, rows, pace, signal)
      await deps.envelopes.ready()
      const values = new Set(texts.flat().filter((text) => text !== undefined))
      const hashing = hashEach(deps.batcher, values, { keyId, signal }) // in one request with the wrap
      const sealing = sealRows(deps, definition, rows, { ...options, pace, ownDek })
      const [hashes, sealed] = await Promise.all([hashing, sealing])
      for (const [at, row] of sealed.entries()) {
        for (const [number, column] of columns.entries()) {
          const text = texts[at]?.[number]
          row[column.column] = text === undefined ? null : columnValue(column, hashes.get(text) ?? '')
        }
      }
      options.onProgress?.({ done: rows.length, total: rows.length })
      return sealed
    },
    async open(records, options) {
      demandNotAborted(options.signal)
      const rows = demandRows(records)
      await deps.envelopes.ready()
      return openRows(deps, definition, rows, options)
    },
    async hash(texts, signal) {
      const hashes = await hashEach(deps.batcher, new Set(texts.values()), { keyId, signal })
      const row: Row = {}
      for (const [column, text] of texts) row[column.column] = columnValue(column, hashes.get(text) ?? '')
      return row
    },
  }
}

/** Checks every value, and makes the text of each index of each row; undefined where a value is missing. */
async function readTexts(
  { fields, columns }: Definition,
  rows: readonly Row[],
  pace: Pace,
  signal: AbortSignal | undefined,
): Promise<(string | undefined)[][]> {
  const texts: (string | undefined)[][] = []
  for (const [index, row] of rows.entries()) {
    if (pace.due()) {
      await pace.rest()
      demandNotAborted(signal)
    }
    for (const { path, name, spec } of fields) {
      demandPath(row, path, index)
      const value = getAt(row, path)
      if (!isNothing(spec.missing, value)) spec.demand(value, { index, field: name })
    }
    texts.push(columns.map((column) => textOf(column, row, index)))
  }
  return texts
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

interface SealOptions extends Options {
  pace: Pace
  ownDek: boolean
}

async function sealRows(
  deps: ModelDeps,
  definition: Definition,
  rows: readonly Row[],
  options: SealOptions,
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
  await withDeks(deps, { keyId, dek, count: rows.length }, async (start, end, dekOf) => {
    for (let at = start; at < end; at++) {
      // Not before the first one: its DEK is asked for in the turn in which the indexes are.
      if (at > 0 && pace.due()) await restAndReport(pace, options, { done: at, total: rows.length })
      const present = fields.filter(({ path, spec }) => !isNothing(spec.missing, getAt(rows[at] ?? {}, path)))
      const plaintexts = present.map(({ path, name, spec }) =>
        spec.encode(getAt(rows[at] ?? {}, path), { index: at, field: name }),
      )
      const own = dekOf(at)
      const sealed = own
        ? sealAllWith(deps, own, plaintexts)
        : plaintexts.length === 0
          ? []
          : envelopes.sealAll(plaintexts, keyId, signal)
      if (sealed instanceof Promise) await backlog.add(sealed.then((list) => put(at, present, list)))
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

interface Job {
  place: RecordPlace
  field: PlacedField
  parts: EnvelopeParts
}

/** What became of one value. */
type Opened = { value: unknown } | { error: EaasError }

/** Opens rows; each fails by itself. */
async function openRows(
  deps: ModelDeps,
  definition: Definition,
  rows: readonly Row[],
  options: Options,
): Promise<RowsResult<Row> & { indexes: number[] }> {
  const { signal } = options
  const pace = createPace()
  const deks = new Map<string, Uint8Array>()
  const result: RowsResult<Row> & { indexes: number[] } = { ok: [], failed: [], indexes: [] }
  try {
    for (let start = 0; start < rows.length; start += BLOCK_RECORDS) {
      const block = rows.slice(start, start + BLOCK_RECORDS)
      const jobs = block.map((row, at) => readRow(definition, row, start + at))
      const refused = await unwrapAll(
        deps,
        jobs.flatMap((job) => (Array.isArray(job) ? job : [])),
        deks,
        signal,
      )
      const backlog = createBacklog(deps.envelopes.isSync())
      const opened = new Map<Job, Opened>()
      for (const job of jobs.flatMap((job) => (Array.isArray(job) ? job : []))) {
        if (pace.due()) await restAndReport(pace, options, { done: job.place.index, total: rows.length })
        const dek = deks.get(nameOf(job.parts))
        if (!dek) continue
        const promise = openOne(deps, job, dek, (outcome) => opened.set(job, outcome))
        if (promise) await backlog.add(promise)
      }
      await backlog.flush()
      for (const [at, job] of jobs.entries()) {
        const outcome = Array.isArray(job)
          ? join(definition, block[at] ?? {}, job, { opened, refused })
          : { error: job }
        if ('error' in outcome) result.failed.push({ index: start + at, error: outcome.error })
        else {
          result.ok.push(outcome.row)
          result.indexes.push(start + at)
        }
      }
    }
  } finally {
    for (const dek of deks.values()) dek.fill(0)
  }
  options.onProgress?.({ done: rows.length, total: rows.length })
  return result
}

function readRow({ fields, header }: Definition, row: Row, index: number): Job[] | EaasError {
  try {
    return fields.flatMap((field) => {
      const place = { index, field: field.name }
      demandPath(row, field.path, index)
      const value = getAt(row, field.path)
      if (isMissing(value)) {
        if (isNothing(field.spec.missing, value)) return []
        throw new InvalidInputError('the value is missing', 'Declare the field optional() or nullable().', place)
      }
      return [{ place, field, parts: readEnvelope(envelopeOf(row, field.path, header, place), place) }]
    })
  } catch (error) {
    if (!isEaasError(error)) throw error
    return error
  }
}

function envelopeOf(row: Row, path: Path, header: string, place: RecordPlace): unknown {
  try {
    return envelopeAt(row, path, header)
  } catch (error) {
    if (!(error instanceof FormatError)) throw error
    throw new InvalidInputError(
      `not an envelope: ${error.message}`,
      `Read the column ${JSON.stringify(header)} too.`,
      place,
    )
  }
}

/** One unwrap for each wrapped key not met before, all in one request; tells which were refused. */
async function unwrapAll(
  { decryptDeks, envelopes }: ModelDeps,
  jobs: readonly Job[],
  deks: Map<string, Uint8Array>,
  signal: AbortSignal | undefined,
): Promise<Map<string, EaasError>> {
  const firsts = new Map<string, Job>()
  for (const job of jobs) {
    const name = nameOf(job.parts)
    if (!deks.has(name) && !firsts.has(name)) firsts.set(name, job)
  }
  const refused = new Map<string, EaasError>()
  const unwrap = async ([name, { parts, place }]: [string, Job]) => {
    try {
      await decryptDeks.use(parts, signal, (dek) => {
        deks.set(name, envelopes.copyDek(dek))
        return envelopes.openWith(dek, parts, place) // shows that it is the right one, and may be cached
      })
    } catch (error) {
      if (!isEaasError(error) || error.code === 'E_ABORTED') throw error
      if (!deks.has(name)) refused.set(name, error)
    }
  }
  await Promise.all([...firsts].map(unwrap))
  return refused
}

function openOne(
  { envelopes }: ModelDeps,
  { parts, place, field }: Job,
  dek: Uint8Array,
  tell: (outcome: Opened) => void,
): Promise<void> | undefined {
  const fail = (error: unknown) => {
    if (!isEaasError(error)) throw error
    tell({ error })
  }
  const read = (bytes: Uint8Array) => {
    try {
      tell({ value: field.spec.decode(bytes, place) })
    } catch (error) {
      fail(error)
    }
  }
  try {
    const bytes = envelopes.openWith(dek, parts, place)
    if (bytes instanceof Promise) return bytes.then(read, fail)
    read(bytes)
  } catch (error) {
    fail(error)
  }
  return undefined
}

interface Outcomes {
  opened: ReadonlyMap<Job, Opened>
  refused: ReadonlyMap<string, EaasError>
}

function join(
  { columns, header }: Definition,
  row: Row,
  jobs: readonly Job[],
  { opened, refused }: Outcomes,
): { row: Row } | { error: EaasError } {
  const values: [Path, unknown][] = []
  for (const job of jobs) {
    const outcome = opened.get(job)
    const error = outcome && 'error' in outcome ? outcome.error : refused.get(nameOf(job.parts))
    if (error) return { error }
    if (outcome && 'value' in outcome) values.push([job.field.path, outcome.value])
  }
  const plain = withValues(row, values)
  for (const { column } of columns) delete plain[column]
  const shared = plain[header]
  if (shared === null || (typeof shared === 'object' && 'wrapped_key' in shared)) delete plain[header]
  return { row: plain }
}

function isNothing(missing: readonly unknown[], value: unknown): boolean {
  return isMissing(value) && missing.includes(value)
}
