/**
 * Envelopes that are bound to a context, format v2 (envelope-v2.md): what a reader demands of them, how
 * they are opened, and how the application's secrets are mixed into their keys (application-secret.md).
 */
import {
  BOUND_KEYS_BYTES,
  type BoundKeys,
  boundKeysInfo,
  type Context,
  contextAad,
  equalInConstantTime,
  FormatError,
  KEY_BYTES,
  mixedKeyInfo,
  NO_CONTEXT,
  type SealedParts,
  type SecretFlag,
  type WrappedKey,
} from '@eaas/protocol'
import { createSecret, type Secret } from '../deks/secret.js'
import type { Engine } from '../engines/engine.js'
import { DecryptionError, InvalidInputError, type RecordPlace } from '../errors.js'
import type { DemandOptions, GivenSecrets } from '../input.js'
import { usesIn, type WrappedFor, wrappedFor } from '../uses.js'
import { isPromise, type Soon, use } from '../waiting.js'

declare const demanded: unique symbol

/** The parts of an envelope that `demandContext` found to have the format that the caller demands. */
export interface OpenableParts extends SealedParts, WrappedFor {
  readonly [demanded]: true
  /** The AAD, of format v2. */
  aad?: Uint8Array
}

/** Returns the AAD that binds to a context. @throws InvalidInputError when it is not one */
export function readContext(keyId: string, context: unknown, place?: RecordPlace): Uint8Array {
  return readingContext(() => contextAad(keyId, context), place)
}

/** How an envelope is to be written. */
export interface Format {
  /** The empty one by default. */
  context?: Context | undefined
  /** 2 by default. */
  envelope?: 1 | 2 | undefined
}

/** Returns the AAD of an envelope to write; undefined for format v1, which has none. @throws InvalidInputError */
export function readFormatAad(
  keyId: string,
  { context = NO_CONTEXT, envelope }: Format,
  place?: RecordPlace,
): Uint8Array | undefined {
  return envelope === 1 ? undefined : readContext(keyId, context, place)
}

/** Runs a function that reads a context. @throws InvalidInputError when it is not one */
export function readingContext(read: () => Uint8Array, place?: RecordPlace): Uint8Array {
  try {
    return read()
  } catch (error) {
    const hint = 'Pass a flat object of strings.'
    // Any other error comes from a getter, and may quote the value.
    const message = error instanceof FormatError ? error.message : 'context cannot be read: a getter or a Proxy throws'
    throw new InvalidInputError(message, hint, place)
  }
}

/**
 * Returns the parts of an envelope that may be opened.
 *
 * @throws InvalidInputError when the context is not one
 * @throws DecryptionError for another key; for format v1 where a context is demanded, the same error as for another
 * context
 */
export function demandContext(
  parts: SealedParts,
  { context, acceptUnbound = false, keyIds }: DemandOptions,
  place?: RecordPlace,
): OpenableParts {
  assertKeyOf(parts, keyIds, place)
  const isUnbound = context === undefined && !parts.commitment
  const aad = isUnbound ? undefined : readContext(parts.key_id, context === undefined ? NO_CONTEXT : context, place)
  return wrappedFor(demandAad(parts, { aad, acceptUnbound }, place), () => usesIn(context))
}

/** Refuses an envelope that was sealed under a key that the caller does not accept. @throws DecryptionError */
export function assertKeyOf({ key_id }: WrappedKey, keyIds: readonly string[] | undefined, place?: RecordPlace): void {
  if (!keyIds || keyIds.includes(key_id)) return
  throw foreignKey(key_id, 'one of keyIds', 'Name its key in `keyIds`, or restore the envelope.', place)
}

/** The error for an envelope that was sealed under a key that the caller does not accept. */
export function foreignKey(key_id: string, expected: string, hint: string, place?: RecordPlace): DecryptionError {
  const message = `could not decrypt: encrypted under the key ${key_id}, which is not ${expected}`
  return new DecryptionError(place, { message, hint })
}

/** Like `demandContext`, with the AAD of the context. `hint` says what to do about an envelope of the other format. */
export function demandAad(
  parts: SealedParts,
  {
    aad,
    acceptUnbound = false,
    hint,
  }: Pick<DemandOptions, 'acceptUnbound'> & { aad: Uint8Array | undefined; hint?: string },
  place?: RecordPlace,
): OpenableParts {
  const openable = parts as OpenableParts
  if (parts.commitment && aad) openable.aad = aad
  else if (parts.commitment || (aad && !acceptUnbound)) throw new DecryptionError(place, { hint })
  return openable
}

