/** The text form of an envelope (envelope-text.md): one string for text columns, URLs and unique indexes. */
import { IV_BYTES, KEY_BYTES, TAG_BYTES } from './aead.js'
import { concatBytes, decodeBase64, encodeBase64, encodeHex, FormatError, uuidBytes } from './bytes.js'
import { bytesOf, type Envelope, type EnvelopeParts, encodeEnvelope } from './envelope.js'
import { encodeEnvelopeV2 } from './envelope-v2.js'

const PREFIX = /^eaas\.([12])\.([\w-]+)$/
const UUID_BYTES = 16
/** The bytes in front of the wrapped key: key_id, key_version and its length. */
const HEADER_BYTES = UUID_BYTES + 4 + 2
const MAX_WRAPPED_KEY_BYTES = 768

/**
 * Encodes the parts of an envelope as text (envelope-text.md 1). Those with a commitment have version 2.
 *
 * @throws FormatError when the wrapped key has no text form
 */
export function encodeEnvelopeText(parts: EnvelopeParts & { commitment?: Uint8Array }): string {
  const wrappedKey = bytesOf({ wrapped_key: parts.wrapped_key }, 'wrapped_key')
  assertWrappedKeyLength(wrappedKey.length)
  const header = new DataView(new ArrayBuffer(HEADER_BYTES - UUID_BYTES))
  header.setUint32(0, parts.key_version)
  header.setUint16(4, wrappedKey.length)
  const { commitment, iv, sealed } = parts
  const fields = [uuidBytes(parts.key_id), new Uint8Array(header.buffer), wrappedKey]
  const bytes = concatBytes(...fields, ...(commitment ? [commitment] : []), iv, sealed)
  const text = encodeBase64(bytes).replace(/[+/=]/g, (char) => ({ '+': '-', '/': '_' })[char] ?? '')
  return `eaas.${commitment ? 2 : 1}.${text}`
}

/** Decodes the text of an envelope. Whether its parts are right is not checked. @throws FormatError when it is none (envelope-text.md 3) */
export function decodeEnvelopeText(text: string): Envelope {
  const [, version, encoded = ''] = PREFIX.exec(text) ?? []
  if (version === undefined) throw new FormatError('the text of an envelope begins with eaas.1. or eaas.2.')
  const bytes = decodeBase64Url(encoded)
  if (bytes.length < HEADER_BYTES) throw new FormatError('the text of an envelope is too short')
  const header = new DataView(bytes.buffer, bytes.byteOffset)
  const wrappedBytes = header.getUint16(UUID_BYTES + 4)
  assertWrappedKeyLength(wrappedBytes)
  let at = HEADER_BYTES
  const take = (length: number) => {
    at += length
    return bytes.subarray(at - length, at)
  }
  const wrapped = {
    wrapped_key: encodeBase64(take(wrappedBytes)),
    key_id: encodeHex(bytes.subarray(0, UUID_BYTES)).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'),
    key_version: header.getUint32(UUID_BYTES),
  }
  const commitment = version === '2' ? take(KEY_BYTES) : undefined
  const iv = take(IV_BYTES)
  if (bytes.length < at + TAG_BYTES) throw new FormatError('the text of an envelope is too short')
  const sealed = bytes.subarray(at)
  return commitment ? encodeEnvelopeV2(wrapped, commitment, iv, sealed) : encodeEnvelope(wrapped, iv, sealed)
}

function decodeBase64Url(text: string): Uint8Array {
  const standard = text.replaceAll('-', '+').replaceAll('_', '/')
  return decodeBase64(standard.padEnd(Math.ceil(text.length / 4) * 4, '='))
}

function assertWrappedKeyLength(length: number): void {
  if (length >= 1 && length <= MAX_WRAPPED_KEY_BYTES) return
  throw new FormatError(`wrapped_key must have 1 to ${MAX_WRAPPED_KEY_BYTES} bytes, got ${length}`)
}
