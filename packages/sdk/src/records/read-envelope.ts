/** Reads envelopes that applications stored, and refuses anything else (envelope.md 6). */
import { decodeEnvelope, type Envelope, type EnvelopeParts, FormatError } from '@eaas/protocol'
import { InvalidInputError, type RecordPlace } from '../errors.js'

/** An envelope without `envelope_version`, as server mode returns it (envelope.md 5). Read as an envelope of version 1. */
export type Bundle = Omit<Envelope, 'envelope_version'>

/** Reads an envelope of unknown origin. @throws InvalidInputError naming the field that is wrong */
export function readEnvelope(envelope: unknown, place?: RecordPlace): EnvelopeParts {
  try {
    // Spread, as code that stores it does, so that members of a class do not count.
    return decodeEnvelope(typeof envelope === 'object' ? envelope && { ...envelope } : envelope)
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
