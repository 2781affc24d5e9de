/** Rows as a model stores them: fields by their paths, and the compact form, lossless to envelopes both ways. */
import { FormatError } from '@eaas/protocol'
import { InvalidInputError } from '../errors.js'

export type Row = Record<string, unknown>
/** A field's name cut at its dots. */
export type Path = readonly string[]

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

/** The value at a path, or undefined where the path ends early. */
export function getAt(row: Row, path: Path): unknown {
  let value: unknown = row
  for (const name of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = (value as Row)[name]
  }
  return value
}

/** A copy of a row with other values at some paths; what is not on one of them is shared with the row. */
export function withValues(row: Row, values: Iterable<readonly [Path, unknown]>): Row {
  const copy = { ...row }
  const own = new Set<unknown>([copy])
  for (const [path, value] of values) {
    let parent = copy
    for (const name of path.slice(0, -1)) {
      let child = parent[name]
      if (!own.has(child)) {
        child = { ...(child as Row) }
        own.add(child)
        parent[name] = child
      }
      parent = child as Row
    }
    parent[path.at(-1) ?? ''] = value
  }
  return copy
}

/** Refuses a row in which something on the way to a field is neither an object nor missing. @throws InvalidInputError */
export function demandPath(row: Row, path: Path, index: number): void {
  let value: unknown = row
  for (const name of path.slice(0, -1)) {
    if (!Object.hasOwn(value as Row, name)) return
    value = (value as Row)[name]
    if (value === undefined || value === null) return
    if (typeof value !== 'object' || Array.isArray(value)) {
      throw new InvalidInputError(`${name} must be an object`, undefined, { index, field: path.join('.') })
    }
  }
}

/**
 * Turns envelopes into the compact form: what they share goes into the column `header`, and `{ c, i }` stays in the fields.
 *
 * @throws InvalidInputError when the fields are sealed under different DEKs
 */
export function packRow(row: Row, paths: readonly Path[], header: string, index = 0): Row {
  let shared: EnvelopeHeader | undefined
  const fields: [Path, unknown][] = []
  for (const path of paths) {
    const value = getAt(row, path)
    if (isMissing(value) || isCompact(value)) continue
    const envelope = value as Row
    const own: Row = {}
    for (const name of HEADER_FIELDS) if (Object.hasOwn(envelope, name)) own[name] = envelope[name]
    shared ??= own as unknown as EnvelopeHeader
    if (HEADER_FIELDS.some((name) => shared?.[name] !== own[name])) {
      throw new InvalidInputError(
        'the fields of this record are sealed under different DEKs',
        'Keep it as it is, or reseal it: all its fields then share one.',
        { index, field: path.join('.') },
      )
    }
    fields.push([path, { c: envelope.ciphertext, i: envelope.iv }])
  }
  if (!shared) return header in row ? row : { ...row, [header]: null }
  return { ...withValues(row, fields), [header]: shared }
}

/** Turns the compact form back into envelopes, exactly as they were; a row that holds envelopes already stays as it is. */
export function unpackRow(row: Row, paths: readonly Path[], header: string): Row {
  const fields: [Path, unknown][] = []
  for (const path of paths) {
    const value = getAt(row, path)
    if (isCompact(value)) fields.push([path, expand(value, row[header])])
  }
  const { [header]: dropped, ...rest } = row
  if (fields.length > 0) return withValues(rest, fields)
  return dropped === null || isHeader(dropped) ? rest : row
}

/** The envelope that a field is, whichever form it is stored in. @throws FormatError */
export function envelopeAt(row: Row, path: Path, header: string): unknown {
  const value = getAt(row, path)
  return isCompact(value) ? expand(value, row[header]) : value
}

export function isMissing(value: unknown): value is null | undefined {
  return value === null || value === undefined
}

export function isCompact(value: unknown): value is CompactField {
  return typeof value === 'object' && value !== null && 'c' in value && 'i' in value
}

function isHeader(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'wrapped_key' in value
}

function expand({ c, i }: CompactField, header: unknown): Row {
  if (!isHeader(header)) throw new FormatError('the column of what its fields share is missing')
  return { ciphertext: c, iv: i, ...(header as Row) }
}
