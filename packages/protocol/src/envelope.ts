/** What an application stores instead of a value (envelope.md): its members, and those of format v1. */
import { decodeBase64, FormatError, isUuid } from './bytes.js'
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

export type Envelope = EnvelopeV1 | EnvelopeV2

/** A DEK as the server wrapped it, with the key and the version that wrapped it. */
export interface WrappedKey {
  wrapped_key: string
  key_id: string
  key_version: number
}

export interface EnvelopeParts extends WrappedKey {
  iv: Uint8Array
  sealed: Uint8Array
}

/** How many messages one DEK may seal (envelope.md 4). */
export const DEK_MAX_MESSAGES = 2 ** 31
const MAX_KEY_VERSION = 2 ** 31 - 1
const MAX_WRAPPED_KEY_BYTES = 768

/** The wrapped DEK of an envelope or a stream's header (envelope.md 1). @throws FormatError naming the wrong field */
export function readWrappedKeyFields(fields: Record<string, unknown>): WrappedKey {
  const { wrapped_key, key_id, key_version } = fields
  if (typeof key_id !== 'string' || !isUuid(key_id)) throw new FormatError('key_id must be a UUID')
  assertKeyVersion(key_version)
  if (wrapped_key === undefined || wrapped_key !== lastRead) {
    wrappedKeyBytes({ wrapped_key })
    lastRead = wrapped_key
  }
  return { wrapped_key: wrapped_key as string, key_id, key_version }
}

/** The last valid wrapped key, undefined before the first: the values of a column often share it. */
let lastRead: unknown

export function wrappedKeyBytes(fields: Record<string, unknown>): Uint8Array {
  const bytes = bytesOf(fields, 'wrapped_key')
  assertWrappedKeyLength(bytes.length)
  return bytes
}

export function assertWrappedKeyLength(length: number): void {
  if (length >= 1 && length <= MAX_WRAPPED_KEY_BYTES) return
  throw new FormatError(`wrapped_key must have 1 to ${MAX_WRAPPED_KEY_BYTES} bytes, got ${length}`)
}

export function assertKeyVersion(value: unknown): asserts value is number {
  if (Number.isInteger(value) && (value as number) >= 1 && (value as number) <= MAX_KEY_VERSION) return
  throw new FormatError('key_version must be a whole number from 1 to 2^31 - 1')
}

/** Reads a field's bytes, exactly `length` of them if given. @throws FormatError naming the field */
export function bytesOf(fields: Record<string, unknown>, name: string, length?: number): Uint8Array {
  const value = fields[name]
  if (typeof value !== 'string') throw new FormatError(`${name} must be a string`)
  let bytes: Uint8Array
  try {
    bytes = decodeBase64(value)
  } catch {
    throw new FormatError(`${name} must be canonical base64`)
  }
  if (bytes.length === (length ?? bytes.length)) return bytes
  throw new FormatError(`${name} must be ${length} bytes, got ${bytes.length}`)
}
