/** The keys of one stream (stream.md 2), derived from a DEK of the client. The DEK does not leave the client. */
import type { StreamHeader } from '@eaas/protocol'
import { BOUND_KEYS_BYTES, equalInConstantTime, splitBoundKeys, streamKeysInfo } from '@eaas/protocol'
import { type OwnDek, random32, withOwnDek } from '../deks/random.js'
import { createSecret, type Secret } from '../deks/secret.js'
import type { Engine } from '../engines/engine.js'
import { DecryptionError } from '../errors.js'
import type { DekScope } from '../input.js'
import type { RecordsDeps } from '../records/blocks.js'
import { flagOf, withMixed } from '../records/bound-envelopes.js'
import { secretsFor } from '../records/open-envelopes.js'
import type { Commit } from '../records/rewrapping.js'
import { useOfStream, wrappedFor } from '../uses.js'
import { use } from '../waiting.js'

/** Makes the header and key of a new stream, one message of its DEK. The caller releases the key. May use the network. */
export async function createStreamKey(
  { envelopes, encryptDeks, wrap }: RecordsDeps,
  { keyId, dek }: { keyId: string; dek: DekScope },
  signal: AbortSignal,
): Promise<{ header: StreamHeader; key: Secret }> {
  const salt = random32()
  const deriveFrom = async (own: OwnDek) => {
    const [secret] = envelopes.secrets.list
    const { key, commitment } = await derive(envelopes.engine(), own.dek, { keyId, salt, secret })
    return { header: { ...own.wrapped, salt, commitment, ...flagOf(secret) }, key }
  }
  const { use: forStream } = useOfStream()
  if (dek !== 'shared') return withOwnDek(wrap, { keyId, signal, use: forStream }, deriveFrom)
  // No bytes: the DEK itself seals none of the stream.
  return encryptDeks.use(keyId, { messages: 1, bytes: 0, use: forStream }, signal, (shared, wrapped) =>
    deriveFrom({ dek: shared, wrapped }),
  )
}

/** Returns the key, which the caller releases. May use the network. @throws DecryptionError for another DEK's header */
export async function openStreamKey(
  { envelopes, decryptDeks }: RecordsDeps,
  header: StreamHeader,
  signal: AbortSignal,
): Promise<Secret> {
  const secrets = secretsFor(header, envelopes.secrets)
  const { key_id: keyId, salt } = header
  return decryptDeks.use(wrappedFor(header, useOfStream), signal, async (dek) => {
    for (const secret of secrets) {
      const { key, commitment } = await derive(envelopes.engine(), dek, { keyId, salt, secret })
      if (equalInConstantTime(commitment, header.commitment)) return key
      key.release()
    }
    throw new DecryptionError()
  })
}

export function commitOf(salt: Uint8Array): Commit {
  return async (engine, dek, keyId, secret) => {
    const { key, commitment } = await derive(engine, dek, { keyId, salt, secret })
    key.release()
    return commitment
  }
}

type Derivation = { keyId: string; salt: Uint8Array; secret: Secret | undefined }

function derive(engine: Engine, dek: Secret, { keyId, salt, secret }: Derivation) {
  const okm = dek.use((bytes) =>
    withMixed(engine, bytes, { keyId, secret }, (mixed) =>
      engine.derive(mixed, streamKeysInfo(keyId), BOUND_KEYS_BYTES, salt),
    ),
  )
  return use(okm, (derived) => {
    const { key, commitment } = splitBoundKeys(derived)
    return { key: createSecret(key), commitment }
  })
}
