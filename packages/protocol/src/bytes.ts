/** Bytes and their text forms. Decoding is strict: text that is not canonical is refused, never repaired. */

/** Thrown when text or bytes do not have the form that the protocol requires. The message never contains the input. */
export class FormatError extends Error {
  override readonly name = 'FormatError'
}

const PART_BYTES = 8_192
/** Up to this many bytes are coded in memory that is kept and cleared, since new memory costs more than the coding. */
const SCRATCH_BYTES = 1_024

interface NodeBuffer {
  byteLength(text: string): number
  alloc(length: number): NodeBytes
  from(bytes: ArrayBufferLike, offset: number, length: number): NodeBytes
}

interface NodeBytes extends Uint8Array {
  write(text: string, encoding: 'base64'): number
  toString(encoding?: 'base64' | 'base64url' | 'hex', start?: number, end?: number): string
}

interface NativeBase64 {
  toBase64?: (this: Uint8Array) => string
}

// Node's Buffer, if it exists, is several times faster than the alternatives. Accessed through globalThis, so that
// bundlers for browsers add no polyfill.
const nodeBuffer = (globalThis as { Buffer?: NodeBuffer }).Buffer
/** ASCII of at most this many characters is encoded here, faster than a call of the platform's encoder. */
const SHORT_TEXT = 64
const scratchBytes = new Uint8Array(SCRATCH_BYTES)
const scratch = nodeBuffer?.from(scratchBytes.buffer, 0, SCRATCH_BYTES)
const nativeToBase64 = (Uint8Array.prototype as NativeBase64).toBase64
const nativeFromBase64 = (Uint8Array as { fromBase64?: (text: string) => Uint8Array }).fromBase64

/** Encodes bytes as standard base64 with padding (RFC 4648 section 4). */
export function encodeBase64(bytes: Uint8Array): string {
  return encodeByBuffer(bytes, 'base64') ?? nativeToBase64?.call(bytes) ?? btoa(binaryString(bytes))
}

/** Decodes canonical base64 (RFC 4648 section 4), to memory of its own. @throws FormatError for any other text */
export function decodeBase64(text: string): Uint8Array {
  const bytes = findBase64(text)
  if (!bytes) throw new FormatError('not canonical base64')
  return bytes
}

/** Encodes bytes as base64url without padding (RFC 4648 section 5). */
export function encodeBase64Url(bytes: Uint8Array): string {
  const text = encodeByBuffer(bytes, 'base64url')
  return text ?? encodeBase64(bytes).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}

/** Encodes short bytes in the scratch memory: a Buffer over their own memory would first move them out of V8's heap. */
function encodeByBuffer(bytes: Uint8Array, encoding: 'base64' | 'base64url' | 'hex'): string | undefined {
  if (!scratch || bytes.length > SCRATCH_BYTES)
    return nodeBuffer?.from(bytes.buffer, bytes.byteOffset, bytes.length).toString(encoding)
  scratchBytes.set(bytes)
  const text = scratch.toString(encoding, 0, bytes.length)
  scratchBytes.fill(0)
  return text
}

/** Decodes what `encodeBase64Url` returns. @throws FormatError for any other text */
export function decodeBase64Url(text: string): Uint8Array {
  if (!/^[\w-]+$/.test(text)) throw new FormatError('not canonical base64')
  return decodeBase64(text.replaceAll('-', '+').replaceAll('_', '/') + '='.repeat(-text.length & 3))
}

/** Whether the text is canonical base64, of `length` bytes if given. Zeroes the decoded bytes, which may be a DEK. */
export function isBase64(text: string, length?: number): boolean {
  const bytes = findBase64(text)?.fill(0)
  return bytes !== undefined && (length === undefined || bytes.length === length)
}

/** Undefined if the text is not canonical base64. */
function findBase64(text: string): Uint8Array | undefined {
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0
  const length = (text.length / 4) * 3 - padding
  // The platforms' decoders accept more than the standard allows. If they skip characters, the result is too short.
  // Bits after the last byte must be zero, so only a few characters may precede the padding.
  if (text.length % 4 > 0 || text.includes('-') || text.includes('_')) return undefined
  if (padding && !/([AEIMQUYcgkosw048]|[AQgw]=)=$/.test(text.slice(-3))) return undefined
  const bytes = lenientBase64(text, length)
  if (bytes?.length === length) return bytes
  bytes?.fill(0)
  return undefined
}

/** Undefined on failure; shorter if it skipped characters. Never `Buffer.from`, whose memory other Buffers share. */
function lenientBase64(text: string, length: number): Uint8Array | undefined {
  if (nodeBuffer && scratch) {
    if (nodeBuffer.byteLength(text) !== text.length) return undefined // Buffer uses only the low 8 bits of each character's code
    if (length <= SCRATCH_BYTES) {
      const bytes = scratchBytes.slice(0, scratch.write(text, 'base64'))
      scratchBytes.fill(0)
      return bytes
    }
    const memory = nodeBuffer.alloc(length)
    return new Uint8Array(memory.buffer, memory.byteOffset, memory.write(text, 'base64'))
  }
  try {
    return nativeFromBase64 ? nativeFromBase64(text) : Uint8Array.from(atob(text), (char) => char.charCodeAt(0))
  } catch {
    return undefined
  }
}

