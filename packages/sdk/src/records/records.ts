/** Many records at once: one DEK for all rows, loops that await nothing for each field. */
import type { Envelope, EnvelopeParts } from '@eaas/protocol'
import { createBacklog } from '../async/backlog.js'
import { createPace, type Pace } from '../async/pace.js'
import { type DecryptDeks, nameOf } from '../deks/decrypt-deks.js'
import { type DekScope, demandScope, makeOwnDek, type Wrap } from '../deks/own-dek.js'
import { AbortedError, type EaasError, InvalidInputError, isEaasError, type RecordPlace } from '../errors.js'
import type { Batcher } from '../http/batcher.js'
import {
  demandHashable,
  demandKeyId,
  demandNotAborted,
  demandOptions,
  demandValue,
  isMissing,
  isName,
  kindOf,
  type Row,
  readValue,
  toText,
  valueIn,
} from '../input.js'
import { type Bundle, type Envelopes, type OwnDek, readEnvelope } from './envelopes.js'

type Missing = null | undefined
type Sealable = string | Uint8Array | Missing
type Openable = Envelope | Bundle | Missing

/** The names of the fields of `R` that can hold `V`. */
export type FieldOf<R, V> = { [K in keyof R & string]-?: R[K] extends V ? K : never }[keyof R & string]
/** The names of the fields of `R` that can be sealed: text, bytes, or missing. */
export type SealableField<R> = FieldOf<R, Sealable>
/** The names of the fields of `R` that hold envelopes, or nothing. */
export type OpenableField<R> = FieldOf<R, Openable>

type Replaced<R, F extends keyof R, V> = Omit<R, F> & {
  [K in keyof Pick<R, F>]: Extract<R[K], Missing> | (Exclude<R[K], Missing> extends never ? never : V)
}
type IndexColumns<R, I> = { [K in keyof I & keyof R as I[K] & string]: Extract<R[K], Missing> | string }

/** A record whose fields `F` are sealed, with the columns of the blind indexes `I` added. */
export type EncryptedRecord<R, F extends keyof R, I = Record<never, never>> = Replaced<R, F, Envelope> &
  IndexColumns<R, I>
/** A record whose fields `F` are opened to `V`. */
export type DecryptedRecord<R, F extends keyof R, V> = Replaced<R, F, V>

/** How far a call on many records is, in records. */
export interface Progress {
  done: number
  total: number
}

export interface EncryptManyOptions<F extends string, I extends { readonly [K in F]?: string }> {
  /** The key under which all fields are sealed. */
  keyId: string
  /** The fields to seal; the others stay as they are. */
  fields: readonly F[]
  /** Which DEK seals the rows: the key's (`shared`), one for this call, or one for each record. */
  dek?: DekScope | undefined
  /** For each field that is to be found again by its exact value: the name of the column for its blind index. */
  index?: I
  signal?: AbortSignal | undefined
  /** Called now and then, and at the end. */
  onProgress?: ((progress: Progress) => void) | undefined
}

export interface DecryptManyOptions<F extends string, A extends 'text' | 'bytes'> {
  /** The fields to open; the others stay as they are. */
  fields: readonly F[]
  /** What the fields become; text by default. */
  as?: A
  signal?: AbortSignal | undefined
  /** Called now and then, and at the end. */
  onProgress?: ((progress: Progress) => void) | undefined
}

export interface RecordsOptions {
  wrap: Wrap
  envelopes: Envelopes
  decryptDeks: DecryptDeks
  batcher: Batcher
  /** Aborted when the client is closed. */
  closed: AbortSignal
}

/** So many records' envelopes are decoded at a time: memory stays flat however long the list is. */
export const BLOCK_RECORDS = 1_000
/** So many blind indexes are asked for at a time: a few requests that are full. */
const BLOCK_HASHES = 4_000

