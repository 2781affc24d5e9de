/**
 * Envelopes that are bound to a context, format v2 (envelope-v2.md): what a reader demands of them, and how
 * they are sealed and opened.
 */
import {
  BOUND_KEYS_BYTES,
  type BoundKeys,
  boundKeysInfo,
  type Context,
  contextAad,
  type EnvelopeV2,
  encodeEnvelopeV2,
  equalInConstantTime,
  FormatError,
  OpenError,
} from '@eaas/protocol'
import type { OwnDek } from '../deks/own-dek.js'
import type { Secret } from '../deks/secret.js'
import type { Engine } from '../engines/engine.js'
import { DecryptionError, InvalidInputError, type RecordPlace } from '../errors.js'
import { isPromise, type Soon, use } from '../waiting.js'
import type { SealedParts } from './read-envelope.js'

/** What a reader demands of an envelope before it is opened. */
export interface Demand {
  /** The context that the envelope must be bound to. Without it, it must be bound to none. */
  context?: Context | undefined
  /** Whether an envelope of format v1, which is bound to nothing, opens although a context is demanded. */
  acceptUnbound?: boolean | undefined
}

declare const demanded: unique symbol

/**
 * The parts of an envelope of which `demandContext` made sure that it has the format that its reader demands.
 */
export interface OpenableParts extends SealedParts {
  readonly [demanded]: true
  /** The AAD, of format v2. */
  aad?: Uint8Array
}

/** Returns the AAD that binds to a context. @throws InvalidInputError when it is not one */
export function readContext(keyId: string, context: unknown, place?: RecordPlace): Uint8Array {
  return readingContext(() => contextAad(keyId, context), place)
}

/** Runs what reads a context. @throws InvalidInputError when it is not one */
export function readingContext(read: () => Uint8Array, place?: RecordPlace): Uint8Array {
  try {
    return read()
  } catch (error) {
    const hint = 'Pass a flat object of strings.'
    // Another error is one of a getter, and may quote the value.
    const message = error instanceof FormatError ? error.message : 'context cannot be read: a getter or a Proxy throws'
    throw new InvalidInputError(message, hint, place)
  }
}

/**
 * Returns the parts of an envelope that may be opened.
 *
 * @throws InvalidInputError when the context is not one
 * @throws DecryptionError where a context is demanded and the envelope is bound to none, or the reverse: the
 * same error as for another context
 */
export function demandContext(
  parts: SealedParts,
  { context, acceptUnbound = false }: Demand,
  place?: RecordPlace,
): OpenableParts {
  const aad = context === undefined ? undefined : readContext(parts.key_id, context, place)
  return demandAad(parts, { aad, acceptUnbound }, place)
}

/**
 * As `demandContext`, with the AAD of the context. `hint` says what to do about an envelope of the other
 * format.
 */
export function demandAad(
  parts: SealedParts,
  { aad, acceptUnbound = false, hint }: Pick<Demand, 'acceptUnbound'> & { aad: Uint8Array | undefined; hint?: string },
  place?: RecordPlace,
): OpenableParts {
  const openable = parts as OpenableParts
  if (parts.commitment && aad) openable.aad = aad
  else if (parts.commitment || (aad && !acceptUnbound)) throw new DecryptionError(place, { hint })
  return openable
}

interface BoundMessage {
  iv: Uint8Array
  plaintext: Uint8Array
  aad: Uint8Array
}

/** Seals bytes (envelope-v2.md 5), which the caller may change afterwards. */
export function sealBound(
  engine: Engine,
  { dek, wrapped }: OwnDek,
  { iv, plaintext, aad }: BoundMessage,
): Soon<EnvelopeV2> {
  let bytes: Uint8Array | undefined
  const sealed = useKeys(engine, dek, wrapped.key_id, ({ key, commitment }) => {
    bytes ??= plaintext
    return use(engine.seal(key, iv, bytes, aad), (ciphertext) => encodeEnvelopeV2(wrapped, commitment, iv, ciphertext))
  })
  if (bytes || !isPromise(sealed)) return sealed
  const copy = new Uint8Array(plaintext) // the keys are being derived
  bytes = copy
  return sealed.finally(() => copy.fill(0))
}

/** Opens an envelope of format v2 (envelope-v2.md 6). @throws OpenError for every cause */
export function openBound(engine: Engine, dek: Secret, parts: OpenableParts): Soon<Uint8Array> {
  const { commitment, aad } = parts
  return useKeys(engine, dek, parts.key_id, (keys) => {
    // First the commitment: AES-GCM alone can open one ciphertext under two keys.
    if (!commitment || !aad || !equalInConstantTime(keys.commitment, commitment)) throw new OpenError()
    return engine.open(keys.key, parts.iv, parts.sealed, aad)
  })
}

/** Returns the commitment to a DEK. */
export function commitmentOf(engine: Engine, dek: Secret, keyId: string): Soon<Uint8Array> {
  return useKeys(engine, dek, keyId, ({ commitment }) => commitment)
}

function useKeys<T>(engine: Engine, dek: Secret, keyId: string, run: (keys: BoundKeys) => Soon<T>): Soon<T> {
  return dek.useBound((bytes) => engine.derive(bytes, boundKeysInfo(keyId), BOUND_KEYS_BYTES), run)
}
