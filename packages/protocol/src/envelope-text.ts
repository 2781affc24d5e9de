/** The text of an envelope (envelope-text.md); its two halves are the texts of a compact row (compact-rows.md 2). */
import { IV_BYTES, KEY_BYTES, TAG_BYTES } from './aead.js'
import {
  concatBytes,
  decodeBase64Url,
  encodeBase64,
  encodeBase64Url,
  encodeHex,
  equalInConstantTime,
  FormatError,
  uuidBytes,
  writeU32,
} from './bytes.js'
import { assertKeyVersion, assertWrappedKeyLength, type WrappedKey, wrappedKeyBytes } from './envelope.js'
import type { SealedParts } from './envelope-v2.js'

const PREFIX = /^eaas\.(1|2|2s)\.(.+)$/s
/** The text of a compact row's header, and the beginning of its fields' texts. */
export const HEADER_TEXT = /^eaas\.h(1|2|2s)\.(.+)$/s
export const COMPACT_FIELD = 'eaas.c.'
const UUID_BYTES = 16
const HEADER_BYTES = UUID_BYTES + 4 + 2
const TOO_SHORT = 'the text is too short'
const NO_TEXT = 'its text must begin with eaas.1., eaas.2. or eaas.2s.'
const NO_HEADER = 'its header must be the text of one'
type SharedParts = Omit<SealedParts, 'iv' | 'sealed'>

/** Encodes an envelope as text (envelope-text.md 1). @throws FormatError for a wrapped key without a text form */
export function encodeEnvelopeText(parts: SealedParts): string {
  return `eaas.${encodeShared(parts, parts.iv, parts.sealed)}`
}

/** Encodes the common part of a compact row's envelopes as the text of its header. @throws FormatError as above */
export function encodeHeaderText(parts: SharedParts): string {
  return `eaas.h${encodeShared(parts)}`
}

/** Encodes the iv and ciphertext of one field of a compact row as the field's text. */
export function encodeFieldText({ iv, sealed }: SealedParts): string {
  return COMPACT_FIELD + encodeBase64Url(concatBytes(iv, sealed))
}

/** What a text of a DEK begins with: the values of a column often share it. */
interface Start {
  shared: SharedParts
  /** The version, and the base64url of the whole groups of three bytes. */
  text: string
  /** The bytes after these groups, at most two. */
  over: Uint8Array
  bytes: number
}

let last: Start | undefined
const NONE = new Uint8Array(0)

function encodeShared(parts: SharedParts, ...own: readonly Uint8Array[]): string {
  const { wrapped_key, key_id, key_version, commitment = NONE, needsSecret } = parts
  const { shared } = last ?? {}
  const isSame =
    shared?.wrapped_key === wrapped_key &&
    shared.key_id === key_id &&
    shared.key_version === key_version &&
    shared.needsSecret === needsSecret &&
    equalInConstantTime(shared.commitment ?? NONE, commitment)
  const { text, over } = last && isSame ? last : startOf(parts)
  return text + encodeBase64Url(concatBytes(over, ...own))
}

function startOf({ wrapped_key, key_id, key_version, commitment = NONE, needsSecret }: SharedParts): Start {
  const bytes = wrappedKeyBytes({ wrapped_key })
  const numbers = new Uint8Array(HEADER_BYTES - UUID_BYTES)
  writeU32(numbers, 2, bytes.length) // its first two bytes are zero, and the version overwrites them
  writeU32(numbers, 0, key_version)
  const version = commitment.length === 0 ? '1' : needsSecret ? '2s' : '2'
  return readStart(version, concatBytes(uuidBytes(key_id), numbers, bytes, commitment), NO_HEADER)
}

/** `short`: why it is refused without a whole commitment. @throws FormatError */
function readStart(version: string, bytes: Uint8Array, short: string): Start {
  const { end, ...wrapped } = readHead(bytes)
  const at = version === '1' ? end : end + KEY_BYTES
  if (bytes.length < at) throw new FormatError(short)
  const shared: SharedParts = version === '1' ? wrapped : { ...wrapped, commitment: bytes.slice(end, at) }
  if (version === '2s') shared.needsSecret = true
  const whole = at - (at % 3)
  const text = `${version}.${encodeBase64Url(bytes.subarray(0, whole))}`
  last = { shared, text, over: bytes.slice(whole, at), bytes: at }
  return last
}

interface Found {
  shared: SharedParts
  bytes: Uint8Array
  /** Where the iv begins in the bytes. */
  at: number
}

/** Decodes a text with its start. @throws FormatError for other text */
function decodeStart(text: string, prefix: string, form: RegExp, [other, short]: readonly [string, string]): Found {
  if (last && text.startsWith(last.text, prefix.length) && text.startsWith(prefix)) {
    const { shared, over } = last
    const tail = text.slice(prefix.length + last.text.length)
    const bytes = tail === '' ? NONE : decodeBase64Url(tail)
    if (over.every((byte, at) => byte === bytes[at])) return { shared, bytes, at: over.length }
  }
  const [, version, encoded = ''] = form.exec(text) ?? []
  if (version === undefined) throw new FormatError(other)
  const bytes = decodeBase64Url(encoded)
  const start = readStart(version, bytes, short)
  return { shared: start.shared, bytes, at: start.bytes }
}

function readHead(bytes: Uint8Array): WrappedKey & { end: number } {
  if (bytes.length < HEADER_BYTES) throw new FormatError(TOO_SHORT)
  const header = new DataView(bytes.buffer, bytes.byteOffset)
  const wrappedBytes = header.getUint16(UUID_BYTES + 4)
  assertWrappedKeyLength(wrappedBytes)
  const end = HEADER_BYTES + wrappedBytes
  if (bytes.length < end) throw new FormatError(TOO_SHORT)
  const key_version = header.getUint32(UUID_BYTES)
  assertKeyVersion(key_version)
  const key_id = encodeHex(bytes.subarray(0, UUID_BYTES)).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
  return { wrapped_key: encodeBase64(bytes.subarray(HEADER_BYTES, end)), key_id, key_version, end }
}

/** Decodes the text of an envelope to its parts. @throws FormatError for other text (envelope-text.md 3) */
export function decodeEnvelopeText(text: string): SealedParts {
  return partsOf(decodeStart(text, 'eaas.', PREFIX, [NO_TEXT, TOO_SHORT]))
}

/** Decodes a field's text and its row's header. @throws FormatError if they are not the two halves of an envelope */
export function decodeCompactText(field: string, header: string): SealedParts {
  const { shared, bytes, at } = decodeStart(header, 'eaas.h', HEADER_TEXT, [NO_HEADER, NO_HEADER])
  if (bytes.length > at) throw new FormatError(NO_HEADER)
  return partsOf({ shared, bytes: decodeBase64Url(field.slice(COMPACT_FIELD.length)), at: 0 })
}

function partsOf({ shared, bytes, at }: Found): SealedParts {
  const sealedAt = at + IV_BYTES
  if (bytes.length < sealedAt + TAG_BYTES) throw new FormatError(TOO_SHORT)
  return Object.assign({ iv: bytes.slice(at, sealedAt), sealed: bytes.slice(sealedAt) }, shared)
}
