/** Values that are not sealed yet. They are read exactly or refused: sealing a value destroys its text. */
import { decodeBase64 } from '@eaas/protocol'
import { InvalidInputError } from '../errors.js'
import { isMissing, isObject, type Row } from '../input.js'
import { assertJsonValue, encodeJson } from '../json.js'
import type { OpenJob } from '../records/open-blocks.js'
import { getAt } from '../records/paths.js'
import { spellingsOf } from '../records/spellings.js'
import { isCompact } from './compact-rows.js'
import { type Definition, isTextFormat, type PlacedField } from './definition.js'
import type { FieldKind } from './fields.js'
import type { Accepted } from './model-types.js'

const TEXTS: Readonly<Record<Exclude<FieldKind, 'text'>, [expected: string, read: (text: string) => unknown]>> = {
  date: ['a day, or a time with its offset, to the millisecond', readDate],
  number: ['a number that JavaScript holds exactly', readNumber],
  boolean: ['true or false', (text) => (text === 'true' ? true : text === 'false' ? false : undefined)],
  // PostgreSQL's encode() breaks lines.
  bytes: ['base64', (text) => decodeBase64(text.replaceAll(/\r?\n/g, ''))],
  // Any other text may be JSON, or a value in a JSON column.
  json: ['an object or list in JSON that JavaScript holds exactly', readJson],
}

export function readPlain(
  { format, plainIsRead }: Pick<Definition, 'format' | 'plainIsRead'>,
  { name, spec }: PlacedField,
  value: unknown,
  index: number,
): unknown {
  const place = { index, field: name }
  const { kind } = spec
  if (typeof value !== 'string' || kind === 'text' || plainIsRead) {
    spec.assert(value, place, { assertJsonValue, encodeJson })
    return value
  }
  const [expected, read] = TEXTS[kind]
  const own = kind === 'json' ? ': `(stored) => stored` in a JSON column.' : '.'
  const hint = `Correct the stored text, or give a backfill a reader${own}`
  let plain: unknown
  try {
    plain = read(value)
  } catch {
    // not the parsers' errors, which quote the text
  }
  if (kind === 'json' && !isTextFormat(format)) {
    // In a JSON column, a text is itself a value.
    if (plain === undefined) return value
    throw new InvalidInputError(
      'it may be JSON or a text',
      `Give a column of type text \`format: 'text'\` or \`'compact-text'\`. ${hint}`,
      place,
    )
  }
  if (plain === undefined) throw new InvalidInputError(`expected the text of ${expected}`, hint, place)
  return plain
}

/** Matches ISO 8601, and PostgreSQL's `date` and `timestamptz`. A time without an offset is refused: its zone is unknown. */
const DATE = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,3})0*)?(?:Z|([+-])(\d\d)(?::?(\d\d))?))?$/

function readDate(text: string): Date | undefined {
  const [, day, time = '00:00:00', part = '', sign, hours = 0, minutes = 0] = DATE.exec(text) ?? []
  const local = `${day}T${time}.${part.padEnd(3, '0')}Z`
  const read = new Date(local)
  // JavaScript reads 30 February as 2 March. For text that DATE does not match, toISOString throws.
  if (read.toISOString() !== local) return undefined
  const offset = (Number(hours) * 60 + Number(minutes)) * 60_000
  return new Date(read.getTime() + (sign === '-' ? offset : -offset))
}

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

function readNumber(text: string): number | undefined {
  return NUMBER.test(text) && isKept(text) ? Number(text) : undefined
}

function readJson(text: string): unknown {
  const value: unknown = JSON.parse(text)
  return isObject(value) && isKept(text, value) ? value : undefined
}

function countNames(value: unknown): number {
  if (!isObject(value)) return 0
  const own = Array.isArray(value) ? 0 : Object.keys(value).length
  return Object.values(value).reduce((sum: number, one) => sum + countNames(one), own)
}

/** Tells whether a parsed value keeps each number as its JSON text writes it, and each name as often. */
export function isKept(json: string, value?: unknown): boolean {
  const bare = json.replaceAll(/"(?:[^"\\]|\\.)*"/g, '')
  const numbers = bare.match(/-?\d[\d.eE+-]*/g) ?? []
  const isExact = (number: string) => decimalOf(number) === decimalOf(String(Number(number)))
  return countNames(value) === bare.split(':').length - 1 && numbers.every(isExact)
}

function decimalOf(number: string): string {
  const [, sign = '', whole = '', part = '', exponent = '0'] =
    /^(-?)(\d+)\.?(\d*)(?:[eE]([+-]?\d+))?$/.exec(number) ?? []
  const digits = whole + part
  let [start, end] = [0, digits.length]
  while (digits[start] === '0') start++
  while (end > start && digits[end - 1] === '0') end--
  if (start === end) return '0'
  return `${sign}${digits.slice(start, end)}e${Number(exponent) - part.length + digits.length - end}`
}

export function acceptPlain(definition: Definition, field: PlacedField, value: unknown, index: number): boolean {
  if (looksSealed(value)) return false
  return !looksSealed(readPlain(definition, field, value, index)) // an envelope may be inside JSON
}

// Quotes, brackets, backslashes and invisible characters may come first, if JSON was written twice or text was pasted.
// A compact field is recognised by the base64 in its first member, however short it was truncated.
const SEALED_TEXT =
  /^[\s\p{C}"'[\\]*(eaas\.|\{(.*"(ciphertext|wrapped_key)\\*"|\s*\\*"[ci]\\*"\W*([\w+/]{16}|[\w+/]*$)))/su

/** Tells whether it is an envelope, whole or truncated, which must fail and not be sealed again as plaintext. */
export function looksSealed(value: unknown): boolean {
  const queue = [value] // not recursion, which nested lists could exhaust
  for (const one of queue) {
    if (typeof one === 'string') {
      if (spellingsOf(one).some((text) => SEALED_TEXT.test(text))) return true
    } else if (Array.isArray(one)) {
      for (const member of one as unknown[]) if (!isCompact(member)) queue.push(member)
    } else if (isCompact(one) || Object(one).ciphertext !== undefined || Object(one).wrapped_key !== undefined)
      return true
  }
  return false
}

/** Counts an opened row's values that were not sealed, and warns of the model's first one. */
export function countPlain(accepted: Accepted, definition: Definition, row: Row, jobs: readonly OpenJob[]): void {
  const { fields, name: model, warn } = definition
  const sealed = new Set(jobs.map(({ place }) => place.field))
  for (const { name, path } of fields) {
    if (sealed.has(name) || isMissing(getAt(row, path))) continue
    if (accepted.plaintext++ > 0 || !warn) continue
    const place = JSON.stringify([model, name])
    console.warn(`@eaas/sdk: ${place} holds values that are not encrypted, see acceptPlaintext`)
  }
}
