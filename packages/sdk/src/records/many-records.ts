/** Seals or opens fields of many records, after checking that the records have them. */
import { type Context, type Envelope, encodeSealed, type SealedParts } from '@eaas/protocol'
import { InvalidInputError, isEaasError, type RecordPlace } from '../errors.js'
import type { Batcher } from '../http/batcher.js'
import type { Binary, DekScope, DemandOptions, Row } from '../input.js'
import {
  assertArray,
  assertFormat,
  assertKeyId,
  assertNotAborted,
  assertOneOf,
  assertOptions,
  assertScope,
  assertValue,
  isMissing,
  isName,
  isObject,
  kindOf,
  readDemand,
  readSignal,
  readValue,
  toText,
} from '../input.js'
import { createBacklog, createPace, isPromise, type Pace } from '../waiting.js'
import type { OpenDeps, RecordsDeps, RowsOptions } from './blocks.js'
import { assertHashedAsItIs, assertIndexColumn, BLOCK_RECORDS, restAndReport } from './blocks.js'
import { readFormatAad } from './bound-envelopes.js'
import { createPresence, type PresenceOptions, placeFields } from './named-fields.js'
import type * as OpenBlocks from './open-blocks.js'
import type { Opening, OpenJob } from './open-blocks.js'
import type * as OpenEnvelopes from './open-envelopes.js'
import { getAt, type Path, putAt, type RecordField } from './paths.js'
import { copyRows } from './plain-rows.js'
import { readEnvelope, type StoredEnvelope } from './read-envelope.js'
import { hashEach, withDeks } from './seal-blocks.js'

export interface EncryptManyOptions<F extends string, I extends { readonly [K in F]?: string }, R = Row>
  extends RowsOptions {
  /** The key under which all fields are sealed. */
  keyId: string
  /** The fields to seal; a dot leads into an object: `'address.street'`. A field that no record has is refused. */
  fields: readonly F[]
  /** Those of `fields` that a record may lack. A record without any of the others is refused. Null counts as a value. */
  optional?: readonly NoInfer<F>[] | undefined
  /** Binds each field: it decrypts only with the same context. An explicit `undefined` is refused. */
  context?: ContextOf<R, F>
  /** The format of the envelopes: 2 by default, or 1, which clients in other languages read. */
  envelope?: 1 | 2 | undefined
  /** Which DEK seals the rows: the key's (`shared`), one for this call, or one for each record. */
  dek?: DekScope | undefined
  /** The column of the blind index for each field to search by its exact value. */
  index?: I
}

const ENCRYPT_OPTIONS = ['keyId', 'fields', 'optional', 'context', 'envelope', 'dek', 'index', 'signal', 'onProgress']

export async function encryptMany(
  deps: RecordsDeps,
  records: readonly object[],
  options: EncryptManyOptions<string, Record<string, string>>,
): Promise<Row[]> {
  const signal = readSignal('encryptMany()', options, ENCRYPT_OPTIONS)
  const { envelopes, batcher } = deps
  const { keyId, fields, optional = [], index = {}, context, envelope, dek = 'shared' } = options
  assertKeyId(keyId)
  assertScope(dek)
  assertContextOf(context)
  assertFormat(options, envelopes.secrets.list.length > 0)
  assertFields(fields, optional)
  assertIndex(index, fields)
  const { rows, placed } = copyNamed(records, fields, true)
  const indexed = placed.filter(({ name }) => Object.hasOwn(index, name))
  const pace = createPace()
  let shared: Uint8Array | undefined
  const aadAt = (row: Row, place: RecordPlace) => {
    const read = () => readFormatAad(keyId, { context: contextAt(context, row, place), envelope }, place)
    if (typeof context === 'function') return read()
    shared ??= read() // one context for all values
    return shared
  }
  const columns = Object.values(index)
  await checkPresence(rows, { fields: placed, optional, columns, toSeal: true, pace, signal }, (row, value, place) => {
    const column = Object.hasOwn(index, place.field) ? index[place.field] : undefined
    if (column !== undefined) assertIndexColumn(row, { column }, place)
    if (isMissing(value)) return
    assertValue(value, place)
    aadAt(row, place)
    if (column !== undefined) assertHashedAsItIs(value, place)
  })
  await envelopes.ready()
  const hashes = await hashAll(batcher, rows, { keyId, indexed, signal }, pace)
  const backlog = createBacklog(envelopes.isSync())
  await withDeks(deps, { keyOf: () => keyId, dek, count: rows.length, signal }, async (start, end, dekOf) => {
    for (let at = start; at < end; at++) {
      if (pace.due()) await restAndReport(deps, pace, options, { done: at, total: rows.length })
      const out = rows[at] ?? {}
      const own = dekOf(at)
      // Computed before the first value is replaced: the function `context` may read any member of the record.
      const aads = placed.map(({ name }) => aadAt(out, { index: at, field: name }))
      for (const { name, path } of indexed) {
        const value = getAt(out, path)
        out[index[name] ?? ''] = isMissing(value) ? value : hashes.get(value as string)
      }
      for (const [number, { name, path }] of placed.entries()) {
        const value = getAt(out, path)
        if (isMissing(value)) continue
        const plaintext = readValue(value, { index: at, field: name })
        const sealed = own
          ? envelopes.sealWith(own, plaintext, aads[number])
          : envelopes.seal(plaintext, keyId, signal, aads[number])
        const put = (parts: SealedParts) => putAt(out, path, encodeSealed(parts))
        if (!isPromise(sealed)) put(sealed)
        else await backlog.add(sealed.then(put))
      }
    }
  })
  await backlog.flush()
  options.onProgress?.({ done: rows.length, total: rows.length })
  return rows
}

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

