/** Rows as a model stores them: fields by their paths, and the compact form (rows.md), lossless to envelopes both ways. */
import { InvalidInputError, type RecordPlace } from '../errors.js'
import { isMissing, type Row, valueIn } from '../input.js'
import { readEnvelope } from '../records/envelopes.js'
import { getAt, type Path, withValues } from '../records/paths.js'

/** What the envelopes of one record share, in the compact form: stored once. */
export interface EnvelopeHeader {
  wrapped_key: string
  key_id: string
  key_version: number
  /** Absent where the record holds bundles of server mode. */
  envelope_version?: 1
}

/** What is a field's own, in the compact form: ciphertext and iv. */
export interface CompactField {
  c: string
  i: string
}

const HEADER_FIELDS = ['wrapped_key', 'key_id', 'key_version', 'envelope_version'] as const

/**
 * Turns envelopes into the compact form: what they share goes into the column `header`, and `{ c, i }` stays in the fields.
 *
 * @throws InvalidInputError when a field is no envelope, or sealed under another DEK than the others, or when the row has a column
 * of its own in the header's place
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
        'the fields of this record are sealed under different DEKs',
        'Keep it as it is, or reseal it: all its fields then share one.',
        place,
      )
    }
    fields.push([path, { c: envelope.ciphertext, i: envelope.iv }])
  }
  assertHeaderColumn(row, header, index)
  return { ...withValues(row, fields), [header]: shared ?? null }
}

/** Refuses a row whose own column would be lost under what the compact form adds. @throws InvalidInputError */
export function assertHeaderColumn(row: Row, header: string, index: number): void {
  const value = valueIn(row, header)
  if (isMissing(value) || isHeader(value)) return
  const message = `record ${index}: the compact form would overwrite the column ${JSON.stringify(header)}`
  throw new InvalidInputError(message, 'Name another column for it: `header` of the model.')
}

/**
 * Turns the compact form back into envelopes, exactly as they were; a row that holds envelopes already stays as it is.
 *
 * @throws InvalidInputError when the column of what its fields share is missing
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
 * The envelope that a field is, whichever form it is stored in; not yet known to be one.
 *
 * @throws InvalidInputError when the column of what the fields share is missing
 */
export function envelopeAt(row: Row, path: Path, header: string, place: RecordPlace): Row {
  const value = getAt(row, path)
  if (!isCompact(value)) return value as Row
  const shared = valueIn(row, header)
  if (!isHeader(shared)) {
    const column = JSON.stringify(header)
    throw new InvalidInputError(`the column ${column} is missing`, `Read the column ${column} too.`, place)
  }
  return { ciphertext: value.c, iv: value.i, ...shared }
}

/**
 * Whether the column `header` is the compact form's, and not one of the application: a field refers to it, or it is null as
 * in a record that has none.
 */
export function isHeaderUsed(row: Row, paths: readonly Path[], header: string): boolean {
  const values = paths.map((path) => getAt(row, path))
  return values.some(isCompact) || (row[header] === null && values.every(isMissing))
}

export function isCompact(value: unknown): value is CompactField {
  return typeof value === 'object' && value !== null && 'c' in value && 'i' in value
}

/** Whether a value is what a record's envelopes share, and not an envelope itself. */
export function isHeader(value: unknown): value is EnvelopeHeader {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, 'wrapped_key') && !('ciphertext' in value)
}