/** Seals the fields of all records; see `Client.encryptMany`. */
export async function encryptRecords(
  deps: RecordsOptions,
  records: readonly object[],
  options: EncryptManyOptions<string, Record<string, string>>,
): Promise<Row[]> {
  demandOptions('encryptMany()', options)
  const { envelopes, batcher } = deps
  const { keyId, fields, index = {}, dek = 'shared', signal } = options
  demandNotAborted(signal)
  demandKeyId(keyId)
  demandScope(dek)
  demandFields(fields)
  demandIndex(index, fields)
  const rows = demandRows(records)
  const pace = createPace()
  await checkRows(rows, { fields, index, pace, signal })
  await envelopes.ready()
  const hashes = await hashAll(batcher, rows, options, pace)
  const sealed: Row[] = []
  const backlog = createBacklog(envelopes.isSync())
  await withDeks(deps, { keyId, dek, count: rows.length, signal }, async (start, end, dekOf) => {
    for (let at = start; at < end; at++) {
      if (pace.due()) await restAndReport(deps, pace, options, { done: at, total: rows.length })
      const row = rows[at] ?? {}
      const own = dekOf(at)
      const out = { ...row }
      for (const field of fields) {
        const value = valueIn(row, field)
        if (isMissing(value)) continue
        const plaintext = readValue(value, { index: at, field })
        const envelope = own ? envelopes.sealWith(own, plaintext) : envelopes.seal(plaintext, keyId, signal)
        if (!(envelope instanceof Promise)) out[field] = envelope
        else await backlog.add(envelope.then((sealed) => Object.assign(out, { [field]: sealed })))
      }
      for (const [field, column] of Object.entries(index)) {
        const value = valueIn(row, field)
        out[column] = isMissing(value) ? value : hashes.get(value as string)
      }
      sealed.push(out)
    }
  })
  await backlog.flush()
  options.onProgress?.({ done: rows.length, total: rows.length })
  return sealed
}

/** Opens the fields of all records; see `Client.decryptMany`. */
export async function decryptRecords(
  deps: RecordsOptions,
  records: readonly object[],
  options: DecryptManyOptions<string, 'text' | 'bytes'>,
): Promise<Row[]> {
  demandOptions('decryptMany()', options)
  const { fields, as = 'text', signal } = options
  demandNotAborted(signal)
  demandFields(fields)
  if (as !== 'text' && as !== 'bytes') throw new InvalidInputError('as must be "text" or "bytes"')
  const rows = demandRows(records)
  const pace = createPace()
  await deps.envelopes.ready()
  const backlog = createBacklog(deps.envelopes.isSync())
  const opened: Row[] = rows.map((row) => ({ ...row }))
  const deks = new Map<string, Uint8Array>()
  try {
    for (let start = 0; start < rows.length; start += BLOCK_RECORDS) {
      const jobs = readJobs(rows, fields, start)
      const finish = (job: OpenJob, plaintext: Uint8Array) => {
        const row = opened[job.place.index]
        if (row) row[job.place.field] = as === 'text' ? toText(plaintext, job.place) : plaintext
      }
      demandNotAborted(signal)
      const [refused] = (await unwrapEach(deps, jobs, deks, signal)).values()
      if (refused) throw refused
      for (const job of jobs) {
        if (pace.due()) await restAndReport(deps, pace, options, { done: job.place.index, total: rows.length })
        const dek = deks.get(nameOf(job.parts))
        const plaintext = job.plaintext ?? (dek && deps.envelopes.openWith(dek, job.parts, job.place))
        if (plaintext instanceof Promise) await backlog.add(plaintext.then((bytes) => finish(job, bytes)))
        else if (plaintext) finish(job, plaintext)
      }
      await backlog.flush()
    }
  } finally {
    for (const dek of deks.values()) dek.fill(0)
  }
  options.onProgress?.({ done: rows.length, total: rows.length })
  return opened
}

/**
 * Runs the task for blocks of records; `dekOf` tells it the DEK that is a record's own, where the scope says so. Each such DEK
 * is wiped after its block, and those of a block are wrapped together.
 */
