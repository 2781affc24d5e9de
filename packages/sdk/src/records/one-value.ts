/** Seals one value to one envelope and opens it, as `encrypt` and `decrypt` of a client ask for. */
import type { Context, Envelope } from '@eaas/protocol'
import type { Soon } from '../async/is-promise.js'
import type { DekScope } from '../deks/dek-scope.js'
import { withOwnDek } from '../deks/own-dek.js'
import type { RecordsDeps } from './blocks.js'
import { type Demand, demandContext, readContext } from './bound-envelopes.js'
import { readEnvelope } from './read-envelope.js'

interface Sealed {
  keyId: string
  context: Context | undefined
  dek: DekScope
  signal: AbortSignal | undefined
}

/**
 * Seals bytes, which the caller may change afterwards where the DEK is the shared one. @throws
 * InvalidInputError for a wrong context
 */
export function sealOne(
  { envelopes, wrap }: Pick<RecordsDeps, 'envelopes' | 'wrap'>,
  bytes: Uint8Array,
  { keyId, context, dek, signal }: Sealed,
): Soon<Envelope> {
  const aad = context === undefined ? undefined : readContext(keyId, context)
  if (dek === 'shared') return envelopes.seal(bytes, keyId, signal, aad)
  return withOwnDek(wrap, { keyId, signal }, (own) => envelopes.sealWith(own, bytes, aad))
}

/** Opens an envelope of unknown origin. @throws InvalidInputError, DecryptionError */
export function openOne(
  { envelopes }: Pick<RecordsDeps, 'envelopes'>,
  envelope: unknown,
  { context, acceptUnbound, signal }: Demand & { signal: AbortSignal | undefined },
): Soon<Uint8Array> {
  return envelopes.open(demandContext(readEnvelope(envelope), { context, acceptUnbound }), signal)
}
