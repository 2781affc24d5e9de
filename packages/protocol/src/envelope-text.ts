/** The text of an envelope (envelope-text.md); its two halves are the texts of a compact row (compact-rows.md 2). */
import { IV_BYTES, KEY_BYTES, TAG_BYTES } from './aead.js'
import {
  concatBytes,
  decodeBase64Url,
  encodeBase64,
  encodeBase64Url,
  encodeHex,
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

function encodeShared(parts: SharedParts, ...own: readonly Uint8Array[]): string {
  const { commitment, needsSecret } = parts
  return commitment
    ? `${needsSecret ? '2s' : '2'}.${encodeBase64Url(concatBytes(headOf(parts), commitment, ...own))}`
    : `1.${encodeBase64Url(concatBytes(headOf(parts), ...own))}`
}

/** The values of a column often share a DEK. */
let last: (WrappedKey & { head: Uint8Array }) | undefined

function headOf({ wrapped_key, key_id, key_version }: WrappedKey): Uint8Array {
  if (last?.wrapped_key !== wrapped_key || last.key_id !== key_id || last.key_version !== key_version) {
    const bytes = wrappedKeyBytes({ wrapped_key })
    const numbers = new Uint8Array(HEADER_BYTES - UUID_BYTES)
    writeU32(numbers, 2, bytes.length) // its first two bytes are zero, and the version overwrites them
    writeU32(numbers, 0, key_version)
    const head = concatBytes(uuidBytes(key_id), numbers, bytes)
    last = { wrapped_key, key_id, key_version, head }
  }
  return last.head
}

/** Decodes base64url that begins with a wrapped key. @throws FormatError if it is truncated, or not base64url */
function decodeTextForm(encoded: string): { wrapped: WrappedKey; rest: Uint8Array } {
  const bytes = decodeBase64Url(encoded)
  if (!last?.head.every((byte, at) => byte === bytes[at])) last = readHead(bytes)
  const { head, ...wrapped } = last
  return { wrapped, rest: bytes.subarray(head.length) }
}

function readHead(bytes: Uint8Array): NonNullable<typeof last> {
  if (bytes.length < HEADER_BYTES) throw new FormatError(TOO_SHORT)
  const header = new DataView(bytes.buffer, bytes.byteOffset)
  const wrappedBytes = header.getUint16(UUID_BYTES + 4)
  assertWrappedKeyLength(wrappedBytes)
  const end = HEADER_BYTES + wrappedBytes
  if (bytes.length < end) throw new FormatError(TOO_SHORT)
  const key_version = header.getUint32(UUID_BYTES)
  assertKeyVersion(key_version)
  const key_id = encodeHex(bytes.subarray(0, UUID_BYTES)).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
  return {
    wrapped_key: encodeBase64(bytes.subarray(HEADER_BYTES, end)),
    key_id,
    key_version,
    head: bytes.slice(0, end),
  }
}

/** Decodes the text of an envelope to its parts. @throws FormatError for other text (envelope-text.md 3) */
export function decodeEnvelopeText(text: string): SealedParts {
  const [, version, encoded = ''] = PREFIX.exec(text) ?? []
  if (version === undefined) throw new FormatError('its text must begin with eaas.1., eaas.2. or eaas.2s.')
  const { wrapped, rest } = decodeTextForm(encoded)
  return partsOf(version, wrapped, rest)
}

/** Decodes a field's text and its row's header. @throws FormatError if they are not the two halves of an envelope */
export function decodeCompactText(field: string, header: string): SealedParts {
  const [, version, encoded = ''] = HEADER_TEXT.exec(header) ?? []
  if (version === undefined) throw new FormatError(NO_HEADER)
  const { wrapped, rest } = decodeTextForm(encoded)
  if (rest.length !== (version === '1' ? 0 : KEY_BYTES)) throw new FormatError(NO_HEADER)
  return partsOf(version, wrapped, concatBytes(rest, decodeBase64Url(field.slice(COMPACT_FIELD.length))))
}

function partsOf(version: string, wrapped: WrappedKey, rest: Uint8Array): SealedParts {
  const ivAt = version === '1' ? 0 : KEY_BYTES
  if (rest.length < ivAt + IV_BYTES + TAG_BYTES) throw new FormatError(TOO_SHORT)
  const iv = rest.subarray(ivAt, ivAt + IV_BYTES)
  const parts: SealedParts = Object.assign(wrapped, { iv, sealed: rest.subarray(ivAt + IV_BYTES) })
  if (ivAt) parts.commitment = rest.subarray(0, ivAt)
  if (version === '2s') parts.needsSecret = true
  return parts
}
