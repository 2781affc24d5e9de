/** `encryptMany`: seals fields of many records, and adds the columns of their blind indexes. */

import { encodeSealed, type SealedParts } from '@eaas/protocol'
import { InvalidInputError, type RecordPlace } from '../errors.js'
import type { Batcher } from '../http/batcher.js'
import {
  assertFormat,
  assertKeyId,
  assertNotAborted,
  assertOptions,
  assertScope,
  assertValue,
  type DekScope,
  isMissing,
  isName,
  type Row,
  readValue,
} from '../input.js'
import { createBacklog, createPace, isPromise, type Pace } from '../waiting.js'
import {
  assertHashedAsItIs,
  assertIndexColumn,
  hashEach,
  type Progress,
  type RecordsDeps,
  restAndReport,
  withDeks,
} from './blocks.js'
import { readFormatAad } from './bound-envelopes.js'
import { assertContextOf, assertFields, type ContextOf, checkPresence, contextAt, copyNamed } from './named-fields.js'
import { getAt, putAt } from './paths.js'
import { placeFields, type RecordField } from './plain-rows.js'

export interface EncryptManyOptions<F extends string, I extends { readonly [K in F]?: string }, R = Row> {
  /** The key under which all fields are sealed. */
  keyId: string
  /**
   * The fields to seal; all others stay unchanged. A dot leads into an object: `'address.street'`. A field
   * that no record has is refused.
   */
  fields: readonly F[]
  /**
   * Those of `fields` that a record may lack. A record that lacks any other is refused. Null counts as a
   * value.
   */
  optional?: readonly NoInfer<F>[] | undefined
  /**
   * Binds each field: it then decrypts only with the same context. Without it, fields can be exchanged unnoticed. An
   * explicit `undefined` is refused, since it is usually a forgotten variable.
   */
  context?: ContextOf<R, F>
  /** The format of the envelopes: 2 by default, or 1, which clients in other languages read. */
  envelope?: 1 | 2 | undefined
  /** Which DEK seals the rows: the key's (`shared`), one for this call, or one for each record. */
  dek?: DekScope | undefined
  /** The column for the blind index of each field that is to be searched by its exact value. */
  index?: I
  /** Ends the call, which then throws `AbortedError`. */
  signal?: AbortSignal | undefined
  /** Called regularly, and at the end. */
  onProgress?: ((progress: Progress) => void) | undefined
}

const ENCRYPT_MANY_OPTIONS = [
  'keyId',
  'fields',
  'optional',
  'context',
  'envelope',
  'dek',
  'index',
  'signal',
  'onProgress',
]

/** Seals the fields of all records; see `Client.encryptMany`. */
export async function encryptMany(
  deps: RecordsDeps,
  records: readonly object[],
  options: EncryptManyOptions<string, Record<string, string>>,
): Promise<Row[]> {
  assertOptions('encryptMany()', options, ENCRYPT_MANY_OPTIONS)
  const { envelopes, batcher } = deps
  const { keyId, fields, optional = [], index = {}, context, envelope, dek = 'shared', signal } = options
  assertNotAborted(signal)
  assertKeyId(keyId)
  assertScope(dek)
  assertContextOf(context)
  assertFormat(options, envelopes.secrets.list.length > 0)
  assertFields(fields, optional)
  assertIndex(index, fields)
  const rows = copyNamed(records, fields, true)
  const placed = placeFields(rows, fields)
  const indexed = placed.filter(({ name }) => Object.hasOwn(index, name))
  const pace = createPace()
  const aadAt = (row: Row, place: RecordPlace) =>
    readFormatAad(keyId, { context: contextAt(context, row, place), envelope }, place)
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
      // All of them before the first value is replaced: the function `context` may read any member of the record.
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

/** Hashes each distinct value of the indexed fields. */
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
