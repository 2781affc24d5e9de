/** Seals chunks to a stream (stream.md 4), and rewraps a stored one's first line (stream.md 3). */
import { encodeStreamHeader, SEGMENT_BYTES, type StreamHeader, segmentIv } from '@eaas/protocol'
import type { DekScope } from '../input.js'
import type { RecordsDeps } from '../records/blocks.js'
import type { LoadParts } from '../records/client-parts.js'
import { useOfStream, wrappedFor } from '../uses.js'
import { createPace } from '../waiting.js'
import type { Chunks, Lifetime } from './byte-streams.js'
import type { ReadSource } from './open-range.js'
import { cutSegments, findHeader, takeHeader } from './segments.js'
import { commitOf, createStreamKey } from './stream-keys.js'

export type SealStreamOptions = { load: LoadParts; keyId: string; dek: DekScope; aad: Uint8Array }

/** Yields the header line, then each segment. If there is no DEK, uses the network before the first chunk. */
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
      if (pace.due()) await pace.rest() // otherwise a synchronous engine would block the page
      const iv = segmentIv(counter++, isFinal)
      yield key.use((segmentKey) => engine.seal(segmentKey, iv, bytes, aad))
    }
  } finally {
    key.release()
  }
}

/** Yields the new first line, then copies of everything after it: copies, since a chunk goes back to its writer. */
export async function* rewrapChunks(
  chunks: Chunks,
  load: LoadParts,
  lifetime: Lifetime,
): AsyncGenerator<Uint8Array, void> {
  const { records } = await load()
  lifetime.endWith(records.closed)
  const { header, rest } = await takeHeader(chunks)
  yield rewrapHeader(records, header, lifetime.signal)
  for (let chunk = await rest.next(); chunk; chunk = await rest.next()) yield new Uint8Array(chunk)
}

/** Returns the new first line of a source, and the length of the old one. */
export async function rewrapLine(
  read: ReadSource,
  load: LoadParts,
  signal: AbortSignal | undefined,
): Promise<{ line: Uint8Array; replaces: number }> {
  const { header, length } = await findHeader(read)
  const { records } = await load()
  return { line: await rewrapHeader(records, header, signal), replaces: length }
}

async function rewrapHeader({ rewrap }: RecordsDeps, header: StreamHeader, signal: AbortSignal | undefined) {
  const commit = commitOf(header.salt)
  const { wrapped_key, key_version } = await rewrap(wrappedFor(header, useOfStream), signal, { commit })
  return encodeStreamHeader({ ...header, wrapped_key, key_version })
}
