/** What a reader demands of an envelope, and how it is opened (envelope.md 6, envelope-v2.md 6). */
import type { Context, SealedParts, SecretFlag, WrappedKey } from '@eaas/protocol'
import { decodeUtf8, equalInConstantTime, NO_CONTEXT } from '@eaas/protocol'
import type { Secret } from '../deks/secret.js'
import type { Engine } from '../engines/engine.js'
import { ContentError, DecryptionError, isEaasError, placedAt, type RecordPlace } from '../errors.js'
import type { DemandOptions } from '../input.js'
import { type Uses, usesOfModel, type WrappedFor, wrappedFor } from '../uses.js'
import { isPromise, type Soon, use } from '../waiting.js'
import type { OpenDeps } from './blocks.js'
import { type EnvelopeEngine, readContext, type Secrets, useKeys } from './bound-envelopes.js'
import { readEnvelope } from './read-envelope.js'

declare const demanded: unique symbol

/** The parts of an envelope that `demandContext` accepted: it has the format that the caller demands. */
export interface OpenableParts extends SealedParts, WrappedFor {
  readonly [demanded]: true
  aad?: Uint8Array
}

/** @throws InvalidInputError if the context is not one; DecryptionError for another key, and for format v1 with a context */
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

export function assertKeyOf({ key_id }: WrappedKey, keyIds: readonly string[] | undefined, place?: RecordPlace): void {
  if (!keyIds || keyIds.includes(key_id)) return
  throw foreignKey(key_id, 'one of keyIds', 'Name its key in `keyIds`, or restore the envelope.', place)
}

export function foreignKey(key_id: string, expected: string, hint: string, place?: RecordPlace): DecryptionError {
  const message = `could not decrypt: encrypted under the key ${key_id}, which is not ${expected}`
  return new DecryptionError(place, { message, hint })
}

/** Like `demandContext`, with the context's AAD. `hint` is advice for an envelope of the other format. */
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

/** envelope.md 6, envelope-v2.md 6. @throws DecryptionError, identical for every cause except a missing secret, see `secretsFor` */
export function openParts(engine: Engine, dek: Secret, parts: OpenableParts, secrets: Secrets): Soon<Uint8Array> {
  const { commitment, aad, key_id: keyId, iv, sealed } = parts
  const fitting = secretsFor(parts, secrets)
  if (!commitment) return dek.use((key) => engine.open(key, iv, sealed))
  if (!aad) throw new DecryptionError()
  const open = (secret: Secret | undefined) =>
    useKeys(engine, dek, { keyId, secret }, (keys) =>
      // The commitment comes first: AES-GCM alone can open one ciphertext under two keys.
      equalInConstantTime(keys.commitment, commitment) ? engine.open(keys.key, iv, sealed, aad) : undefined,
    )
  return use(tryEach(fitting, open), (opened) => {
    if (!opened) throw new DecryptionError()
    return opened
  })
}

/** Returns the secrets under which it may be sealed; undefined stands for none. @throws DecryptionError if none fits */
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

function tryEach<T>(
  secrets: readonly (Secret | undefined)[],
  attempt: (secret: Secret | undefined) => Soon<T | undefined>,
): Soon<T | undefined> {
  const [first, ...others] = secrets
  return use(attempt(first), (found) => (found !== undefined || others.length === 0 ? found : tryEach(others, attempt)))
}

/** Opens synchronously with a synchronous engine and a cached DEK. @throws DecryptionError */
export function openEnvelope(
  { envelopes, decryptDeks }: Pick<OpenDeps, 'envelopes' | 'decryptDeks'>,
  parts: OpenableParts,
  signal: AbortSignal | undefined,
): Soon<Uint8Array> {
  const open = (one: OpenableParts) => decryptDeks.use(one, signal, (dek) => openWith(envelopes, dek, one))
  return parts.orUse ? inEitherUse(parts, open) : open(parts) // an error has few stack frames for its caller
}

export function openWith(
  envelopes: EnvelopeEngine,
  dek: Secret,
  parts: OpenableParts,
  place?: RecordPlace,
): Soon<Uint8Array> {
  const translate = (error: unknown): never => {
    throw place && isEaasError(error) ? placedAt(error, place) : error
  }
  try {
    const opened = openParts(envelopes.engine(), dek, parts, envelopes.secrets)
    return isPromise(opened) ? opened.catch(translate) : opened
  } catch (error) {
    return translate(error)
  }
}

export function openOne(
  tools: Pick<OpenDeps, 'envelopes' | 'decryptDeks'>,
  envelope: unknown,
  demand: DemandOptions,
  signal: AbortSignal | undefined,
): Soon<Uint8Array> {
  return openEnvelope(tools, demandContext(readEnvelope(envelope), demand), signal)
}

/** Parses opened bytes as JSON. @throws ContentError when they are not JSON in UTF-8 */
export function toJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(decodeUtf8(bytes))
  } catch {
    // Without the parser's message, which quotes the text.
    throw new ContentError('the decrypted value is not JSON', 'Use decryptText() or decrypt().')
  }
}

/** Returns the uses that a context implies; undefined unless it says that a model sealed the value. */
export function usesIn(context: Context | undefined): Uses | undefined {
  const { model } = context ?? {}
  return model === undefined ? undefined : usesOfModel(model, () => context ?? {})
}

/** Runs with a wrapped key in its first use and, if the service refuses that, in its other use. */
export function inEitherUse<K extends WrappedFor, T>(wrapped: K, run: (wrapped: K) => Soon<T>): Soon<T> {
  const ran = run(wrapped)
  if (!wrapped.orUse || !isPromise(ran)) return ran
  return ran.catch((error: unknown) => {
    const cause = isEaasError(error) && (error.cause as { problem?: unknown } | undefined)
    const use = cause && cause.problem === 'E_WRAPPED_KEY' && wrapped.orUse?.()
    if (!use) throw error
    return run({ ...wrapped, use, orUse: undefined })
  })
}
