/** Envelope format v1 (envelope.md): what an application stores instead of a value. */
import { IV_BYTES, TAG_BYTES } from './aead.js'
import { decodeBase64, encodeBase64, FormatError, isUuid } from './bytes.js'
import type { EnvelopeV2 } from './envelope-v2.js'

/** An envelope of format v1 as it is stored and sent (envelope.md 1). */
export interface EnvelopeV1 {
  ciphertext: string
  wrapped_key: string
  iv: string
  key_id: string
  key_version: number
  envelope_version: 1
}

/** An envelope of any format. */
export type Envelope = EnvelopeV1 | EnvelopeV2

/** A DEK as the server wrapped it, with the key and the version that wrapped it. */
export interface WrappedKey {
  wrapped_key: string
  key_id: string
  key_version: number
}

/** An envelope's parts with the bytes decoded. */
export interface EnvelopeParts extends WrappedKey {
  iv: Uint8Array
  /** ciphertext ‖ tag */
  sealed: Uint8Array
}

/** How many messages one DEK may seal (envelope.md 4). */
export const DEK_MAX_MESSAGES = 2 ** 31

const MAX_KEY_VERSION = 2 ** 31 - 1

/** Builds an envelope of format v1 from its parts. */
export function encodeEnvelope(wrapped: WrappedKey, iv: Uint8Array, sealed: Uint8Array): EnvelopeV1 {
  return {
    ciphertext: encodeBase64(sealed),
    wrapped_key: wrapped.wrapped_key,
    iv: encodeBase64(iv),
    key_id: wrapped.key_id,
    key_version: wrapped.key_version,
    envelope_version: 1,
  }
}

/**
 * Reads the three fields of a wrapped DEK, among others of an envelope or a stream's header of unknown origin
 * (envelope.md 1). The text of the wrapped key itself is read by `readWrappedKey`.
 *
 * @throws FormatError naming the field that is wrong; the message contains nothing of the value
 */
export function readWrappedKeyFields(fields: Record<string, unknown>): WrappedKey {
  const { key_id, key_version } = fields
  if (typeof key_id !== 'string' || !isUuid(key_id)) throw new FormatError('key_id must be a UUID')
  if (!isKeyVersion(key_version)) throw new FormatError('key_version must be a whole number from 1 to 2^31 - 1')
  const wrapped_key = text(fields, 'wrapped_key')
  if (wrapped_key === '') throw new FormatError('wrapped_key must not be empty')
  return { wrapped_key, key_id, key_version }
}

/**
 * Reads an envelope of format v1, or a server-mode bundle (envelope.md 5), of unknown origin.
 *
 * @throws FormatError naming the field that is wrong (envelope.md 6); the message contains nothing of the
 * value
 */
export function decodeEnvelope(input: unknown): EnvelopeParts {
  const fields = readEnvelopeObject(input)
  if (fields.envelope_version !== undefined && fields.envelope_version !== 1) {
    throw new FormatError('envelope_version must be 1')
  }
  return decodeParts(fields)
}

/** Reads the fields that both formats have. @throws FormatError naming the field that is wrong */
export function decodeParts(fields: Record<string, unknown>): EnvelopeParts {
  const wrapped = readWrappedKeyFields(fields)
  const iv = bytesOf(fields, 'iv')
  if (iv.length !== IV_BYTES) throw new FormatError(`iv must be ${IV_BYTES} bytes, got ${iv.length}`)
  const sealed = bytesOf(fields, 'ciphertext')
  if (sealed.length < TAG_BYTES) {
    throw new FormatError(`ciphertext must be at least ${TAG_BYTES} bytes, got ${sealed.length}`)
  }
  return Object.assign(wrapped, { iv, sealed }) // spreading an object takes V8 longer than decoding these
}

/** Refuses anything but an object, arrays too. @throws FormatError */
export function readEnvelopeObject(input: unknown): Record<string, unknown> {
  if (typeof input === 'object' && input !== null && !Array.isArray(input)) return input as Record<string, unknown>
  throw new FormatError('an envelope must be an object')
}

/** Whether a value can be the version of a key. */
export function isKeyVersion(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 1 && (value as number) <= MAX_KEY_VERSION
}

function text(fields: Record<string, unknown>, name: string): string {
  const value = fields[name]
  if (typeof value !== 'string') throw new FormatError(`${name} must be a string`)
  return value
}

/** Reads the bytes of a field of an envelope. @throws FormatError naming the field */
export function bytesOf(fields: Record<string, unknown>, name: string): Uint8Array {
  const value = text(fields, name)
  try {
    return decodeBase64(value)
  } catch {
    throw new FormatError(`${name} must be canonical base64`)
  }
}
