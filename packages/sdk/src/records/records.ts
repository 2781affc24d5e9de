/** Many records at once: one DEK for all rows, loops that await nothing for each field. */
import type { Envelope, EnvelopeParts } from '@eaas/protocol'
import { createBacklog } from '../async/backlog.js'
import { isPromise } from '../async/is-promise.js'
import { createPace, type Pace } from '../async/pace.js'
import { type DecryptDeks, nameOf } from '../deks/decrypt-deks.js'
import { type DekScope, demandScope, makeOwnDek, type Wrap } from '../deks/own-dek.js'
import { AbortedError, type EaasError, InvalidInputError, isEaasError, placedAt, type RecordPlace } from '../errors.js'
import type { Batcher } from '../http/batcher.js'
import {
  type Binary,
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
import { getAt, type Path, putAt } from './paths.js'
import { type CopyOptions, copyRow } from './plain-rows.js'
import { createPresence, type PresenceOptions, placeFields, type RecordField } from './presence.js'

type Missing = null | undefined
type Sealable = string | Binary | Missing
type Openable = Envelope | Bundle | Missing

/** The names of the fields of `R` that can hold `V`. */
export type FieldOf<R, V> = { [K in keyof R & string]-?: R[K] extends V ? K : never }[keyof R & string]
/** The same, with the paths to those inside objects, four deep: types may contain themselves. */
type PathOf<R, V, Depth extends 0[] = []> =
  | FieldOf<R, V>
  | (Depth['length'] extends 4
      ? never
      : { [K in keyof R & string]-?: PathInto<K, Exclude<R[K], Missing>, V, [...Depth, 0]> }[keyof R & string])
type PathInto<K extends string, O, V, Depth extends 0[]> = O extends V | readonly unknown[]
  ? never
  : O extends object
    ? `${K}.${PathOf<O, V, Depth>}`
    : never
/** The names of the fields of `R` that can be sealed: text, bytes, or missing; `'address.street'` inside an object. */
export type SealableField<R> = PathOf<R, Sealable>
/** The names of the fields of `R` that hold envelopes, or nothing; `'address.street'` inside an object. */
export type OpenableField<R> = PathOf<R, Openable>

type HeadOf<F> = F extends `${infer Head}.${string}` ? Head : never
type TailOf<F, K> = F extends `${K & string}.${infer Tail}` ? Tail : never
type Replaced<R, F extends string, V> = Omit<R, F | HeadOf<F>> & {
  [K in keyof Pick<R, F & keyof R>]: Extract<R[K], Missing> | (Exclude<R[K], Missing> extends never ? never : V)
} & {
  [K in keyof Pick<R, Exclude<HeadOf<F>, F> & keyof R>]:
    | Extract<R[K], Missing>
    | Replaced<Exclude<R[K], Missing>, TailOf<F, K>, V>
}
type ValueAt<R, P> = P extends keyof R
  ? R[P]
  : P extends `${infer Head}.${infer Tail}`
    ? Head extends keyof R
      ? Extract<R[Head], Missing> | ValueAt<Exclude<R[Head], Missing>, Tail>
      : never
    : never
type IndexColumns<R, I> = { [K in keyof I as I[K] & string]: Extract<ValueAt<R, K>, Missing> | string }

/** A record whose fields `F` are sealed, with the columns of the blind indexes `I` added. */
export type EncryptedRecord<R, F extends string, I = Record<never, never>> = Replaced<R, F, Envelope> &
  IndexColumns<R, I>
/** A record whose fields `F` are opened to `V`. */
export type DecryptedRecord<R, F extends string, V> = Replaced<R, F, V>

/** How far a call on many records is, in records. */
export interface Progress {
  done: number
  total: number
}

export interface EncryptManyOptions<F extends string, I extends { readonly [K in F]?: string }> {
  /** The key under which all fields are sealed. */
  keyId: string
  /**
   * The fields to seal; the others stay as they are. A dot leads into an object: `'address.street'`. A field that no record
   * has is refused.
   */
  fields: readonly F[]
  /** Those of `fields` that records may lack; without it, a record that lacks one is refused. Null is a value. */
  optional?: readonly NoInfer<F>[] | undefined
  /** Which DEK seals the rows: the key's (`shared`), one for this call, or one for each record. */
  dek?: DekScope | undefined
  /** For each field that is to be found again by its exact value: the name of the column for its blind index. */
  index?: I
  signal?: AbortSignal | undefined
  /** Called now and then, and at the end. */
  onProgress?: ((progress: Progress) => void) | undefined
}

export interface DecryptManyOptions<F extends string, A extends 'text' | 'bytes'> {
  /** The fields to open; the others stay as they are. A dot leads into an object. A field that no record has is refused. */
  fields: readonly F[]
  /** Those of `fields` that records may lack; without it, a record that lacks one is refused. Null is a value. */
  optional?: readonly NoInfer<F>[] | undefined
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

const ENCRYPT_MANY_OPTIONS = ['keyId', 'fields', 'optional', 'dek', 'index', 'signal', 'onProgress']
const DECRYPT_MANY_OPTIONS = ['fields', 'optional', 'as', 'signal', 'onProgress']
/** So many records' envelopes are decoded at a time: memory stays flat however long the list is. */
export const BLOCK_RECORDS = 1_000
/** How long a hash is. */
const HASH_BITS = 256
/** So many blind indexes are asked for at a time: a few requests that are full. */
const BLOCK_HASHES = 4_000

/** Seals the fields of all records; see `Client.encryptMany`. */
export async function encryptRecords(
  deps: RecordsOptions,
  records: readonly object[],
  options: EncryptManyOptions<string, Record<string, string>>,
): Promise<Row[]> {
  demandOptions('encryptMany()', options, ENCRYPT_MANY_OPTIONS)
  const { envelopes, batcher } = deps
  const { keyId, fields, optional = [], index = {}, dek = 'shared', signal } = options
  demandNotAborted(signal)
  demandKeyId(keyId)
  demandScope(dek)
  demandFields(fields, optional)
  demandIndex(index, fields)
  const rows = copyRows(records, { paths: pathsOf(fields), toStore: true })
  const placed = placeFields(rows, fields)
  const indexed = placed.filter(({ name }) => Object.hasOwn(index, name))
  const pace = createPace()
  await checkRows(rows, { fields: placed, optional, index, pace, signal })
  await envelopes.ready()
  const hashes = await hashAll(batcher, rows, { keyId, indexed, signal }, pace)
  const backlog = createBacklog(envelopes.isSync())
  await withDeks(deps, { keyId, dek, count: rows.length, signal }, async (start, end, dekOf) => {
    for (let at = start; at < end; at++) {
      if (pace.due()) await restAndReport(deps, pace, options, { done: at, total: rows.length })
      const out = rows[at] ?? {}
      const own = dekOf(at)
      for (const { name, path } of indexed) {
        const value = getAt(out, path)
        out[index[name] ?? ''] = isMissing(value) ? value : hashes.get(value as string)
      }
      for (const { name, path } of placed) {
        const value = getAt(out, path)
        if (isMissing(value)) continue
        const plaintext = readValue(value, { index: at, field: name })
        const envelope = own ? envelopes.sealWith(own, plaintext) : envelopes.seal(plaintext, keyId, signal)
        if (!isPromise(envelope)) putAt(out, path, envelope)
        else await backlog.add(envelope.then((sealed) => putAt(out, path, sealed)))
      }
    }
  })
  await backlog.flush()
  options.onProgress?.({ done: rows.length, total: rows.length })
  return rows
}

/** Opens the fields of all records; see `Client.decryptMany`. */
export async function decryptRecords(
  deps: RecordsOptions,
  records: readonly object[],
  options: DecryptManyOptions<string, 'text' | 'bytes'>,
): Promise<Row[]> {
  demandOptions('decryptMany()', options, DECRYPT_MANY_OPTIONS)
  const { fields, optional = [], as = 'text', signal } = options
  demandNotAborted(signal)
  demandFields(fields, optional)
  if (as !== 'text' && as !== 'bytes') throw new InvalidInputError('as must be "text" or "bytes"')
  const rows = copyRows(records, { paths: pathsOf(fields), toStore: false })
  const placed = placeFields(rows, fields)
  const pace = createPace()
  await checkPresence(rows, { fields: placed, optional, columns: [], toSeal: false, pace, signal })
  await deps.envelopes.ready()
  const backlog = createBacklog(deps.envelopes.isSync())
  const deks = new Map<string, Uint8Array>()
  try {
    for (let start = 0; start < rows.length; start += BLOCK_RECORDS) {
      const jobs = readJobs(rows, placed, start)
      const finish = (job: PlacedJob, plaintext: Uint8Array) => {
        putAt(rows[job.place.index] ?? {}, job.path, as === 'text' ? toText(plaintext, job.place) : plaintext)
      }
      demandNotAborted(signal)
      const refused = await unwrapEach(deps, jobs, deks, signal)
      for (const { parts, place } of jobs) {
        const error = refused.get(nameOf(parts))
        if (error) throw placedAt(error, place)
      }
      for (const job of jobs) {
        if (pace.due()) await restAndReport(deps, pace, options, { done: job.place.index, total: rows.length })
        const dek = deks.get(nameOf(job.parts))
        const plaintext = job.plaintext ?? (dek && deps.envelopes.openWith(dek, job.parts, job.place))
        if (isPromise(plaintext)) await backlog.add(plaintext.then((bytes) => finish(job, bytes)))
        else if (plaintext) finish(job, plaintext)
      }
      await backlog.flush()
    }
  } finally {
    for (const dek of deks.values()) dek.fill(0)
  }
  options.onProgress?.({ done: rows.length, total: rows.length })
  return rows
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

interface PlacedJob extends OpenJob {
  path: Path
}

function readJobs(rows: readonly Row[], fields: readonly RecordField[], start: number): PlacedJob[] {
  const jobs: PlacedJob[] = []
  for (const [at, row] of rows.slice(start, start + BLOCK_RECORDS).entries()) {
    for (const { name, path } of fields) {
      const value = getAt(row, path)
      const place = { index: start + at, field: name }
      if (!isMissing(value)) jobs.push({ place, path, parts: readEnvelope(value, place) })
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
  fields: readonly RecordField[]
  optional: readonly string[]
  pace: Pace
  signal: AbortSignal | undefined
}

/** Checks every value: a wrong one is found before anything is sent. */
async function checkRows(
  rows: readonly Row[],
  { index, ...options }: CheckOptions & { index: Readonly<Record<string, string>> },
): Promise<void> {
  const presence = { ...options, columns: Object.values(index), toSeal: true }
  await checkPresence(rows, presence, (row, value, place) => {
    const column = Object.hasOwn(index, place.field) ? index[place.field] : undefined
    if (column !== undefined) demandIndexColumn(row, { column }, place)
    if (isMissing(value)) return
    demandValue(value, place)
    if (column !== undefined) demandHashable(value, place)
  })
}

/** Checks that the records have the fields, and runs the function for each value. */
async function checkPresence(
  rows: readonly Row[],
  { pace, signal, ...options }: CheckOptions & PresenceOptions,
  check?: (row: Row, value: unknown, place: RecordPlace) => void,
): Promise<void> {
  const presence = createPresence(options)
  for (const [index, row] of rows.entries()) {
    if (pace.due()) {
      await pace.rest()
      demandNotAborted(signal)
    }
    for (const field of options.fields) {
      const value = presence.read(row, field, index)
      check?.(row, value, { index, field: field.name })
    }
  }
  presence.end()
}

/** The blind index of each distinct value of the indexed fields, once each. */
async function hashAll(
  batcher: Batcher,
  rows: readonly Row[],
  { indexed, ...options }: { keyId: string; indexed: readonly RecordField[]; signal: AbortSignal | undefined },
  pace: Pace,
): Promise<Map<string, string>> {
  const values = new Set<string>()
  for (const { path } of indexed) {
    for (const row of rows) {
      const value = getAt(row, path)
      if (typeof value === 'string') values.add(value)
    }
    if (pace.due()) await pace.rest()
  }
  return hashEach(batcher, values, options)
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
  if (closed.aborted) throw new AbortedError()
  onProgress?.(progress)
}

/** A column of an index, and how many bits of it are kept; all by default. */
interface HashColumn {
  column: string
  bits?: number | undefined
}

/** Refuses a record whose column for an index holds what is no index, and would be lost. @throws InvalidInputError */
export function demandIndexColumn(record: Row, column: HashColumn, place: RecordPlace): void {
  if (isIndexColumn(record, column)) return
  throw new InvalidInputError(
    `its index would overwrite the column ${JSON.stringify(column.column)}`,
    'Give the index a column of its own.',
    place,
  )
}

/** Whether a record's column holds an index, whole or as it is cut, or nothing. */
export function isIndexColumn(record: Row, { column, bits = HASH_BITS }: HashColumn): boolean {
  const value = valueIn(record, column)
  if (isMissing(value)) return true
  const digits = [HASH_BITS / 4, Math.ceil(bits / 4)]
  return typeof value === 'string' && digits.includes(value.length) && /^[0-9a-f]+$/.test(value)
}

/** Copies of all records, of which each member is read once. @throws InvalidInputError */
export function copyRows(records: unknown, { paths, toStore }: Omit<CopyOptions, 'index'>): Row[] {
  demandList(records)
  return Array.from(records, (record, index) => copyRow(record, { index, paths, toStore }))
}

/** Where fields of these names may be: a name with dots may be a column, too. */
function pathsOf(names: readonly string[]): Path[] {
  return names.flatMap((name) => (name.includes('.') ? [[name], name.split('.')] : [[name]]))
}

/** Refuses what is no list. @throws InvalidInputError */
export function demandList(records: unknown): asserts records is readonly unknown[] {
  if (!Array.isArray(records)) throw new InvalidInputError(`records must be an array, got ${kindOf(records)}`)
}

function demandFields(fields: unknown, optional: unknown): asserts fields is readonly string[] {
  if (!Array.isArray(fields) || fields.length === 0) throw new InvalidInputError('fields must name at least one field')
  if (!fields.every(isName)) throw new InvalidInputError('fields must hold names of fields')
  if (new Set(fields).size < fields.length) throw new InvalidInputError('fields must name each field once')
  if (!Array.isArray(optional))
    throw new InvalidInputError(`optional must be an array of names, got ${kindOf(optional)}`)
  const unknown = optional.find((name) => !fields.includes(name))
  if (unknown !== undefined) {
    throw new InvalidInputError(`optional names ${JSON.stringify(unknown)}, which is not in fields`)
  }
}

function demandIndex(index: Readonly<Record<string, unknown>>, fields: readonly string[]): void {
  demandOptions('index', index)
  const columns = Object.values(index)
  if (!columns.every(isName)) throw new InvalidInputError('index must give each field the name of a column')
  for (const field of Object.keys(index)) {
    if (!fields.includes(field))
      throw new InvalidInputError(`index names ${JSON.stringify(field)}, which is not in fields`)
  }
  const clash = columns.find((column) => fields.some((field) => field === column || field.startsWith(`${column}.`)))
  if (clash !== undefined)
    throw new InvalidInputError(`index column ${JSON.stringify(clash)} would overwrite a sealed field`)
  if (new Set(columns).size < columns.length) throw new InvalidInputError('index must name each column once')
}
