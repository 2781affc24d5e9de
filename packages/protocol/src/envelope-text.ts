/** The text form of an envelope (envelope-text.md): one string for text columns, URLs and unique indexes. */

import { IV_BYTES, KEY_BYTES, TAG_BYTES } from './aead.js'
import type { SecretFlag } from './application-secret.js'
import { concatBytes, decodeBase64, encodeBase64, encodeHex, FormatError, uuidBytes } from './bytes.js'
import {
  bytesOf,
  type Envelope,
  type EnvelopeParts,
  encodeEnvelope,
  isKeyVersion,
  type WrappedKey,
} from './envelope.js'
import { encodeEnvelopeV2 } from './envelope-v2.js'

const PREFIX = /^eaas\.(1|2|2s)\.(.+)$/s
const BASE64URL = /^[\w-]+$/
const UUID_BYTES = 16
/** The bytes in front of the wrapped key: key_id, key_version and its length. */
const HEADER_BYTES = UUID_BYTES + 4 + 2
const MAX_WRAPPED_KEY_BYTES = 768
const TOO_SHORT = 'the text is too short'

/**
 * Encodes the parts of an envelope as text (envelope-text.md 1). Those with a commitment have version 2.
 *
 * @throws FormatError when the wrapped key has no text form
 */
export function encodeEnvelopeText(parts: EnvelopeParts & SecretFlag & { commitment?: Uint8Array }): string {
  const { commitment, iv, sealed, needsSecret } = parts
  return commitment
    ? `eaas.${needsSecret ? '2s' : '2'}.${encodeTextForm(parts, commitment, iv, sealed)}`
    : `eaas.1.${encodeTextForm(parts, iv, sealed)}`
}

/**
 * Encodes a wrapped key with its key and version, and what follows it, as base64url. @throws FormatError when
 * the wrapped key has no text form
 */
export function encodeTextForm(wrapped: WrappedKey, ...rest: readonly Uint8Array[]): string {
  const wrappedKey = bytesOf({ wrapped_key: wrapped.wrapped_key }, 'wrapped_key')
  assertWrappedKeyLength(wrappedKey.length)
  const header = new DataView(new ArrayBuffer(HEADER_BYTES - UUID_BYTES))
  header.setUint32(0, wrapped.key_version)
  header.setUint16(4, wrappedKey.length)
  const bytes = concatBytes(uuidBytes(wrapped.key_id), new Uint8Array(header.buffer), wrappedKey, ...rest)
  return encodeBase64(bytes).replace(/[+/=]/g, (char) => ({ '+': '-', '/': '_' })[char] ?? '')
}

/** Decodes what `encodeTextForm` returns. @throws FormatError when it is cut, or no base64url */
export function decodeTextForm(encoded: string): { wrapped: WrappedKey; rest: Uint8Array } {
  const bytes = decodeBase64Url(encoded)
  if (bytes.length < HEADER_BYTES) throw new FormatError(TOO_SHORT)
  const header = new DataView(bytes.buffer, bytes.byteOffset)
  const wrappedBytes = header.getUint16(UUID_BYTES + 4)
  assertWrappedKeyLength(wrappedBytes)
  const end = HEADER_BYTES + wrappedBytes
  if (bytes.length < end) throw new FormatError(TOO_SHORT)
  const key_version = header.getUint32(UUID_BYTES)
  if (!isKeyVersion(key_version)) throw new FormatError('key_version must be a whole number from 1 to 2^31 - 1')
  const key_id = encodeHex(bytes.subarray(0, UUID_BYTES)).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
  const wrapped = { wrapped_key: encodeBase64(bytes.subarray(HEADER_BYTES, end)), key_id, key_version }
  return { wrapped, rest: bytes.subarray(end) }
}

/**
 * Decodes the text of an envelope. Whether its parts are right is not checked. @throws FormatError when it is
 * none (envelope-text.md 3)
 */
export function decodeEnvelopeText(text: string): Envelope {
  const [, version, encoded = ''] = PREFIX.exec(text) ?? []
  if (version === undefined) throw new FormatError('its text must begin with eaas.1., eaas.2. or eaas.2s.')
  const { wrapped, rest } = decodeTextForm(encoded)
  const ivAt = version === '1' ? 0 : KEY_BYTES
  if (rest.length < ivAt + IV_BYTES + TAG_BYTES) throw new FormatError(TOO_SHORT)
  const iv = rest.subarray(ivAt, ivAt + IV_BYTES)
  const sealed = rest.subarray(ivAt + IV_BYTES)
  if (!ivAt) return encodeEnvelope(wrapped, iv, sealed)
  return encodeEnvelopeV2(wrapped, rest.subarray(0, ivAt), iv, sealed, version === '2s' ? { needsSecret: true } : {})
}

function decodeBase64Url(text: string): Uint8Array {
  if (!BASE64URL.test(text)) throw new FormatError('its text must be base64url')
  const standard = text.replaceAll('-', '+').replaceAll('_', '/')
  return decodeBase64(standard.padEnd(Math.ceil(text.length / 4) * 4, '='))
}

/**
 * Refuses the length of a wrapped key that neither the text form nor a stream can hold, in bytes. @throws
 * FormatError
 */
export function assertWrappedKeyLength(length: number): void {
  if (length >= 1 && length <= MAX_WRAPPED_KEY_BYTES) return
  throw new FormatError(`wrapped_key must have 1 to ${MAX_WRAPPED_KEY_BYTES} bytes, got ${length}`)
}
