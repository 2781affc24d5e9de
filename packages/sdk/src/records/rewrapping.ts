/**
 * Has DEKs wrapped again, and with `deks.verify` keeps the old wrapped key unless the new one unwraps to the
 * same DEK.
 */
import { equalInConstantTime, type WrappedKey } from '@eaas/protocol'
import { unwrapIfAuthentic } from '../deks/encrypt-deks.js'
import { createSecret, type Secret } from '../deks/secret.js'
import type { Engine } from '../engines/engine.js'
import { DecryptionError, ProtocolError } from '../errors.js'
import type { Batcher } from '../http/batcher.js'
import type { Soon } from '../waiting.js'
import { commitmentOf } from './bound-envelopes.js'
import type { Envelopes } from './envelopes.js'

/** A wrapped key, with the commitment to its DEK where the format has one. */
export interface CommittedKey extends WrappedKey {
  commitment?: Uint8Array
}

/** Derives the commitment to a DEK. */
export type Commit = (engine: Engine, dek: Secret, keyId: string) => Soon<Uint8Array>

/** Has a DEK wrapped again under its key's current version. `commit` is that of format v2 by default. */
export type Rewrap = (old: CommittedKey, signal: AbortSignal | undefined, commit?: Commit) => Promise<WrappedKey>

interface RewrapDeps {
  batcher: Batcher
  envelopes: Envelopes
  verify: boolean
}

/** Has a DEK wrapped again. Without `verify` it never has the DEK, and believes the service. */
export async function rewrap(
  { batcher, envelopes, verify }: RewrapDeps,
  old: CommittedKey,
  signal: AbortSignal | undefined,
  commit: Commit = commitmentOf,
): Promise<WrappedKey> {
  const fresh = await batcher.rewrap(old, signal)
  if (!verify) return fresh
  await envelopes.ready()
  const bytes = await unwrapIfAuthentic(batcher.unwrap, fresh)
  const { commitment, key_id } = old
  const dek = bytes && createSecret(new Uint8Array(bytes)) // a copy: an engine may zero what it imports, and `bytes` are compared
  let before: Uint8Array | undefined
  try {
    const made = dek && commitment && (await commit(envelopes.engine(), dek, key_id))
    if (made && equalInConstantTime(made, commitment)) return fresh
    before = await batcher.unwrap(old)
    if (!bytes || !equalInConstantTime(before, bytes)) {
      throw new ProtocolError(
        `POST /v1/keys/${key_id}/rewrap: the new wrapped key does not unwrap to the same DEK`,
        200,
      )
    }
    if (commitment) throw new DecryptionError() // what is stored commits to another DEK: it does not open, and is left as it is
    return fresh
  } finally {
    dek?.release()
    for (const one of [bytes, before]) one?.fill(0)
  }
}
