/** Opens a stream (stream.md 5), segment by segment. */
import { SEALED_SEGMENT_BYTES, type StreamHeader, segmentIv, streamAad } from '@eaas/protocol'
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
  load: LoadParts
  /** The encoded context that it must be bound to. */
  pairs: Uint8Array
  keyIds: readonly string[] | undefined
}

/** Yields each segment's plaintext once its tag is verified. Uses the network if the DEK is not cached. */
export function openStream(chunks: Chunks, demand: StreamDemand, lifetime: Lifetime): AsyncGenerator<Uint8Array, void> {
  const find = () => takeHeader(chunks)
  return withOpener(demand, lifetime, find, async function* (openSegment, { rest }) {
    const pace = createPace()
    let counter = 0
    for await (const { bytes, isFinal } of cutSegments(rest, SEALED_SEGMENT_BYTES)) {
      if (pace.due()) await pace.rest() // otherwise a synchronous engine would block the page
      const piece = await openSegment(bytes, counter++, isFinal)
      if (piece.length > 0) yield piece
    }
  })
}

/** Runs a generator with the function that opens a stream's segments. @throws DecryptionError for another key or DEK */
export async function* withOpener<F extends { header: StreamHeader }>(
  { load, pairs, keyIds }: StreamDemand,
  lifetime: Lifetime,
  findHeader: () => Promise<F>,
  run: (openSegment: OpenSegment, found: F) => AsyncGenerator<Uint8Array, void>,
): AsyncGenerator<Uint8Array, void> {
  const { records } = await load()
  lifetime.endWith(records.closed)
  const found = await findHeader()
  const { header } = found
  assertKeyOf(header, keyIds)
  const aad = streamAad(header.key_id, pairs)
  const key = await openStreamKey(records, header, lifetime.signal)
  try {
    yield* run(createOpener(records.envelopes.engine(), key, aad), found)
  } finally {
    key.release()
  }
}

/** Opens a segment. @throws DecryptionError if it was not sealed at this position, or not with this `isFinal` */
export type OpenSegment = (segment: Uint8Array, counter: number, isFinal: boolean) => Promise<Uint8Array>

/** Makes the function that opens the segments of one stream. It counts the bytes released before an error. */
function createOpener(engine: Engine, key: Secret, aad: Uint8Array): OpenSegment {
  let released = 0
  return async (segment, counter, isFinal) => {
    try {
      const piece = await key.use((bytes) => engine.open(bytes, segmentIv(counter, isFinal), segment, aad))
      if (piece.length === 0 && counter > 0) throw new DecryptionError() // stream.md 5: one plaintext has one length
      released += piece.length
      return piece
    } catch (error) {
      if (!isEaasError(error) || error.code !== 'E_DECRYPTION') throw error
      const message =
        'could not decrypt the stream: cut, altered, moved, or encrypted under another key. ' +
        `The ${released} bytes of plaintext before are authentic, but they are not all`
      const hint =
        'Discard what was read, which is only a beginning. Pass the context that it was encrypted with, or restore the file from a backup.'
      throw new DecryptionError(undefined, { message, hint })
    }
  }
}
