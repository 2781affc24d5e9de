/** Seals chunks of bytes to a stream (stream.md 4), segment by segment. */
import { encodeStreamHeader, SEGMENT_BYTES, segmentIv } from '@eaas/protocol'
import type { DekScope } from '../input.js'
import { createPace } from '../pace.js'
import type { LoadParts } from '../records/client-parts.js'
import type { Lifetime } from './byte-streams.js'
import type { Chunks } from './handover.js'
import { cutSegments } from './segments.js'
import { createStreamKey } from './stream-keys.js'

export interface SealStreamOptions {
  load: LoadParts
  keyId: string
  dek: DekScope
  aad: Uint8Array
}

/**
 * Yields the header line and then each segment. If there is no DEK, uses the network before it takes the first chunk.
 */
export async function* sealStream(
  chunks: Chunks,
  { load, keyId, dek, aad }: SealStreamOptions,
  lifetime: Lifetime,
): AsyncGenerator<Uint8Array, void> {
  const { records } = await load()
  lifetime.endWith(records.closed)
  const { header, key } = await createStreamKey(records, { keyId, dek }, lifetime.signal)
  try {
    yield encodeStreamHeader(header)
    const engine = records.envelopes.engine()
    const pace = createPace()
    let counter = 0
    for await (const { bytes, isFinal } of cutSegments(chunks, SEGMENT_BYTES)) {
      if (pace.due()) await pace.rest() // a synchronous engine would leave no turn to the page
      const iv = segmentIv(counter++, isFinal)
      yield key.use((segmentKey) => engine.seal(segmentKey, iv, bytes, aad))
    }
  } finally {
    key.release()
  }
}
