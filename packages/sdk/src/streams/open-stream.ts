/** Opens a stream (stream.md 5), segment by segment. */
import { SEALED_SEGMENT_BYTES, segmentIv, streamAad } from '@eaas/protocol'
import type { Secret } from '../deks/secret.js'
import type { Engine } from '../engines/engine.js'
import { DecryptionError, isEaasError } from '../errors.js'
import type { LoadParts } from '../records/client-parts.js'
import { assertKeyOf } from '../records/open-envelopes.js'
import { createPace } from '../waiting.js'
import type { Chunks, Lifetime } from './byte-streams.js'
import { cutSegments, takeHeader } from './segments.js'
import { openStreamKey } from './stream-keys.js'

export interface StreamDemand {
  /** The context that it must be bound to, encoded. */
  pairs: Uint8Array
  keyIds: readonly string[] | undefined
}

/** Yields the plaintext of each segment after its tag was verified. Uses the network if the DEK is not cached. */
export async function* openStream(
  chunks: Chunks,
  { load, pairs, keyIds }: StreamDemand & { load: LoadParts },
  lifetime: Lifetime,
): AsyncGenerator<Uint8Array, void> {
  const { records } = await load()
  lifetime.endWith(records.closed)
  const { header, rest } = await takeHeader(chunks)
  assertKeyOf(header, keyIds)
  const aad = streamAad(header.key_id, pairs)
  const key = await openStreamKey(records, header, lifetime.signal)
  try {
    const openSegment = createOpener(records.envelopes.engine(), key, aad)
    const pace = createPace()
    let counter = 0
    for await (const { bytes, isFinal } of cutSegments(rest, SEALED_SEGMENT_BYTES)) {
      if (pace.due()) await pace.rest() // a synchronous engine would leave no turn to the page
      const piece = await openSegment(bytes, counter++, isFinal)
      if (piece.length > 0) yield piece
    }
  } finally {
    key.release()
  }
}

/** Opens a segment. @throws DecryptionError when it was not sealed at this position, or not with this `isFinal` */
export type OpenSegment = (segment: Uint8Array, counter: number, isFinal: boolean) => Promise<Uint8Array>

/** Makes a function that opens the segments of one stream, and counts the bytes released before an error. */
export function createOpener(engine: Engine, key: Secret, aad: Uint8Array): OpenSegment {
  let released = 0
  return async (segment, counter, isFinal) => {
    try {
      const piece = await key.use((bytes) => engine.open(bytes, segmentIv(counter, isFinal), segment, aad))
      if (piece.length === 0 && counter > 0) throw new DecryptionError() // stream.md 5: one plaintext has one length
      released += piece.length
      return piece
    } catch (error) {
      throw isEaasError(error) && error.code === 'E_DECRYPTION' ? prefixError(released) : error
    }
  }
}

function prefixError(released: number): DecryptionError {
  return new DecryptionError(undefined, {
    message:
      'could not decrypt the stream: cut, altered, moved, or encrypted under another key. ' +
      `The ${released} bytes of plaintext before are authentic, but they are not all`,
    hint: 'Discard what was read, which is only a beginning. Pass the context that it was encrypted with, or restore the file from a backup.',
  })
}
