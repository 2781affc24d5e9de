/** Envelopes that are bound to a context, format v2 (envelope-v2.md): what a reader demands of them, and how they are sealed and opened. */
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
import { isPromise, type Soon, use } from '../async/is-promise.js'
import { boundKeysOf } from '../deks/bound-keys.js'
import type { OwnDek } from '../deks/own-dek.js'
import type { Engine } from '../engines/engine.js'
import { DecryptionError, InvalidInputError, type RecordPlace } from '../errors.js'
import type { SealedParts } from './read-envelope.js'

/** What a reader demands of an envelope before it is opened. */
export interface Demand {
  /** The context that the envelope must be bound to. Without it, it must be bound to none. */
  context?: Context | undefined
  /** Whether an envelope of format v1, which is bound to nothing, opens although a context is demanded. */
  acceptUnbound?: boolean | undefined
}

declare const demanded: unique symbol

/** The parts of an envelope of which `demandContext` made sure that it has the format that its reader demands. */
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
 * @throws DecryptionError where a context is demanded and the envelope is bound to none, or the reverse: the same error as for
 * another context
 */
export function demandContext(
  parts: SealedParts,
  { context, acceptUnbound = false }: Demand,
  place?: RecordPlace,
): OpenableParts {
  const aad = context === undefined ? undefined : readContext(parts.key_id, context, place)
  return demandAad(parts, { aad, acceptUnbound }, place)
}

/** As `demandContext`, with the AAD of the context. */
export function demandAad(
  parts: SealedParts,
  { aad, acceptUnbound = false }: { aad: Uint8Array | undefined; acceptUnbound?: boolean | undefined },
  place?: RecordPlace,
): OpenableParts {
  const openable = parts as OpenableParts
  if (parts.commitment && aad) openable.aad = aad
  else if (parts.commitment || (aad && !acceptUnbound)) throw new DecryptionError(place)
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
  const sealBy = ({ key, commitment }: BoundKeys, bytes: Uint8Array) =>
    use(engine.seal(key, iv, bytes, aad), (sealed) => encodeEnvelopeV2(wrapped, commitment, iv, sealed))
  const keys = keysOf(engine, dek, wrapped.key_id)
  if (!isPromise(keys)) return sealBy(keys, plaintext)
  const copy = new Uint8Array(plaintext)
  return keys.then((derived) => sealBy(derived, copy)).finally(() => copy.fill(0))
}

/** Opens an envelope of format v2 (envelope-v2.md 6). @throws OpenError for every cause */
export function openBound(engine: Engine, dek: Uint8Array, parts: OpenableParts): Soon<Uint8Array> {
  const { commitment, aad } = parts
  return use(keysOf(engine, dek, parts.key_id), (keys) => {
    // First the commitment: AES-GCM alone can open one ciphertext under two keys.
    if (!commitment || !aad || !equalInConstantTime(keys.commitment, commitment)) throw new OpenError()
    return engine.open(keys.key, parts.iv, parts.sealed, aad)
  })
}

/** Returns the commitment to a DEK. The caller zeroes the DEK by `zeroDek`. */
export async function commitmentOf(engine: Engine, dek: Uint8Array, keyId: string): Promise<Uint8Array> {
  return (await keysOf(engine, dek, keyId)).commitment
}

function keysOf(engine: Engine, dek: Uint8Array, keyId: string): Soon<BoundKeys> {
  return boundKeysOf(dek, () => engine.derive(dek, boundKeysInfo(keyId), BOUND_KEYS_BYTES))
}
