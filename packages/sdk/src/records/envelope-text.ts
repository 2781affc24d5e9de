/**
 * The text form of envelopes, for text columns and URLs. None of these functions uses the network or a key.
 */
import type { Envelope } from '@eaas/protocol'
import { isEaasError } from '../errors.js'
import { envelopeObject, readEnvelope, type StoredEnvelope, textOf } from './read-envelope.js'

/**
 * Returns the text of an envelope (envelope-text.md): letters, digits, `.`, `-` and `_`, in about two thirds
 * of the length of its JSON. Each envelope has one text, so a unique index works on it. All functions that
 * take an envelope also take its text.
 *
 * @throws InvalidInputError when it is not an envelope, or its wrapped key is too long for the text form
 * @example
 * ```ts
 * const phone = toText(await eaas.encrypt('+33 6 12 34 56 78', { keyId })) // eaas.2.…
 * ```
 */
export function toText(envelope: StoredEnvelope): string {
  return textOf(readEnvelope(envelope))
}

/**
 * Returns the envelope of its text, or of its JSON as text. @throws InvalidInputError when it is not the text
 * of an envelope
 */
export function fromText(text: string): Envelope {
  readEnvelope(text)
  return envelopeObject(text) as unknown as Envelope
}

/**
 * Tells whether a value is an envelope or a bundle, as an object, as its text, or as JSON text. Tells
 * encrypted values from plaintexts in a column that holds both. Whether it decrypts is not known without its
 * key.
 */
export function isEnvelope(value: unknown): value is StoredEnvelope {
  try {
    readEnvelope(value)
    return true
  } catch (error) {
    if (!isEaasError(error)) throw error
    return false
  }
}
