/** Reads envelopes that applications stored, and refuses anything else (envelope.md 6, envelope-v2.md 6). */
import { decodeEnvelope, decodeEnvelopeV2, type EnvelopeParts, type EnvelopeV1, FormatError } from '@eaas/protocol'
import { InvalidInputError, type RecordPlace } from '../errors.js'

/** An envelope without `envelope_version`, as server mode returns it (envelope.md 5). Read as an envelope of version 1. */
export type Bundle = Omit<EnvelopeV1, 'envelope_version'>

/** The decoded parts of an envelope of either format. */
export interface SealedParts extends EnvelopeParts {
  /** Of format v2. */
  commitment?: Uint8Array
}

/** Reads an envelope of unknown origin. @throws InvalidInputError naming the field that is wrong */
export function readEnvelope(envelope: unknown, place?: RecordPlace): SealedParts {
  try {
    // Spread, as code that stores it does, so that members of a class do not count.
    const fields = typeof envelope === 'object' ? envelope && { ...envelope } : envelope
    const isV2 = (fields as { envelope_version?: unknown } | null | undefined)?.envelope_version === 2
    return isV2 ? decodeEnvelopeV2(fields) : decodeEnvelope(fields)
  } catch (error) {
    if (!(error instanceof FormatError)) throw error
    throw new InvalidInputError(
      `not an envelope: ${error.message}`,
      typeof envelope === 'string'
        ? 'Parse the text as JSON first.'
        : 'Pass a plain object, exactly as encrypt() returned it.',
      place,
    )
  }
}