function assertIndex(index: Readonly<Record<string, unknown>>, fields: readonly string[]): void {
  assertOptions('index', index)
  const columns = Object.values(index)
  if (!columns.every(isName)) throw new InvalidInputError('index must map each field to the name of a column')
  for (const field of Object.keys(index)) {
    if (!fields.includes(field))
      throw new InvalidInputError(`index names ${JSON.stringify(field)}, which is not in fields`)
  }
  const clash = columns.find((column) => fields.some((field) => field === column || field.startsWith(`${column}.`)))
  if (clash !== undefined)
    throw new InvalidInputError(`index column ${JSON.stringify(clash)} would overwrite an encrypted field`)
  if (new Set(columns).size < columns.length) throw new InvalidInputError('index must name each column once')
}

export interface DecryptManyOptions<F extends string, A extends 'text' | 'bytes', R = Row>
  extends DemandOptions<ContextOf<R, F>>,
    RowsOptions {
  /** The fields to open; a dot leads into an object. A field that no record has is refused. */
  fields: readonly F[]
  /** Those of `fields` that a record may lack. A record without any of the others is refused. Null counts as a value. */
  optional?: readonly NoInfer<F>[] | undefined
  /** Text by default. */
  as?: A
}

const DECRYPT_OPTIONS = ['fields', 'optional', 'context', 'acceptUnbound', 'keyIds', 'as', 'signal', 'onProgress']

type OpenManyDeps = OpenDeps &
  Pick<typeof OpenBlocks, 'eachBlock' | 'openBlock'> &
  Pick<typeof OpenEnvelopes, 'demandContext'>

export async function decryptMany(
  deps: OpenManyDeps,
  records: readonly object[],
  options: DecryptManyOptions<string, 'text' | 'bytes'>,
): Promise<Row[]> {
  const signal = readSignal('decryptMany()', options, DECRYPT_OPTIONS)
  const { fields, optional = [], as = 'text' } = options
  assertFields(fields, optional)
  assertContextOf(options.context)
  const demand = readDemand(options)
  assertOneOf('as', as, ['text', 'bytes'])
  const { rows, placed } = copyNamed(records, fields, false)
  const pace = createPace()
  await checkPresence(rows, { fields: placed, optional, columns: [], toSeal: false, pace, signal })
  await deps.envelopes.ready()
  const opening: Opening<PlacedJob> = {
    ...{ pace, signal, onProgress: options.onProgress },
    progressOf: ({ place }) => ({ done: place.index, total: rows.length }),
    take({ place, path }, plaintext) {
      putAt(rows[place.index] ?? {}, path, as === 'text' ? toText(plaintext, place) : plaintext)
    },
    fail(_, error) {
      throw error
    },
  }
  await deps.eachBlock(rows.length, async (start, deks) => {
    const jobs = readJobs(deps, rows, { placed, start, demand })
    assertNotAborted(signal)
    await deps.openBlock(deps, jobs, deks, opening)
  })
  options.onProgress?.({ done: rows.length, total: rows.length })
  return rows
}

interface PlacedJob extends OpenJob {
  path: Path
}

function readJobs(
  { demandContext }: OpenManyDeps,
  rows: readonly Row[],
  given: { placed: readonly RecordField[]; start: number; demand: DemandOptions<ContextOf<Row, string>> },
): PlacedJob[] {
  const { placed, start } = given
  const { context, ...demand } = given.demand
  const jobs: PlacedJob[] = []
  for (const [at, row] of rows.slice(start, start + BLOCK_RECORDS).entries()) {
    for (const { name, path } of placed) {
      const value = getAt(row, path)
      const place = { index: start + at, field: name }
      if (isMissing(value)) continue
      const bound = contextAt(context, row, place)
      const own = bound === undefined ? demand : { ...demand, context: bound }
      const parts = demandContext(readEnvelope(value, place), own, place)
      jobs.push({ place, path, parts })
    }
  }
  return jobs
}