export async function withDeks(
  { wrap, decryptDeks }: Pick<RecordsOptions, 'wrap' | 'decryptDeks'>,
  { keyId, dek, count, signal }: { keyId: string; dek: DekScope; count: number; signal: AbortSignal | undefined },
  task: (start: number, end: number, dekOf: (at: number) => OwnDek | undefined) => Promise<void>,
): Promise<void> {
  const block = dek === 'record' ? BLOCK_RECORDS : count
  for (let start = 0; start < count; start += block) {
    const end = Math.min(count, start + block)
    const own = await makeDeks(dek === 'shared' ? 0 : dek === 'call' ? 1 : end - start, () =>
      makeOwnDek(wrap, keyId, signal),
    )
    try {
      if (dek === 'call' && own[0]) decryptDeks.add(own[0].wrapped, own[0].dek)
      await task(start, end, (at) => own[dek === 'call' ? 0 : at - start])
    } finally {
      for (const { dek } of own) dek.fill(0)
    }
  }
}

async function makeDeks(count: number, make: () => Promise<OwnDek>): Promise<OwnDek[]> {
  const made = await Promise.allSettled(Array.from({ length: count }, make))
  const deks = made.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  const failed = made.find((result) => result.status === 'rejected')
  if (!failed) return deks
  for (const { dek } of deks) dek.fill(0)
  throw failed.reason
}

/** One value to open. */
export interface OpenJob {
  place: RecordPlace
  parts: EnvelopeParts
  /** Where it was opened already, to see whether its DEK is the right one. */
  plaintext?: Uint8Array
}

function readJobs(rows: readonly Row[], fields: readonly string[], start: number): OpenJob[] {
  const jobs: OpenJob[] = []
  for (let index = start; index < Math.min(start + BLOCK_RECORDS, rows.length); index++) {
    for (const field of fields) {
      const value = valueIn(rows[index] ?? {}, field)
      if (isMissing(value)) continue
      const place = { index, field }
      jobs.push({ place, parts: readEnvelope(value, place) })
    }
  }
  return jobs
}

/**
 * One unwrap for each wrapped key not met before, all in one request; the first envelope of each shows that its DEK is the
 * right one. Tells which were refused, by the names of their wrapped keys and in the order of the jobs. The caller wipes
 * `deks`, to which nothing is added afterwards, whatever becomes of the call.
 */
export async function unwrapEach(
  { decryptDeks, envelopes }: RecordsOptions,
  jobs: readonly OpenJob[],
  deks: Map<string, Uint8Array>,
  signal: AbortSignal | undefined,
): Promise<Map<string, EaasError>> {
  const firsts = new Map<string, OpenJob>()
  for (const job of jobs) {
    const name = nameOf(job.parts)
    if (!deks.has(name) && !firsts.has(name)) firsts.set(name, job)
  }
  const unwrap = async ([name, job]: [string, OpenJob]): Promise<EaasError | undefined> => {
    try {
      job.plaintext = await decryptDeks.use(job.parts, signal, (dek) => {
        deks.set(name, envelopes.copyDek(dek))
        return envelopes.openWith(dek, job.parts, job.place) // shows that it is the right one, and may be cached
      })
    } catch (error) {
      if (!isEaasError(error) || error.code === 'E_ABORTED') throw error
      return error
    }
    return undefined
  }
  const outcomes = await Promise.allSettled([...firsts].map(unwrap))
  const refused = new Map<string, EaasError>()
  for (const [at, name] of [...firsts.keys()].entries()) {
    const outcome = outcomes[at]
    if (outcome?.status === 'rejected') throw outcome.reason
    if (outcome?.value) refused.set(name, outcome.value)
  }
  return refused
}

interface CheckOptions {
  fields: readonly string[]
  index: Readonly<Record<string, string>>
  pace: Pace
  signal: AbortSignal | undefined
}

/** A wrong value is found before anything is sent. */
async function checkRows(rows: readonly Row[], { fields, index, pace, signal }: CheckOptions): Promise<void> {
  const indexed = Object.keys(index)
  for (const [at, row] of rows.entries()) {
    if (pace.due()) {
      await pace.rest()
      demandNotAborted(signal)
    }
    for (const field of fields) {
      const value = valueIn(row, field)
      if (!isMissing(value)) demandValue(value, { index: at, field })
    }
    for (const field of indexed) {
      const value = valueIn(row, field)
      if (!isMissing(value)) demandHashable(value, { index: at, field })
      demandIndexColumn(row, index[field] ?? '', { index: at, field })
    }
  }
}

