/** Envelope format v2 (envelope-v2.md 1), bound to a context and to one DEK by envelope-binding.ts. */
import { IV_BYTES, KEY_BYTES, TAG_BYTES } from './aead.js'
import { readSecretFlag, type SecretFlag, secretMember } from './application-secret.js'
import { encodeBase64, FormatError } from './bytes.js'
import { bytesOf, type Envelope, type EnvelopeParts, readWrappedKeyFields } from './envelope.js'

/** An envelope as it is stored and sent (envelope-v2.md 1). */
export interface EnvelopeV2 {
  ciphertext: string
  wrapped_key: string
  iv: string
  key_id: string
  key_version: number
  envelope_version: 2
  commitment: string
  /** Set if it was sealed with the application's secret (application-secret.md 3). */
  application_secret?: true
}

export interface SealedParts extends EnvelopeParts, SecretFlag {
  commitment?: Uint8Array
}

/** Builds an envelope from its parts: of format v2 if they have a commitment. */
export function encodeSealed(parts: SealedParts): Envelope {
  const { wrapped_key, key_id, key_version, commitment } = parts
  const iv = encodeBase64(parts.iv)
  const envelope_version = commitment ? 2 : 1
  const shared = { ciphertext: encodeBase64(parts.sealed), wrapped_key, iv, key_id, key_version, envelope_version }
  const bound = commitment && { commitment: commitmentText(commitment) }
  return Object.assign(shared, bound, parts.needsSecret && secretMember(parts)) as Envelope // faster in V8 than spreading
}

/** Reads an envelope of either format, or a bundle (envelope.md 5, 6). @throws FormatError naming the wrong field */
export function decodeEnvelope(input: unknown): SealedParts {
  if (typeof input !== 'object' || input === null || Array.isArray(input))
    throw new FormatError('an envelope must be an object')
  const fields = input as Record<string, unknown>
  const { envelope_version: version = 1 } = fields
  if (version !== 1 && version !== 2) throw new FormatError('envelope_version must be 1 or 2')
  const parts = Object.assign(readWrappedKeyFields(fields), {
    iv: bytesOf(fields, 'iv', IV_BYTES),
    sealed: bytesOf(fields, 'ciphertext'),
  }) // in V8, spreading an object takes longer than decoding these
  if (parts.sealed.length < TAG_BYTES) throw new FormatError(`ciphertext must be at least ${TAG_BYTES} bytes`)
  if (version === 1) return parts
  if (!last || fields.commitment !== last.text)
    last = { text: fields.commitment, bytes: bytesOf(fields, 'commitment', KEY_BYTES) }
  return Object.assign(parts, { commitment: last.bytes }, readSecretFlag(fields))
}

/** The last commitment, whose bytes nobody changes: the values of a column often share a DEK. */
let last: { text: unknown; bytes: Uint8Array } | undefined

function commitmentText(bytes: Uint8Array): string {
  if (last?.bytes !== bytes) last = { text: encodeBase64(bytes), bytes }
  return last.text as string
}
