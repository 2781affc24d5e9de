/** Reads envelopes that applications stored, and refuses anything else (envelope.md 6, envelope-v2.md 6). */
import {
  decodeEnvelope,
  decodeEnvelopeText,
  decodeEnvelopeV2,
  type Envelope,
  type EnvelopeParts,
  type EnvelopeV1,
  encodeEnvelopeText,
  FormatError,
  type SecretFlag,
  type WrappedKey,
} from '@eaas/protocol'
import type { RecordPlace } from '../errors.js'
import { type Row, readFormat } from '../input.js'

/**
 * An envelope without `envelope_version`, as server mode returns it (envelope.md 5). Read as an envelope of
 * version 1.
 */
export type Bundle = Omit<EnvelopeV1, 'envelope_version'>

/** The decoded parts of an envelope of either format. */
export interface SealedParts extends EnvelopeParts, SecretFlag {
  /** Of format v2. */
  commitment?: Uint8Array
}

/** An envelope or a bundle as applications store it: the object, its text (`toText`), or its JSON as text. */
export type StoredEnvelope = Envelope | Bundle | string

/**
 * Reads an envelope of unknown origin, in any form. @throws InvalidInputError naming the field that is wrong
 */
export function readEnvelope(envelope: unknown, place?: RecordPlace): SealedParts {
  return reading(place, () => {
    const fields = parseEnvelope(envelope)
    const isV2 = (fields as { envelope_version?: unknown } | null | undefined)?.envelope_version === 2
    return isV2 ? decodeEnvelopeV2(fields) : decodeEnvelope(fields)
  })
}

/**
 * Returns the object of an envelope in any form. Whether its fields are right is not checked. @throws
 * InvalidInputError on other text
 */
export function envelopeObject(envelope: unknown, place?: RecordPlace): Row {
  return reading(place, () => parseEnvelope(envelope) as Row)
}

/** Returns a stored envelope with another wrapped key, in the form that it has. */
export function withWrappedKey(stored: unknown, { wrapped_key, key_version }: WrappedKey): unknown {
  return likeForm({ ...envelopeObject(stored), wrapped_key, key_version }, stored)
}

/**
 * Returns an envelope in the form of another one: an object, a text, or JSON as text. @throws
 * InvalidInputError where it has no text
 */
export function likeForm(envelope: Row, form: unknown): unknown {
  if (typeof form !== 'string') return envelope
  if (form.startsWith('{')) return JSON.stringify(envelope)
  return reading(undefined, () => encodeEnvelopeText(readEnvelope(envelope)))
}

function parseEnvelope(envelope: unknown): unknown {
  // Spread, as code that stores it does, so that members of a class do not count.
  if (typeof envelope !== 'string') return typeof envelope === 'object' ? envelope && { ...envelope } : envelope
  if (!envelope.startsWith('{')) return decodeEnvelopeText(envelope)
  try {
    return JSON.parse(envelope)
  } catch {
    throw new FormatError('its JSON is cut or wrong') // the parser's message quotes the text
  }
}

function reading<T>(place: RecordPlace | undefined, read: () => T): T {
  const hint = 'Await encrypt(), and pass exactly what it returned: a plain object, or the whole text.'
  return readFormat(read, 'not an envelope: ', hint, place)
}