/**
 * Opens an envelope of either format with the DEK itself (envelope.md 6), or with the keys that come from it and the
 * application's secrets (envelope-v2.md 6).
 *
 * @throws DecryptionError, the same for every cause; another where a secret is missing, or it was sealed without one
 */
export function openParts(engine: Engine, dek: Secret, parts: OpenableParts, secrets: Secrets): Soon<Uint8Array> {
  const { commitment, aad, key_id: keyId, iv, sealed } = parts
  const fitting = secretsFor(parts, secrets)
  if (!commitment) return dek.use((key) => engine.open(key, iv, sealed))
  if (!aad) throw new DecryptionError()
  const open = (secret: Secret | undefined) =>
    useKeys(engine, dek, { keyId, secret }, (keys) =>
      // First the commitment: AES-GCM alone can open one ciphertext under two keys.
      equalInConstantTime(keys.commitment, commitment) ? engine.open(keys.key, iv, sealed, aad) : undefined,
    )
  return use(tryEach(fitting, open), (opened) => {
    if (!opened) throw new DecryptionError()
    return opened
  })
}

/** Returns the commitment to a DEK, and to the application's secret. */
export function commitmentOf(engine: Engine, dek: Secret, keyId: string, secret: Secret | undefined): Soon<Uint8Array> {
  return useKeys(engine, dek, { keyId, secret }, ({ commitment }) => commitment)
}

/** Runs the function with the keys that format v2 derives from a DEK and the application's secret. */
export function useKeys<T>(
  engine: Engine,
  dek: Secret,
  { keyId, secret }: { keyId: string; secret: Secret | undefined },
  run: (keys: BoundKeys) => Soon<T>,
): Soon<T> {
  const derive = (bytes: Uint8Array) =>
    withMixed(engine, bytes, { keyId, secret }, (mixed) => engine.derive(mixed, boundKeysInfo(keyId), BOUND_KEYS_BYTES))
  return dek.useBound(derive, run, secret)
}

/** The secrets of a client, or of a call of the offline entry. */
export interface Secrets {
  /** The first one seals, each of them opens. Empty if there is none. */
  list: readonly Secret[]
  /** Whether values that were sealed without a secret open even though there is one. */
  acceptWithout: boolean
}

/** Takes over copies of secrets, which the holder releases. */
export function holdSecrets({ list, acceptWithout }: GivenSecrets): Secrets {
  return { list: list.map(createSecret), acceptWithout }
}

/** The flag of a value that is sealed with this secret. */
export function flagOf(secret: Secret | undefined): SecretFlag {
  return secret ? { needsSecret: true } : {}
}

/**
 * Returns the secrets under which something stored may have been sealed; undefined stands for none. @throws
 * DecryptionError where it needs one and there is none, or the reverse
 */
export function secretsFor(
  { needsSecret }: SecretFlag,
  { list, acceptWithout }: Secrets,
): readonly (Secret | undefined)[] {
  if (needsSecret && list.length > 0) return list
  if (!needsSecret && (list.length === 0 || acceptWithout)) return [undefined]
  const hint = needsSecret
    ? "It was sealed with the application's secret: pass `secret`."
    : 'It was sealed without a secret, which this reader has. If you know who sealed it, pass `acceptWithoutSecret: true`; else restore it from a backup.'
  throw new DecryptionError(undefined, { hint })
}

/** Tries each secret in turn, until one gives a result. */
function tryEach<T>(
  secrets: readonly (Secret | undefined)[],
  attempt: (secret: Secret | undefined) => Soon<T | undefined>,
): Soon<T | undefined> {
  const [first, ...others] = secrets
  return use(attempt(first), (found) => (found !== undefined || others.length === 0 ? found : tryEach(others, attempt)))
}

/** Mixes a secret into a key (application-secret.md 2), and runs the function with the result, or with the key itself. */
export function withMixed<T>(
  engine: Engine,
  key: Uint8Array,
  { keyId, secret }: { keyId: string; secret: Secret | undefined },
  run: (mixed: Uint8Array) => Soon<T>,
): Soon<T> {
  if (!secret) return run(key)
  const mixing = secret.use((salt) => engine.derive(key, mixedKeyInfo(keyId), KEY_BYTES, salt))
  return use(mixing, (mixed) => {
    let running: Promise<T> | undefined
    try {
      const result = run(mixed)
      if (!isPromise(result)) return result
      running = result.finally(() => mixed.fill(0))
      return running
    } finally {
      if (!running) mixed.fill(0)
    }
  })
}
