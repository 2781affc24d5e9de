/** The text form of an envelope (envelope-text.md): one string for text columns, URLs and unique indexes. */
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
const UUID_BYTES = 16
const HEADER_BYTES = UUID_BYTES + 4 + 2
const TOO_SHORT = 'the text is too short'

/** Encodes an envelope as text (envelope-text.md 1). @throws FormatError for a wrapped key without a text form */
export function encodeEnvelopeText(parts: SealedParts): string {
  const { commitment, iv, sealed, needsSecret } = parts
  return commitment
    ? `eaas.${needsSecret ? '2s' : '2'}.${encodeTextForm(parts, commitment, iv, sealed)}`
    : `eaas.1.${encodeTextForm(parts, iv, sealed)}`
}

/** Encodes a wrapped key and what follows it as base64url. @throws FormatError when the key has no text form */
export function encodeTextForm(wrapped: WrappedKey, ...rest: readonly Uint8Array[]): string {
  return encodeBase64Url(concatBytes(headOf(wrapped), ...rest))
}

/** The beginning of the last value's text: the values of a column often share a DEK. */
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

/** Decodes what `encodeTextForm` returns. @throws FormatError when it is truncated, or not base64url */
export function decodeTextForm(encoded: string): { wrapped: WrappedKey; rest: Uint8Array } {
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

/** Decodes the text of an envelope to its parts. @throws FormatError when it is not one (envelope-text.md 3) */
export function decodeEnvelopeText(text: string): SealedParts {
  const [, version, encoded = ''] = PREFIX.exec(text) ?? []
  if (version === undefined) throw new FormatError('its text must begin with eaas.1., eaas.2. or eaas.2s.')
  const { wrapped, rest } = decodeTextForm(encoded)
  const ivAt = version === '1' ? 0 : KEY_BYTES
  if (rest.length < ivAt + IV_BYTES + TAG_BYTES) throw new FormatError(TOO_SHORT)
  const iv = rest.subarray(ivAt, ivAt + IV_BYTES)
  const parts: SealedParts = Object.assign(wrapped, { iv, sealed: rest.subarray(ivAt + IV_BYTES) })
  if (ivAt) parts.commitment = rest.subarray(0, ivAt)
  if (version === '2s') parts.needsSecret = true
  return parts
}
