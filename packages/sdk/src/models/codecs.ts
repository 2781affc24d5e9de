/** Turns the values of each kind of field into bytes and back (codecs.md). */
import { encodeUtf8 } from '@eaas/protocol'
import { ContentError, type RecordPlace } from '../errors.js'
import { assertValue, isMissing, isoText, readBinary, readValue, toText } from '../input.js'
import { assertJsonValue, encodeJson } from '../json.js'
import { type FieldKind, refuse } from './fields.js'

interface Codec {
  /** Refuses a value that cannot be sealed, for kinds whose `FieldSpec` does not. */
  assert?(value: unknown, place: RecordPlace): void
  encode(value: unknown, place: RecordPlace): Uint8Array
  decode(opened: Uint8Array, place: RecordPlace): unknown
}

const printNumber = (value: unknown) => (Object.is(value, -0) ? '-0' : String(value))

export const CODECS: Readonly<Record<FieldKind, Codec>> = {
  text: { encode: readValue, decode: toText },
  bytes: {
    assert(value, place) {
      if (!readBinary(value)) refuse('bytes', value, place)
      assertValue(value, place)
    },
    encode: readValue,
    decode: (opened) => opened,
  },
  json: {
    assert: assertJsonValue,
    encode: encodeJson,
    decode: (opened, place) => parse(opened, place, 'JSON', (read) => JSON.parse(read)),
  },
  number: {
    encode: (value) => encodeUtf8(printNumber(value)),
    decode: (opened, place) =>
      parse(opened, place, 'a number', (read) => canonical(read, finite(Number(read)), printNumber)),
  },
  boolean: {
    assert(value, place) {
      if (typeof value !== 'boolean') refuse('true or false', value, place)
    },
    encode: (value) => encodeUtf8(String(value)),
    decode: (opened, place) =>
      parse(opened, place, 'true or false', (read) => canonical(read, read === 'true', String)),
  },
  date: {
    encode: (value) => encodeUtf8(isoText(value as Date)),
    decode: (opened, place) => parse(opened, place, 'a date', (read) => canonical(read, new Date(read), isoText)),
  },
}

/** Tells whether a value is null or undefined and the field allows that. */
export function isNothing(missing: readonly unknown[], value: unknown): boolean {
  return isMissing(value) && missing.includes(value)
}

// The errors of the parsers quote the text.
function parse<T>(opened: Uint8Array, place: RecordPlace, expected: string, read: (text: string) => T): T {
  const content = toText(opened, place)
  try {
    return read(content)
  } catch {
    throw new ContentError(
      `the decrypted value is not ${expected}`,
      'Declare the field as the kind that was encrypted.',
      place,
    )
  }
}

function canonical<T>(read: string, value: T, print: (value: T) => string): T {
  if (print(value) !== read) throw new Error('not canonical')
  return value
}

function finite(value: number): number {
  if (!Number.isFinite(value)) throw new Error('not finite')
  return value
}