/** The blind index of each distinct value of the indexed fields, once each. */
async function hashAll(
  batcher: Batcher,
  rows: readonly Row[],
  { keyId, index = {}, signal }: EncryptManyOptions<string, Record<string, string>>,
  pace: Pace,
): Promise<Map<string, string>> {
  const values = new Set<string>()
  for (const field of Object.keys(index)) {
    for (const row of rows) {
      const value = valueIn(row, field)
      if (typeof value === 'string') values.add(value)
    }
    if (pace.due()) await pace.rest()
  }
  return hashEach(batcher, values, { keyId, signal })
}

/** The blind index of each value. */
export async function hashEach(
  batcher: Batcher,
  values: ReadonlySet<string>,
  { keyId, signal }: { keyId: string; signal?: AbortSignal | undefined },
): Promise<Map<string, string>> {
  const hashes = new Map<string, string>()
  const list = [...values]
  for (let start = 0; start < list.length; start += BLOCK_HASHES) {
    const ask = async (value: string) => hashes.set(value, await batcher.hash(value, keyId, signal))
    await Promise.all(list.slice(start, start + BLOCK_HASHES).map(ask))
  }
  return hashes
}

/** Gives the event loop a turn, and tells how far the work is. @throws AbortedError when it is to end */
export async function restAndReport(
  { closed }: Pick<RecordsOptions, 'closed'>,
  pace: Pace,
  { signal, onProgress }: { signal?: AbortSignal | undefined; onProgress?: ((progress: Progress) => void) | undefined },
  progress: Progress,
): Promise<void> {
  await pace.rest()
  demandNotAborted(signal)
  if (closed.aborted) throw new AbortedError('closed')
  onProgress?.(progress)
}

/** Refuses a record whose column for an index holds what is no index, and would be lost. @throws InvalidInputError */
export function demandIndexColumn(record: Row, column: string, place: RecordPlace): void {
  const value = valueIn(record, column)
  if (isMissing(value) || (typeof value === 'string' && /^[0-9a-f]{1,64}$/.test(value))) return
  throw new InvalidInputError(
    `its index would overwrite the column ${JSON.stringify(column)}`,
    'Give the index a column of its own.',
    place,
  )
}

/** Refuses what is no record. @throws InvalidInputError */
export function demandRow(record: unknown, index: number): asserts record is Row {
  if (typeof record === 'object' && record !== null && !Array.isArray(record)) return
  throw new InvalidInputError(`record ${index} must be an object, got ${kindOf(record)}`)
}

/** Refuses what is no list of records. @throws InvalidInputError */
export function demandRows(records: unknown): Row[] {
  demandList(records)
  for (const [index, record] of records.entries()) demandRow(record, index)
  return records as Row[]
}

/** Refuses what is no list. @throws InvalidInputError */
export function demandList(records: unknown): asserts records is readonly unknown[] {
  if (!Array.isArray(records)) throw new InvalidInputError(`records must be an array, got ${kindOf(records)}`)
}

function demandFields(fields: unknown): asserts fields is readonly string[] {
  if (!Array.isArray(fields) || fields.length === 0) throw new InvalidInputError('fields must name at least one field')
  if (!fields.every(isName)) throw new InvalidInputError('fields must hold names of fields')
  if (new Set(fields).size < fields.length) throw new InvalidInputError('fields must name each field once')
}

function demandIndex(index: Readonly<Record<string, unknown>>, fields: readonly string[]): void {
  const columns = Object.values(index)
  if (!columns.every(isName)) throw new InvalidInputError('index must give each field the name of a column')
  for (const field of Object.keys(index)) {
    if (!fields.includes(field))
      throw new InvalidInputError(`index names ${JSON.stringify(field)}, which is not in fields`)
  }
  const clash = columns.find((column) => fields.includes(column))
  if (clash !== undefined)
    throw new InvalidInputError(`index column ${JSON.stringify(clash)} would overwrite a sealed field`)
  if (new Set(columns).size < columns.length) throw new InvalidInputError('index must name each column once')
}
