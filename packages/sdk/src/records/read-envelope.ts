/** Reads stored envelopes in any form, and refuses anything else (envelope.md 6, envelope-v2.md 6). */
import type { Envelope, EnvelopeV1, SealedParts } from '@eaas/protocol'
import { decodeEnvelope, decodeEnvelopeText, encodeEnvelopeText, encodeSealed, FormatError } from '@eaas/protocol'
import { isEaasError, type RecordPlace } from '../errors.js'
import { type Row, readFormat } from '../input.js'

/** An envelope without `envelope_version`, as server mode returns it (envelope.md 5). It is read as version 1. */
export type Bundle = Omit<EnvelopeV1, 'envelope_version'>
/** An envelope or bundle as applications store it: the object, its text (`toText`), or its JSON as text. */
export type StoredEnvelope = Envelope | Bundle | string

export function readEnvelope(envelope: unknown, place?: RecordPlace): SealedParts {
  return reading(place, () =>
    isText(envelope) ? decodeEnvelopeText(envelope) : decodeEnvelope(parseEnvelope(envelope)),
  )
}

/** Returns an envelope in any form as an object, with unchecked fields. @throws InvalidInputError for other text */
export function envelopeObject(envelope: unknown, place?: RecordPlace): Row {
  const read = () => (isText(envelope) ? encodeSealed(decodeEnvelopeText(envelope)) : parseEnvelope(envelope))
  return reading(place, read) as Row
}

export function textOf(parts: SealedParts): string {
  return reading(undefined, () => encodeEnvelopeText(parts))
}

/** Whether a stored envelope can only be its text form: JSON would begin with `{`. */
export function isText(envelope: unknown): envelope is string {
  return typeof envelope === 'string' && !envelope.startsWith('{')
}

function parseEnvelope(envelope: unknown): unknown {
  // Spread, as in the code that stores it, so that members of a class do not count.
  if (typeof envelope !== 'string') return typeof envelope === 'object' ? envelope && { ...envelope } : envelope
  try {
    return JSON.parse(envelope)
  } catch {
    throw new FormatError('its JSON is cut or wrong') // the parser's message quotes the text
  }
}

export function reading<T>(place: RecordPlace | undefined, read: () => T): T {
  const hint = 'Await encrypt(), and pass exactly what it returned: a plain object, or the whole text.'
  return readFormat(read, 'not an envelope: ', hint, place)
}

/**
 * Returns the text of an envelope (envelope-text.md): letters, digits, `.`, `-` and `_`, in about two thirds of the
 * length of its JSON. Each envelope has one text, so a unique index works on it. All functions that take an envelope
 * also take its text.
 * @throws InvalidInputError when it is not an envelope, or its wrapped key is too long for the text form
 * @example
 * ```ts
 * const phone = toText(await eaas.encrypt('+33 6 12 34 56 78', { keyId })) // eaas.2.…
 * ```
 */
export function toText(envelope: StoredEnvelope): string {
  return textOf(readEnvelope(envelope))
}

/** Returns the envelope from its text, or from its JSON. @throws InvalidInputError when it is neither */
export function fromText(text: string): Envelope {
  readEnvelope(text)
  return envelopeObject(text) as unknown as Envelope
}

/** Tells whether a value is an envelope or a bundle, as object, text or JSON text. For a column that may also hold plaintext. */
export function isEnvelope(value: unknown): value is StoredEnvelope {
  try {
    readEnvelope(value)
    return true
  } catch (error) {
    if (!isEaasError(error)) throw error
    return false
  }
}
