/** What callers pass, turned into typed values at the edge; anything else is refused before any network. */
import { decodeUtf8, encodeUtf8, FormatError, isUuid, isWellFormed } from '@eaas/protocol'
import { AbortedError, ContentError, InvalidInputError, type RecordPlace } from './errors.js'
import { MAX_PLAINTEXT_BYTES } from './records/envelopes.js'

/** So many bytes of JSON fit into a call of the API, which takes 1 MiB, with what goes along. */
const MAX_HASHED_JSON_BYTES = 1_000_000
/** How many bytes of JSON one code unit becomes at most. */
const MOST_ESCAPED = 6

/** Bytes in memory of their own, which platforms take as a `BufferSource`: `Uint8Array<ArrayBuffer>` since TypeScript 5.7. */
export type Bytes = ReturnType<typeof Uint8Array.of>

/** A record, whatever is in it. */
export type Row = Record<string, unknown>

/** Refuses what is not a key's id. @throws InvalidInputError */
export function demandKeyId(keyId: unknown): asserts keyId is string {
  if (typeof keyId === 'string' && isUuid(keyId)) return
  throw new InvalidInputError(
    'keyId must be a UUID, lower case, with dashes',
    'Pass the `id` of a key, from eaas.keys.create() or eaas.keys.list(); not its name.',
  )
}

/** The bytes of a value to be sealed; text becomes UTF-8. @throws InvalidInputError */
export function readValue(value: unknown, place?: RecordPlace): Uint8Array {
  const bytes = typeof value === 'string' ? readText(value, place) : value
  if (!(bytes instanceof Uint8Array)) {
    throw new InvalidInputError(
      `a value must be a string or a Uint8Array, got ${kindOf(bytes)}`,
      'Use encryptJson() for other values.',
      place,
    )
  }
  if (bytes.length > MAX_PLAINTEXT_BYTES) {
    throw new InvalidInputError(
      `a value must be at most ${MAX_PLAINTEXT_BYTES} bytes, got ${bytes.length}`,
      'Split it.',
      place,
    )
  }
  return bytes
}

/** Refuses what `readValue` would refuse, without making the bytes of a text. @throws InvalidInputError */
export function demandValue(value: unknown, place?: RecordPlace): void {
  if (typeof value !== 'string' || !isWellFormed(value)) readValue(value, place)
}

/** The JSON text of a value. @throws InvalidInputError when JSON cannot hold it */
export function readJson(value: unknown, place?: RecordPlace): string {
  let json: string | undefined
  try {
    json = JSON.stringify(value)
  } catch {
    json = undefined // the platform's message may quote the value
  }
  if (json === undefined) {
    throw new InvalidInputError(`JSON cannot hold this value: ${kindOf(value)}`, undefined, place)
  }
  return json
}

/** The text that opened bytes are. @throws ContentError when they are not UTF-8 */
export function toText(bytes: Uint8Array, place?: RecordPlace): string {
  try {
    return decodeUtf8(bytes)
  } catch {
    throw new ContentError(
      'the decrypted value is not UTF-8 text',
      'Read it as bytes: decrypt(), `as: "bytes"` with decryptMany(), bytes() in a model.',
      place,
    )
  }
}

/** The value that opened bytes hold as JSON. @throws ContentError */
export function toJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(decodeUtf8(bytes))
  } catch {
    // The parser's message quotes the text.
    throw new ContentError('the decrypted value is not JSON', 'Use decryptText() or decrypt().')
  }
}

/** Refuses text that has no blind index. @throws InvalidInputError */
export function demandHashable(value: unknown, place?: RecordPlace): asserts value is string {
  if (typeof value !== 'string')
    throw new InvalidInputError(`a blind index is made of text, got ${kindOf(value)}`, undefined, place)
  if (!isWellFormed(value) || value.includes('\0')) {
    throw new InvalidInputError(
      'text for a blind index must hold no NUL and no lone surrogate',
      'Correct the value, or normalise it to text that has neither.',
      place,
    )
  }
  if (value.length * MOST_ESCAPED <= MAX_HASHED_JSON_BYTES) return
  if (encodeUtf8(JSON.stringify(value)).length > MAX_HASHED_JSON_BYTES) {
    throw new InvalidInputError(
      'text for a blind index must be at most 1,000,000 bytes as JSON',
      'Normalise it to something shorter, or leave the index out.',
      place,
    )
  }
}

