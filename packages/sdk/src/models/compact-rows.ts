/** The compact form of a row (compact-rows.md), and its lossless conversion from and to envelopes. */
import {
  COMPACT_FIELD,
  decodeCompactText,
  encodeFieldText,
  encodeHeaderText,
  encodeSealed,
  HEADER_TEXT,
  type SealedParts,
} from '@eaas/protocol'
import { InvalidInputError, type RecordPlace } from '../errors.js'
import { isMissing, isObject, type Row, valueIn } from '../input.js'
import { getAt, type Path, withValues } from '../records/paths.js'
import { envelopeObject, isText, readEnvelope, reading } from '../records/read-envelope.js'
import type { Definition } from './definition.js'

/** What envelopes of a row share. The compact form stores it once. */
export interface EnvelopeHeader {
  wrapped_key: string
  key_id: string
  key_version: number
  envelope_version?: 1 | 2
  commitment?: string
  /** Set if the fields were sealed with the application's secret. */
  application_secret?: true
}

export interface CompactField {
  c: string
  i: string
}

const SHARED = ['wrapped_key', 'key_id', 'key_version', 'envelope_version', 'commitment', 'application_secret'] as const
// Databases write JSON with their own white space and order of members.
const COMPACT_JSON = /^{\s*"[ci]":\s*"[\w+/]{16}[^{}]+,\s*"[ci]":[^{},]+}$/

/** @throws InvalidInputError for what is not an envelope, for several DEKs, or if the application uses `header` itself */
export function packRow(
  row: Row,
  paths: readonly Path[],
  { format, header }: Pick<Definition, 'format' | 'header'>,
  index = 0,
): Row {
  const asText = format === 'compact-text'
  let shared: EnvelopeHeader | undefined
  let headerText: string | undefined
  const fields: [Path, unknown][] = []
  for (const path of paths) {
    const value = getAt(row, path)
    if (isMissing(value)) continue
    const place = { index, field: path.join('.') }
    const envelope = envelopeAt(row, path, header, place)
    const parts = readEnvelope(envelope, place)
    const own: Row = {}
    for (const name of SHARED) if (Object.hasOwn(envelope, name)) own[name] = envelope[name]
    shared ??= own as unknown as EnvelopeHeader
    if (SHARED.some((name) => shared?.[name] !== own[name])) {
      const hint = 'Reseal it: its fields then share one.'
      throw new InvalidInputError('the fields of this record are encrypted under different DEKs', hint, place)
    }
    if (asText) headerText ??= headerTextOf(parts, place)
    fields.push([path, asText ? encodeFieldText(parts) : { c: envelope.ciphertext, i: envelope.iv }])
  }
  assertHeaderColumn(row, header, index)
  return { ...withValues(row, fields), [header]: (asText ? headerText : shared) ?? null }
}

/** Refuses a row in which the compact form would overwrite a column of the application. */
export function assertHeaderColumn(row: Row, header: string, index: number): void {
  const value = valueIn(row, header)
  if (isMissing(value) || isHeader(value) || isHeaderText(value)) return
  const message = `record ${index}: the compact form would overwrite the column ${JSON.stringify(header)}`
  throw new InvalidInputError(message, 'Name another column for it: `header` of the model.')
}

/** Restores the same envelopes. A row with envelopes stays unchanged. @throws InvalidInputError without `header` */
export function unpackRow(row: Row, paths: readonly Path[], header: string): Row {
  if (!isHeaderUsed(row, paths, header)) return row
  const fields = paths.flatMap((path): [Path, unknown][] => {
    const place = { index: 0, field: path.join('.') }
    return isCompact(getAt(row, path)) ? [[path, envelopeAt(row, path, header, place)]] : []
  })
  return withValues(row, [...fields, [[header], undefined]])
}

/** Returns a field's envelope from either form, unchecked. @throws InvalidInputError without the column `header` */
function envelopeAt(row: Row, path: Path, header: string, place: RecordPlace): Row {
  const stored = getAt(row, path)
  if (isFieldText(stored)) return { ...encodeSealed(readTexts(row, stored, header, place)) }
  const value = envelopeObject(stored, place)
  if (!isCompact(value)) return value
  const shared = envelopeObject(valueIn(row, header), place)
  if (!isHeader(shared)) throw missingHeader(header, place)
  return { ciphertext: value.c, iv: value.i, ...shared }
}

function readTexts(row: Row, field: string, header: string, place: RecordPlace): SealedParts {
  const shared = valueIn(row, header)
  if (typeof shared !== 'string') throw missingHeader(header, place)
  return reading(place, () => decodeCompactText(field, shared))
}

function missingHeader(header: string, place: RecordPlace): InvalidInputError {
  const column = `the column ${JSON.stringify(header)}`
  return new InvalidInputError(`${column} is missing`, `Pass ${column}.`, place)
}

/** Reads a field's envelope, stored in any form. @throws InvalidInputError naming what is wrong */
export function readEnvelopeAt(row: Row, path: Path, header: string, place: RecordPlace): SealedParts {
  const value = getAt(row, path)
  if (isFieldText(value)) return readTexts(row, value, header, place)
  return readEnvelope(isText(value) ? value : envelopeAt(row, path, header, place), place)
}

/** Whether `header` belongs to the compact form, not to the application: a field needs it, or all fields are missing. */
export function isHeaderUsed(row: Row, paths: readonly Path[], header: string): boolean {
  const values = paths.map((path) => getAt(row, path))
  return values.some(isCompact) || (row[header] === null && values.every(isMissing))
}

/** Takes the object, its JSON as a text column returns it, or its text form. */
export function isCompact(value: unknown): value is CompactField | string {
  if (typeof value === 'string') return isFieldText(value) || COMPACT_JSON.test(value)
  return isObject(value) && 'c' in value && 'i' in value
}

export function headerTextOf(parts: Parameters<typeof encodeHeaderText>[0], place?: RecordPlace): string {
  return reading(place, () => encodeHeaderText(parts))
}

export function isHeaderText(value: unknown): value is string {
  return typeof value === 'string' && HEADER_TEXT.test(value)
}

function isFieldText(value: unknown): value is string {
  return typeof value === 'string' && value.startsWith(COMPACT_FIELD)
}

function isHeader(value: unknown): value is EnvelopeHeader {
  return isObject(value) && Object.hasOwn(value, 'wrapped_key') && !('ciphertext' in value)
}