function assertFields(fields: unknown, optional: unknown): asserts fields is readonly string[] {
  if (!Array.isArray(fields) || fields.length === 0)
    throw new InvalidInputError('fields must name at least one field', "Pass a list of names: ['email'].")
  if (!fields.every(isName)) throw new InvalidInputError('fields must contain names of fields')
  if (new Set(fields).size < fields.length) throw new InvalidInputError('fields must name each field once')
  assertArray('optional', optional)
  const unknown = optional.find((name) => !fields.includes(name as string))
  if (unknown !== undefined)
    throw new InvalidInputError(`optional names ${JSON.stringify(unknown)}, which is not in fields`)
}

function copyNamed(records: unknown, fields: readonly string[], toStore: boolean) {
  // A column's name may also contain dots.
  const paths = fields.flatMap((name) => (name.includes('.') ? [[name], name.split('.')] : [[name]]))
  const rows = copyRows(records, { paths, toStore })
  return { rows, placed: placeFields(rows, fields) }
}

async function checkPresence(
  rows: readonly Row[],
  { pace, signal, ...options }: PresenceOptions & { pace: Pace; signal: AbortSignal | undefined },
  check?: (row: Row, value: unknown, place: RecordPlace) => void,
): Promise<void> {
  const presence = createPresence(options)
  for (const [index, row] of rows.entries()) {
    if (pace.due()) await pace.rest(signal)
    for (const field of options.fields) {
      const value = presence.read(row, field, index)
      check?.(row, value, { index, field: field.name })
    }
  }
  presence.end()
}

/**
 * What records' fields are bound to: one context for all, or a function of a record and the name of a field. For
 * decryption, the function must return the same for the same record, so use members that do not change and are not
 * encrypted.
 */
export type ContextOf<R, F> = Context | ((record: R, field: F) => Context)

function assertContextOf(context: unknown): void {
  if (context === undefined || typeof context === 'function' || isObject(context)) return
  throw new InvalidInputError(`context must be an object or a function that returns one, got ${kindOf(context)}`)
}

/** Returns the context of one field of a record. @throws InvalidInputError with `place` when the function throws */
function contextAt<R>(context: ContextOf<R, string> | undefined, record: R, place: RecordPlace): Context | undefined {
  if (typeof context !== 'function') return context
  let found: Context | undefined
  try {
    found = context(record, place.field)
  } catch (error) {
    if (isEaasError(error)) throw error
    // The application's error may quote a value.
    throw new InvalidInputError('the function `context` threw an error', undefined, place)
  }
  if (found !== undefined) return found
  throw new InvalidInputError('the function `context` returned undefined', undefined, place)
}

/**
 * The same type, which editors and declarations print with its members instead of the types it is made from. Public
 * types use it within `[R] extends [unknown] ? … : never`: in an application's generic function, while `R` is not
 * known, they are printed by name, since such a type has no members yet.
 */
export type Show<T> = { [K in keyof T]: T[K] } & {}

type Missing = null | undefined
type Sealable = string | Binary | Missing
type Openable = StoredEnvelope | Missing

type FieldOf<R, V> = { [K in keyof R & string]-?: R[K] extends V ? K : never }[keyof R & string]
/** The same with paths into objects, at most four deep, since types may contain themselves. */
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
/** The fields that can be sealed: text, bytes, null, undefined; `'address.street'` inside an object. */
export type SealableField<R> = PathOf<R, Sealable>
/** The names of the fields of `R` that hold envelopes, null or undefined; `'address.street'` inside an object. */
export type OpenableField<R> = PathOf<R, Openable>

type HeadOf<F> = F extends `${infer Head}.${string}` ? Head : never
type TailOf<F, K> = F extends `${K & string}.${infer Tail}` ? Tail : never
type Replaced<R, F extends string, V> = Omit<R, F | HeadOf<F>> & {
  [K in keyof Pick<R, F & keyof R>]: Extract<R[K], Missing> | (Exclude<R[K], Missing> extends never ? never : V)
} & {
  [K in keyof Pick<R, Exclude<HeadOf<F>, F> & keyof R>]:
    | Extract<R[K], Missing>
    | Show<Replaced<Exclude<R[K], Missing>, TailOf<F, K>, V>>
}
type ValueAt<R, P> = P extends keyof R
  ? R[P]
  : P extends `${infer Head}.${infer Tail}`
    ? Head extends keyof R
      ? Extract<R[Head], Missing> | ValueAt<Exclude<R[Head], Missing>, Tail>
      : never
    : never
type IndexColumns<R, I> = { -readonly [K in keyof I as I[K] & string]: Extract<ValueAt<R, K>, Missing> | string }

/** A record whose fields `F` are sealed, with the columns of the blind indexes `I` added. */
export type EncryptedRecord<R, F extends string, I = Record<never, never>> = [R] extends [unknown]
  ? Show<Replaced<R, F, Envelope> & IndexColumns<R, I>>
  : never
export type DecryptedRecord<R, F extends string, V> = [R] extends [unknown] ? Show<Replaced<R, F, V>> : never