/** Refuses what is not a name for a key or an API key. @throws InvalidInputError */
export function demandName(name: unknown, option = 'name'): asserts name is string {
  if (typeof name !== 'string' || name === '' || [...name].length > 255) {
    throw new InvalidInputError(`${option} must be text of 1 to 255 characters`)
  }
  if (!isWellFormed(name) || name.includes('\0')) {
    throw new InvalidInputError(`${option} must hold no NUL and no lone surrogate`)
  }
}

/** Refuses what is not an id of the API. @throws InvalidInputError */
export function demandId(id: unknown): asserts id is string {
  if (typeof id !== 'string' || !isUuid(id)) throw new InvalidInputError('id must be a UUID, lower case, with dashes')
}

/** Refuses a number outside the range, or one that is not whole. @throws InvalidInputError */
export function demandWhole(name: string, value: unknown, min: number, max: number): asserts value is number {
  if (Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max) return
  throw new InvalidInputError(`${name} must be a whole number from ${min} to ${max}`)
}

/** Refuses a limit or an offset that the service would refuse. @throws InvalidInputError */
export function demandPage(limit: unknown, offset: unknown): void {
  if (limit !== undefined) demandWhole('limit', limit, 1, Number.MAX_SAFE_INTEGER)
  if (offset !== undefined) demandWhole('offset', offset, 0, Number.MAX_SAFE_INTEGER)
}

/** A time as the API takes it. @throws InvalidInputError on an invalid Date */
export function readTime(value: string | Date, name: string): string {
  if (typeof value === 'string') return value
  if (!(value instanceof Date) || Number.isNaN(value.getTime())) {
    throw new InvalidInputError(`${name} must be text or a valid Date`)
  }
  return value.toISOString()
}

/** Refuses what holds no options. @throws InvalidInputError */
export function demandOptions(name: string, options: unknown): asserts options is object {
  if (typeof options === 'object' && options !== null && !Array.isArray(options)) return
  throw new InvalidInputError(`${name} takes an object of options, got ${kindOf(options)}`)
}

/** Refuses to begin when the signal is aborted already. @throws AbortedError; InvalidInputError when it is no signal */
export function demandNotAborted(signal: AbortSignal | undefined): void {
  if (signal === undefined) return
  if (typeof signal?.aborted !== 'boolean') {
    throw new InvalidInputError(`signal must be an AbortSignal, got ${kindOf(signal)}`, 'Pass `controller.signal`.')
  }
  if (signal.aborted) throw new AbortedError('signal')
}

/** Whether it can be the name of a field or a column. */
export function isName(value: unknown): value is string {
  // Assigning to __proto__ would set the prototype of the record instead of a field.
  return typeof value === 'string' && value !== '' && value !== '__proto__'
}

/** The value of a record under a name, its own or its class's, such as an accessor of an ORM's; nothing that all objects have. */
export function valueIn(record: object, name: string): unknown {
  return name in Object.prototype && !Object.hasOwn(record, name) ? undefined : (record as Row)[name]
}

export function isMissing(value: unknown): value is null | undefined {
  return value === null || value === undefined
}

/** What a value is, in a word that tells nothing of its content. */
export function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'an array'
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'an invalid Date' : 'a Date'
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value)
  return typeof value === 'object' ? 'an object' : typeof value
}

function readText(text: string, place: RecordPlace | undefined): Uint8Array {
  try {
    return encodeUtf8(text)
  } catch (error) {
    if (!(error instanceof FormatError)) throw error
    throw new InvalidInputError(error.message, 'Pass a Uint8Array where the value is not text.', place)
  }
}
