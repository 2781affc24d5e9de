/** Has the DEK of a stored stream wrapped again, which changes its first line only (stream.md 3). */
import { encodeStreamHeader, findStreamHeaderEnd, MAX_STREAM_HEADER_BYTES, type StreamHeader } from '@eaas/protocol'
import type { RecordsDeps } from '../records/blocks.js'
import type { LoadParts } from '../records/client-parts.js'
import { useOfStream, wrappedFor } from '../uses.js'
import type { Lifetime } from './byte-streams.js'
import type { Chunks } from './handover.js'
import type { ReadSource } from './range-source.js'
import { readHeader, refuse, takeHeader } from './segments.js'
import { commitOf } from './stream-keys.js'

/** Yields the new first line, and then copies of everything after it, since a chunk goes back to its writer. */
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
  const head = await read(0, MAX_STREAM_HEADER_BYTES)
  const replaces = findStreamHeaderEnd(head) ?? refuse('its first line does not end')
  const header = readHeader(head.subarray(0, replaces))
  const { records } = await load()
  return { line: await rewrapHeader(records, header, signal), replaces }
}

async function rewrapHeader({ rewrap }: RecordsDeps, header: StreamHeader, signal: AbortSignal | undefined) {
  const { wrapped_key, key_version } = await rewrap(wrappedFor(header, useOfStream), signal, {
    commit: commitOf(header.salt),
  })
  return encodeStreamHeader({ ...header, wrapped_key, key_version })
}
