/** Rewraps DEKs. With `deks.verify`, replaces a wrapped key only if the new one unwraps to the same DEK. */
import { type Context, equalInConstantTime, type SecretFlag, type WrappedKey } from '@eaas/protocol'
import type { DecryptDekSource } from '../deks/decrypt-deks.js'
import { createSecret, type Secret } from '../deks/secret.js'
import type { Engine } from '../engines/engine.js'
import { DecryptionError, isEaasError, ProtocolError } from '../errors.js'
import type { Batcher } from '../http/batcher.js'
import { type WrappedFor, wrappedFor } from '../uses.js'
import type { Soon } from '../waiting.js'
import { type EnvelopeEngine, readContext, useKeys } from './bound-envelopes.js'
import type { usesIn } from './open-envelopes.js'
import { envelopeObject, isText, readEnvelope, textOf } from './read-envelope.js'

/** A wrapped key with what stored data shows of its DEK: a commitment or, in format v1, what the DEK sealed. */
export interface CommittedKey extends WrappedFor, SecretFlag {
  commitment?: Uint8Array
  iv?: Uint8Array
  sealed?: Uint8Array
}

export type Commit = (engine: Engine, dek: Secret, keyId: string, secret: Secret | undefined) => Soon<Uint8Array>

export type RewrapOptions = { commit?: Commit }

const commitmentOf: Commit = (engine, dek, keyId, secret) =>
  useKeys(engine, dek, { keyId, secret }, ({ commitment }) => commitment)

/** Has a DEK wrapped again under its key's current version, for the same use. */
export type Rewrap = (old: CommittedKey, signal?: AbortSignal, options?: RewrapOptions) => Promise<WrappedKey>

/** Rewraps for the same use. Without `verify` this process never has the DEK, and trusts the service's answer. */
export async function rewrap(
  { batcher, envelopes, verify }: { batcher: Batcher; envelopes: EnvelopeEngine; verify: boolean },
  old: CommittedKey,
  signal: AbortSignal | undefined,
  { commit = commitmentOf }: RewrapOptions = {},
): Promise<WrappedKey> {
  const fresh = { ...(await batcher.rewrap(old, signal)), use: old.use }
  if (!verify) return fresh
  await envelopes.ready()
  const bytes = await unwrapIfAuthentic(batcher.unwrap, fresh)
  const { commitment, iv, sealed, key_id, needsSecret } = old
  const engine = envelopes.engine()
  const secrets = needsSecret ? envelopes.secrets.list : [undefined]
  const isTold = commitment ? secrets.length > 0 : iv && sealed
  const isStored = async (dek: Secret) => {
    if (!commitment) return iv && sealed && opens(engine, dek, { iv, sealed })
    for (const secret of secrets) {
      if (equalInConstantTime(await commit(engine, dek, key_id, secret), commitment)) return true
    }
    return false
  }
  const dek = bytes && createSecret(new Uint8Array(bytes)) // a copy: an engine may zero what it imports, and `bytes` are compared
  let before: Uint8Array | undefined
  try {
    if (dek && (await isStored(dek))) return fresh
    before = await batcher.unwrap(old)
    if (!bytes || !equalInConstantTime(before, bytes)) {
      const message = `POST /v1/keys/${key_id}/rewrap: the new wrapped key does not unwrap to the same DEK`
      throw new ProtocolError(message, 200)
    }
    if (isTold) throw new DecryptionError() // by the service's word it is the same DEK, but what is stored does not open with it, and is left as it is
    return fresh
  } finally {
    dek?.release()
    for (const one of [bytes, before]) one?.fill(0)
  }
}

async function opens(
  engine: Engine,
  dek: Secret,
  { iv, sealed }: Required<Pick<CommittedKey, 'iv' | 'sealed'>>,
): Promise<boolean> {
  try {
    const plaintext = await dek.use((key) => engine.open(key, iv, sealed))
    plaintext.fill(0)
    return true
  } catch (error) {
    if (isEaasError(error) && error.code === 'E_DECRYPTION') return false
    throw error
  }
}

export async function rewrapEnvelope(
  deps: { rewrap: Rewrap; usesIn: typeof usesIn },
  stored: unknown,
  { context, signal }: { context: Context | undefined; signal: AbortSignal | undefined },
): Promise<unknown> {
  const old = readEnvelope(stored)
  if (context !== undefined) readContext(old.key_id, context)
  const wrapped = wrappedFor(old, () => deps.usesIn(context))
  return withWrappedKey(stored, await deps.rewrap(wrapped, signal))
}

/** Returns a stored envelope with another wrapped key, in the same form. @throws InvalidInputError if that has no text form */
export function withWrappedKey(stored: unknown, { wrapped_key, key_version }: WrappedKey): unknown {
  if (isText(stored)) return textOf({ ...readEnvelope(stored), wrapped_key, key_version })
  const envelope = { ...envelopeObject(stored), wrapped_key, key_version }
  return typeof stored === 'string' ? JSON.stringify(envelope) : envelope
}

type Unwrap = DecryptDekSource['unwrap']

/** Returns the DEK, which the caller zeroes; undefined if the service says that the wrapped key is not authentic. */
async function unwrapIfAuthentic(unwrap: Unwrap, wrapped: WrappedFor): Promise<Uint8Array | undefined> {
  return unwrap(wrapped).catch((error: unknown) => {
    if (isEaasError(error) && error.code === 'E_DECRYPTION') return undefined
    throw error
  })
}

export async function unwrapsTo(unwrap: Unwrap, dek: Secret, wrapped: WrappedFor): Promise<boolean> {
  const back = await unwrapIfAuthentic(unwrap, wrapped)
  try {
    return back !== undefined && dek.use((own) => equalInConstantTime(own, back))
  } finally {
    back?.fill(0)
  }
}
