/** What callers pass, turned into typed values at the edge; anything else is refused before any network. */
import { asBytes, decodeUtf8, encodeUtf8, FormatError, isUuid, isWellFormed } from '@eaas/protocol'
import { AbortedError, ContentError, InvalidInputError, type RecordPlace } from './errors.js'
import { MAX_HASHED_JSON_BYTES, MAX_PLAINTEXT_BYTES } from './limits.js'
import { nearestName } from './nearest-name.js'

/** How many bytes of JSON one code unit becomes at most. */
const MOST_ESCAPED = 6

/** Bytes in memory of their own, which platforms take as a `BufferSource`: `Uint8Array<ArrayBuffer>` since TypeScript 5.7. */
export type Bytes = ReturnType<typeof Uint8Array.of>

/** A record, whatever is in it. */
export type Row = Record<string, unknown>

/** Refuses what is not a key's id. @throws InvalidInputError */
export function assertKeyId(keyId: unknown, option = 'keyId'): asserts keyId is string {
  if (typeof keyId === 'string' && isUuid(keyId)) return
  throw new InvalidInputError(
    `${option}: a key's id is a UUID, lower case, with dashes`,
    'Pass the `id` of a key, from eaas.keys.create() or eaas.keys.list(); not its name.',
  )
}

const lengthOf = Object.getOwnPropertyDescriptor(ArrayBuffer.prototype, 'byteLength')?.get

/** Bytes as platforms have them: a buffer, or a view of one, of whatever type its elements are. */
export type Binary = ArrayBuffer | ArrayBufferView

/** The bytes of a value to be sealed; text becomes UTF-8. @throws InvalidInputError */
export function readValue(value: unknown, place?: RecordPlace): Uint8Array {
  const bytes = typeof value === 'string' ? readText(value, place) : readBinary(value)
  if (!bytes) {
    throw new InvalidInputError(
      `a value must be a string or bytes, got ${kindOf(value)}`,
      'Use encryptJson() for other values; a detached buffer has none.',
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

/** The bytes of a buffer or a view, over the same memory; undefined for anything else, and where the memory was given away. */
export function readBinary(value: unknown): Uint8Array | undefined {
  const bytes = asBytes(value)
  if (bytes && bytes.length > 0) return bytes
  try {
    if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    lengthOf?.call(value) // throws unless it is an ArrayBuffer, of whatever realm
    return new Uint8Array(value as ArrayBuffer)
  } catch {
    return undefined // detached, it would be sealed as if it were empty; or something else
  }
}

/** Refuses what `readValue` would refuse, without making the bytes of a text. @throws InvalidInputError */
export function assertValue(value: unknown, place?: RecordPlace): void {
  if (typeof value !== 'string' || !isWellFormed(value)) readValue(value, place)
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
export function assertHashable(value: unknown, place?: RecordPlace): asserts value is string {
  if (typeof value !== 'string')
    throw new InvalidInputError(`a blind index is made of text, got ${kindOf(value)}`, undefined, place)
  if (!isWellFormed(value)) {
    throw new InvalidInputError('text for a blind index must hold no lone surrogate', undefined, place)
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

/** Refuses a number outside the range, or one that is not whole. @throws InvalidInputError */
export function assertWhole(name: string, value: unknown, min: number, max: number): asserts value is number {
  if (Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max) return
  throw new InvalidInputError(`${name} must be a whole number from ${min} to ${max}`)
}

/**
 * Refuses what holds no options, and an option that is not known: it would do nothing, and nobody would know.
 *
 * @throws InvalidInputError
 */
export function assertOptions(name: string, options: unknown, known?: readonly string[]): asserts options is object {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new InvalidInputError(`${name} takes an object of options, got ${kindOf(options)}`)
  }
  const unknown = known && Object.keys(options).find((option) => !known.includes(option))
  if (unknown === undefined) return
  const near = nearestName(unknown, known ?? [])
  const meant = near === undefined ? '' : `: did you mean ${JSON.stringify(near)}?`
  throw new InvalidInputError(
    `${name} has no option ${JSON.stringify(unknown)}${meant}`,
    `Its options: ${known?.join(', ') || 'none'}.`,
  )
}

/** The signal of a call that has no other option. @throws InvalidInputError; AbortedError when it is aborted already */
export function readSignal(name: string, options: { signal?: AbortSignal | undefined } = {}): AbortSignal | undefined {
  assertOptions(name, options, ['signal'])
  assertNotAborted(options.signal)
  return options.signal
}

/** Refuses to begin when the signal is aborted already. @throws AbortedError; InvalidInputError when it is no signal */
export function assertNotAborted(signal: AbortSignal | undefined): void {
  if (signal === undefined) return
  if (typeof signal?.aborted !== 'boolean' || typeof signal.addEventListener !== 'function') {
    throw new InvalidInputError(`signal must be an AbortSignal, got ${kindOf(signal)}`, 'Pass `controller.signal`.')
  }
  if (signal.aborted) throw new AbortedError(signal)
}

/** Whether it is a Date, of whatever realm, that holds a time. */
export function isValidDate(value: unknown): value is Date {
  return Number.isFinite(timeOf(value))
}

/** ISO 8601 with milliseconds, UTC, whatever a subclass of Date makes of it. */
export function isoText(date: Date): string {
  return Date.prototype.toISOString.call(date)
}

/** The milliseconds of a Date, NaN if it is invalid; undefined for what is no Date. */
function timeOf(value: unknown): number | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  try {
    return Date.prototype.getTime.call(value)
  } catch {
    return undefined
  }
}

/** Whether it can be the name of a field or a column. */
export function isName(value: unknown): value is string {
  // Assigning to __proto__ would set the prototype of the record instead of a field.
  return typeof value === 'string' && value !== '' && value !== '__proto__'
}

/** The rows as they are now: what seals them may have to be loaded first. What is no plain object is read later. */
export function takeRows<R>(rows: readonly R[]): readonly R[] {
  return Array.isArray(rows) ? Array.from(rows as readonly (R & object)[], takeRow) : rows
}

function takeRow<R extends object>(row: R): R {
  try {
    if (Object.getPrototypeOf(row) !== Object.prototype) return row
    const copy = { ...row }
    return Reflect.ownKeys(copy).length === Reflect.ownKeys(row).length ? copy : row // what is hidden is refused later
  } catch {
    return row
  }
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
  if (timeOf(value) !== undefined) return isValidDate(value) ? 'a Date' : 'an invalid Date'
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