/** One character for each byte, for `btoa`. In parts, because a call takes a limited number of arguments. */
export function binaryString(bytes: Uint8Array): string {
  let text = ''
  for (let at = 0; at < bytes.length; at += PART_BYTES) {
    text += String.fromCharCode(...bytes.subarray(at, at + PART_BYTES))
  }
  return text
}

export function encodeHex(bytes: Uint8Array): string {
  return encodeByBuffer(bytes, 'hex') ?? Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Decodes lower-case hexadecimal. @throws FormatError on an odd length or any other character */
export function decodeHex(text: string): Uint8Array {
  if (!/^(?:[0-9a-f]{2})*$/.test(text)) throw new FormatError('not lower-case hexadecimal')
  return hexBytes(text)
}

function hexBytes(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length / 2)
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    bytes[at >> 1] = ((bytes[at >> 1] ?? 0) << 4) | (code < 0x61 ? code - 0x30 : code - 0x57)
  }
  return bytes
}

interface TextCoders {
  TextEncoder: typeof TextEncoder
  TextDecoder: typeof TextDecoder
}

interface MaybeNode {
  process?: { getBuiltinModule?: (id: string) => unknown }
}

let encoder: TextEncoder | undefined
let decoder: TextDecoder | undefined

/** The platform's own coders, or Node's if a simulated browser, such as jsdom in jest, lacks them. */
function textCoders(): TextCoders {
  if (typeof TextEncoder === 'function' && typeof TextDecoder === 'function') return { TextEncoder, TextDecoder }
  const util = (globalThis as MaybeNode).process?.getBuiltinModule?.('node:util') as TextCoders | undefined
  if (!util) throw new Error('add TextEncoder and TextDecoder to the globals of this platform')
  return util
}

/** Whether a value is text without a lone surrogate, which therefore has a UTF-8 form. */
export function isWellFormed(value: unknown): value is string {
  // Browsers from before 2024 lack the method.
  return typeof value === 'string' && (value.isWellFormed?.() ?? !/\p{Surrogate}/u.test(value))
}

/** Encodes text as UTF-8. @throws FormatError, with `name`, on a lone surrogate, which would become U+FFFD */
export function encodeUtf8(text: string, name = () => 'text'): Uint8Array {
  const ascii = text.length <= SHORT_TEXT && asciiBytes(text)
  if (ascii) return ascii
  if (!isWellFormed(text)) throw new FormatError(`${name()} contains a lone surrogate, which UTF-8 cannot encode`)
  encoder ??= new (textCoders().TextEncoder)()
  return encoder.encode(text)
}

/** Undefined if the text has another character. */
function asciiBytes(text: string): Uint8Array | undefined {
  const bytes = new Uint8Array(text.length)
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code > 0x7f) return undefined
    bytes[at] = code
  }
  return bytes
}

/** Decodes UTF-8; a byte order mark is kept as it is. @throws FormatError when the bytes are not UTF-8 */
export function decodeUtf8(bytes: Uint8Array): string {
  decoder ??= new (textCoders().TextDecoder)('utf-8', { fatal: true, ignoreBOM: true })
  try {
    return decoder.decode(bytes)
  } catch {
    throw new FormatError('bytes are not UTF-8')
  }
}

/** Its time depends only on the lengths. */
export function equalInConstantTime(a: Uint8Array, b: Uint8Array): boolean {
  let difference = a.length ^ b.length
  for (let at = 0; at < a.length; at++) difference |= (a[at] as number) ^ (b[at] ?? 0)
  return difference === 0
}

export function concatBytes(...parts: readonly Uint8Array[]): Uint8Array {
  return join(parts, 0)
}

/** Joins byte strings, each after its length (u32, big-endian), so that different lists give different bytes. */
export function lengthPrefixed(parts: readonly Uint8Array[]): Uint8Array {
  return join(parts, 4) // a list, since a call takes a limited number of arguments
}

function join(parts: readonly Uint8Array[], room: 0 | 4): Uint8Array {
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + room + part.length, 0))
  let at = 0
  for (const part of parts) {
    if (room) writeU32(joined, at, part.length)
    joined.set(part, at + room)
    at += room + part.length
  }
  return joined
}

/** Writes a number below 2^32 in big-endian order, without a `DataView`, which moves a short array out of V8's heap. */
export function writeU32(bytes: Uint8Array, at: number, value: number): void {
  for (let byte = 0; byte < 4; byte++) bytes[at + byte] = value >>> (24 - 8 * byte)
}

export function readU32(bytes: Uint8Array, at: number): number {
  let value = 0
  for (let byte = 0; byte < 4; byte++) value = 256 * value + (bytes[at + byte] ?? 0)
  return value
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** The last UUID: the values of a table share their key's. */
let lastUuid: unknown = UUID

/** Whether the text is a UUID in its canonical form (RFC 9562 section 4: lower case, with dashes). */
export function isUuid(text: string): boolean {
  if (text !== lastUuid && UUID.test(text)) lastUuid = text
  return text === lastUuid
}

/** Returns a UUID in its canonical form, since RFC 9562 section 4 accepts any case on input; other text unchanged. */
export function foldUuid(text: string): string {
  const folded = text.toLowerCase()
  return isUuid(folded) ? folded : text
}

/** The 16 bytes of a canonical UUID. @throws FormatError for other text */
export function uuidBytes(uuid: string): Uint8Array {
  if (!isUuid(uuid)) throw new FormatError('not a canonical UUID')
  return hexBytes(uuid.replaceAll('-', ''))
}
