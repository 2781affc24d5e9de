/** The keys of one stream (stream.md 2), derived from a DEK of the client. The client's DEKs stay where they are. */
import {
  BOUND_KEYS_BYTES,
  type BoundKeys,
  equalInConstantTime,
  KEY_BYTES,
  type StreamHeader,
  splitBoundKeys,
  streamKeysInfo,
} from '@eaas/protocol'
import { isPromise, type Soon } from '../async/is-promise.js'
import type { DekScope } from '../deks/dek-scope.js'
import { withOwnDek } from '../deks/own-dek.js'
import { fillRandom } from '../deks/random.js'
import type { Engine } from '../engines/engine.js'
import { DecryptionError } from '../errors.js'
import type { Commit } from '../records/rewrapping.js'
import type { Sealing } from '../records/sealing.js'

/** The header of a stream, and the key that seals its segments. */
export interface StreamKey {
  header: StreamHeader
  /** 32 bytes, which the caller zeroes. */
  key: Uint8Array
}

/** Makes the header and the key of a new stream, which counts as one message of its DEK. Uses the network where there is no DEK. */
export async function createStreamKey(
  { envelopes, encryptDeks, wrap }: Sealing,
  { keyId, dek }: { keyId: string; dek: DekScope },
  signal: AbortSignal,
): Promise<StreamKey> {
  const salt = new Uint8Array(KEY_BYTES)
  fillRandom(salt)
  const deriveFrom = async (own: Uint8Array) => derive(envelopes.engine(), own, keyId, salt)
  if (dek === 'shared') {
    // The DEK itself seals none of the stream's bytes.
    return encryptDeks.use(keyId, { messages: 1, bytes: 0 }, signal, async (shared, wrapped) => {
      const { key, commitment } = await deriveFrom(shared)
      return { header: { ...wrapped, salt, commitment }, key }
    })
  }
  return withOwnDek(wrap, { keyId, signal }, async (own) => {
    const { key, commitment } = await deriveFrom(own.dek)
    return { header: { ...own.wrapped, salt, commitment }, key }
  })
}

/**
 * Returns the key of a stream. Uses the network where its DEK is not cached.
 *
 * @throws DecryptionError when its header commits to another DEK
 */
export async function openStreamKey(
  { envelopes, decryptDeks }: Sealing,
  header: StreamHeader,
  signal: AbortSignal,
): Promise<Uint8Array> {
  return decryptDeks.use(header, signal, async (dek) => {
    const { key, commitment } = await derive(envelopes.engine(), dek, header.key_id, header.salt)
    if (equalInConstantTime(commitment, header.commitment)) return key
    key.fill(0)
    throw new DecryptionError()
  })
}

/** Returns what makes the commitment of a stream with this salt. */
export function commitOf(salt: Uint8Array): Commit {
  return async (engine, dek, keyId) => {
    const { key, commitment } = await derive(engine, dek, keyId, salt)
    key.fill(0)
    return commitment
  }
}

function derive(engine: Engine, dek: Uint8Array, keyId: string, salt: Uint8Array): Soon<BoundKeys> {
  const okm = engine.derive(dek, streamKeysInfo(keyId), BOUND_KEYS_BYTES, salt)
  return isPromise(okm) ? okm.then(splitBoundKeys) : splitBoundKeys(okm)
}
