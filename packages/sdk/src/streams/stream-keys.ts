/**
 * The keys of one stream (stream.md 2), derived from a DEK of the client. The client's DEKs stay where they
 * are.
 */
import {
  BOUND_KEYS_BYTES,
  equalInConstantTime,
  KEY_BYTES,
  type StreamHeader,
  splitBoundKeys,
  streamKeysInfo,
} from '@eaas/protocol'
import { type OwnDek, withOwnDek } from '../deks/own-dek.js'
import { fillRandom } from '../deks/random.js'
import { createSecret, type Secret } from '../deks/secret.js'
import type { Engine } from '../engines/engine.js'
import { DecryptionError } from '../errors.js'
import type { DekScope } from '../input.js'
import type { RecordsDeps } from '../records/blocks.js'
import type { Commit } from '../records/rewrapping.js'
import { use } from '../waiting.js'

/** The header of a stream, and the key that seals its segments. */
export interface StreamKey {
  header: StreamHeader
  /** The caller releases it. */
  key: Secret
}

/**
 * Makes the header and the key of a new stream, which counts as one message of its DEK. Uses the network
 * where there is no DEK.
 */
export async function createStreamKey(
  { envelopes, encryptDeks, wrap }: RecordsDeps,
  { keyId, dek }: { keyId: string; dek: DekScope },
  signal: AbortSignal,
): Promise<StreamKey> {
  const salt = new Uint8Array(KEY_BYTES)
  fillRandom(salt)
  const deriveFrom = async (own: OwnDek) => {
    const { key, commitment } = await derive(envelopes.engine(), own.dek, keyId, salt)
    return { header: { ...own.wrapped, salt, commitment }, key }
  }
  if (dek !== 'shared') return withOwnDek(wrap, { keyId, signal }, deriveFrom)
  // The DEK itself seals none of the stream's bytes.
  return encryptDeks.use(keyId, { messages: 1, bytes: 0 }, signal, (shared, wrapped) =>
    deriveFrom({ dek: shared, wrapped }),
  )
}

/**
 * Returns the key of a stream, which the caller releases. Uses the network where its DEK is not cached.
 *
 * @throws DecryptionError when its header commits to another DEK
 */
export async function openStreamKey(
  { envelopes, decryptDeks }: RecordsDeps,
  header: StreamHeader,
  signal: AbortSignal,
): Promise<Secret> {
  return decryptDeks.use(header, signal, async (dek) => {
    const { key, commitment } = await derive(envelopes.engine(), dek, header.key_id, header.salt)
    if (equalInConstantTime(commitment, header.commitment)) return key
    key.release()
    throw new DecryptionError()
  })
}

/** Returns what makes the commitment of a stream with this salt. */
export function commitOf(salt: Uint8Array): Commit {
  return async (engine, dek, keyId) => {
    const { key, commitment } = await derive(engine, dek, keyId, salt)
    key.release()
    return commitment
  }
}

function derive(engine: Engine, dek: Secret, keyId: string, salt: Uint8Array) {
  const okm = dek.use((bytes) => engine.derive(bytes, streamKeysInfo(keyId), BOUND_KEYS_BYTES, salt))
  return use(okm, (derived) => {
    const { key, commitment } = splitBoundKeys(derived)
    return { key: createSecret(key), commitment }
  })
}
