/** The compact form of a row (compact-rows.md), and its lossless conversion to envelopes and back. */
import type { SealedParts } from '@eaas/protocol'
import { InvalidInputError, type RecordPlace } from '../errors.js'
import { isMissing, isObject, type Row, valueIn } from '../input.js'
import { getAt, type Path, withValues } from '../records/paths.js'
import { envelopeObject, isText, readEnvelope } from '../records/read-envelope.js'

/** What the envelopes of one record share; the compact form stores it once. */
export interface EnvelopeHeader {
  wrapped_key: string
  key_id: string
  key_version: number
  /** Absent where the record holds bundles of server mode. */
  envelope_version?: 1 | 2
  /** Of format v2. */
  commitment?: string
  /** Set if the fields were sealed with the application's secret. */
  application_secret?: true
}

/** What a field holds in the compact form: ciphertext and iv, in base64. */
export interface CompactField {
  c: string
  i: string
}

const HEADER_FIELDS = [
  'wrapped_key',
  'key_id',
  'key_version',
  'envelope_version',
  'commitment',
  'application_secret',
] as const
// Databases write JSON with their own white space, and with the members in another order.
const COMPACT_TEXT = /^{\s*"[ci]":\s*"[\w+/]{16}[^{}]+,\s*"[ci]":[^{},]+}$/

/**
 * Turns envelopes into the compact form: moves what they share into the column `header`, and leaves `{ c, i
 * }` in the fields.
 *
 * @throws InvalidInputError when a field is not an envelope, or is sealed under another DEK than the others,
 * or when the application uses the column `header` itself
 */
export function packRow(row: Row, paths: readonly Path[], header: string, index = 0): Row {
  let shared: EnvelopeHeader | undefined
  const fields: [Path, unknown][] = []
  for (const path of paths) {
    const value = getAt(row, path)
    if (isMissing(value)) continue
    const place = { index, field: path.join('.') }
    const envelope = envelopeAt(row, path, header, place)
    readEnvelope(envelope, place)
    const own: Row = {}
    for (const name of HEADER_FIELDS) if (Object.hasOwn(envelope, name)) own[name] = envelope[name]
    shared ??= own as unknown as EnvelopeHeader
    if (HEADER_FIELDS.some((name) => shared?.[name] !== own[name])) {
      throw new InvalidInputError(
        'the fields of this record are encrypted under different DEKs',
        'Reseal it: its fields then share one.',
        place,
      )
    }
    fields.push([path, { c: envelope.ciphertext, i: envelope.iv }])
  }
  assertHeaderColumn(row, header, index)
  return { ...withValues(row, fields), [header]: shared ?? null }
}

/**
 * Refuses a row in which the compact form would overwrite a column of the application. @throws
 * InvalidInputError
 */
export function assertHeaderColumn(row: Row, header: string, index: number): void {
  const value = valueIn(row, header)
  if (isMissing(value) || isHeader(value)) return
  const message = `record ${index}: the compact form would overwrite the column ${JSON.stringify(header)}`
  throw new InvalidInputError(message, 'Name another column for it: `header` of the model.')
}

/**
 * Turns the compact form back into the same envelopes. Returns a row that already holds envelopes unchanged.
 *
 * @throws InvalidInputError when the column `header` is missing
 */
export function unpackRow(row: Row, paths: readonly Path[], header: string): Row {
  if (!isHeaderUsed(row, paths, header)) return row
  const fields = paths.flatMap((path): [Path, unknown][] => {
    const place = { index: 0, field: path.join('.') }
    return isCompact(getAt(row, path)) ? [[path, envelopeAt(row, path, header, place)]] : []
  })
  return withValues(row, [...fields, [[header], undefined]])
}

/**
 * Returns the envelope of a field, stored in either form. Does not check that it is valid.
 *
 * @throws InvalidInputError when the column `header` is missing
 */
function envelopeAt(row: Row, path: Path, header: string, place: RecordPlace): Row {
  const value = envelopeObject(getAt(row, path), place)
  if (!isCompact(value)) return value
  const shared = envelopeObject(valueIn(row, header), place)
  if (!isHeader(shared)) {
    const column = `the column ${JSON.stringify(header)}`
    throw new InvalidInputError(`${column} is missing`, `Pass ${column}.`, place)
  }
  return { ciphertext: value.c, iv: value.i, ...shared }
}

/** Reads the envelope of a field, stored in any form. @throws InvalidInputError naming what is wrong */
export function readEnvelopeAt(row: Row, path: Path, header: string, place: RecordPlace): SealedParts {
  const value = getAt(row, path)
  return readEnvelope(isText(value) ? value : envelopeAt(row, path, header, place), place)
}

/**
 * Tells whether the column `header` belongs to the compact form, and not to the application: a field needs
 * it, or it is null, as in a record whose fields are all missing.
 */
export function isHeaderUsed(row: Row, paths: readonly Path[], header: string): boolean {
  const values = paths.map((path) => getAt(row, path))
  return values.some(isCompact) || (row[header] === null && values.every(isMissing))
}

/**
 * Tells whether a field is in the compact form: the object, or its JSON as a column of type text returns it.
 */
export function isCompact(value: unknown): value is CompactField {
  if (typeof value === 'string') return COMPACT_TEXT.test(value)
  return isObject(value) && 'c' in value && 'i' in value
}

/** Tells whether a value is the header of a compact row, and not an envelope. */
function isHeader(value: unknown): value is EnvelopeHeader {
  return isObject(value) && Object.hasOwn(value, 'wrapped_key') && !('ciphertext' in value)
}
