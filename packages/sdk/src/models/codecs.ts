/** Turns the values of each kind of field into bytes and back (codecs.md). */
import { encodeUtf8 } from '@eaas/protocol'
import { ContentError, type RecordPlace } from '../errors.js'
import { assertValue, isMissing, isoText, readBinary, readValue, toText } from '../input.js'
import type * as Json from '../json.js'
import { type FieldKind, type FieldSpec, refuse } from './fields.js'

/** What writes JSON, which only some models need. */
type WriteJson = Pick<typeof Json, 'assertJsonValue' | 'encodeJson'>

interface Codec {
  /** Refuses a value that cannot be sealed, for kinds whose `FieldSpec` does not. */
  assert?(value: unknown, place: RecordPlace, json: WriteJson): void
  encode(value: unknown, place: RecordPlace, json: WriteJson): Uint8Array
  decode(opened: Uint8Array, place: RecordPlace): unknown
}

/** UTF-8 never contains this byte, so it shows where padding begins (codecs.md 1). */
const PADDING = 0xff

const printNumber = (value: unknown) => (Object.is(value, -0) ? '-0' : String(value))

const CODECS: Readonly<Record<FieldKind, Codec>> = {
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
    assert: (value, place, json) => json.assertJsonValue(value, place),
    encode: (value, place, json) => json.encodeJson(value, place),
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

/** Refuses a value that is not of the field's kind. @throws InvalidInputError */
export function assertKind(spec: FieldSpec, value: unknown, place: RecordPlace, json: WriteJson): void {
  if (spec.assert) spec.assert(value, place)
  else CODECS[spec.kind].assert?.(value, place, json)
}

/** Makes the bytes that are sealed for a value, padded where the field says so. */
export function encodeField({ kind, pad }: FieldSpec, value: unknown, place: RecordPlace, json: WriteJson): Uint8Array {
  const encoded = CODECS[kind].encode(value, place, json)
  if (pad === undefined) return encoded
  const padded = new Uint8Array((Math.floor(encoded.length / pad) + 1) * pad)
  padded.set(encoded)
  padded[encoded.length] = PADDING
  return padded
}

/** Reads opened bytes as a value of the field's kind, padded or not. @throws ContentError */
export function decodeField({ kind }: FieldSpec, opened: Uint8Array, place: RecordPlace): unknown {
  return CODECS[kind].decode(kind === 'bytes' ? opened : withoutPadding(opened), place)
}

function withoutPadding(opened: Uint8Array): Uint8Array {
  let end = opened.length
  while (opened[end - 1] === 0) end--
  return opened[end - 1] === PADDING ? opened.subarray(0, end - 1) : opened
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
