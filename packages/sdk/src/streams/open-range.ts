/** Opens a part of a stored stream (stream.md 6). */
import { SEALED_SEGMENT_BYTES, SEGMENT_BYTES } from '@eaas/protocol'
import { DecryptionError, InvalidInputError } from '../errors.js'
import { type Binary, readBinary } from '../input.js'
import { createPace } from '../waiting.js'
import type { Lifetime } from './byte-streams.js'
import { type OpenSegment, type StreamDemand, withOpener } from './open-stream.js'
import { findHeader } from './segments.js'

/** How many segments are read at a time: 1 MiB, so that a long part takes few requests and little memory. */
const SEGMENTS_A_READ = 16

export interface Part {
  from: number
  to: number
}

export function openPart(
  read: ReadSource,
  { part, ...demand }: StreamDemand & { part: Part },
  lifetime: Lifetime,
): AsyncGenerator<Uint8Array, void> {
  const find = () => findHeader(read)
  return withOpener(demand, lifetime, find, (openSegment, { length }) =>
    openSegments((from, to) => read(length + from, length + to), openSegment, part),
  )
}

async function* openSegments(
  read: ReadSource,
  openSegment: OpenSegment,
  { from, to }: Part,
): AsyncGenerator<Uint8Array, void> {
  if (from === to) return
  const pace = createPace()
  let counter = Math.floor(from / SEGMENT_BYTES)
  for (let isEnd = false; !isEnd && counter * SEGMENT_BYTES < to; ) {
    const count = Math.min(SEGMENTS_A_READ, Math.ceil(to / SEGMENT_BYTES) - counter)
    const start = counter * SEALED_SEGMENT_BYTES
    const wanted = count * SEALED_SEGMENT_BYTES
    const bytes = await read(start, start + wanted + 1) // one byte more shows whether the stream continues
    isEnd = bytes.length <= wanted
    const sealed = bytes.subarray(0, wanted)
    if (sealed.length === 0) {
      // Nothing authentic shows whether the stream was truncated here, or always ended here.
      const hint = 'Check `from`. If it is right, the stored stream was cut: restore it from a backup.'
      const message = 'could not decrypt the range: the stream ends before it begins'
      throw new DecryptionError(undefined, { message, hint })
    }
    for (let at = 0; at < sealed.length; at += SEALED_SEGMENT_BYTES) {
      if (pace.due()) await pace.rest()
      const isFinal = isEnd && at + SEALED_SEGMENT_BYTES >= sealed.length
      const piece = await openSegment(sealed.subarray(at, at + SEALED_SEGMENT_BYTES), counter, isFinal)
      const position = counter++ * SEGMENT_BYTES
      const end = position + piece.length
      if (from > 0 && from >= end) throw new InvalidInputError(`from must lie within the plaintext, of length ${end}`)
      const cut = piece.subarray(Math.max(0, from - position), to - position)
      if (cut.length > 0) yield cut
    }
  }
}

/**
 * The source of a stored stream: a `Blob` or `File`, or a function that reads its bytes from `start` up to but not
 * including `end`. Such a function may return fewer bytes only where the stored stream ends. Its `signal` is aborted
 * once the part is no longer read.
 */
export type RangeSource =
  | {
      readonly size: number
      slice(start: number, end: number): { arrayBuffer(): Promise<ArrayBuffer> }
    }
  | ((start: number, end: number, signal: AbortSignal) => Binary | Promise<Binary>)

/** Reads bytes; fewer only at the end of the source. */
export type ReadSource = (start: number, end: number) => Promise<Uint8Array>

export function createReader(source: RangeSource): (signal: AbortSignal) => ReadSource {
  if (typeof source === 'function') {
    return (signal) => async (start, end) => {
      const bytes = readBinary(await source(start, end, signal))
      if (!bytes) throw new InvalidInputError('the source of a range must return bytes')
      if (bytes.length <= end - start) return bytes
      const hint = 'Check that the server honours Range: it answers with status 206 then, and with 200 if not.'
      throw new InvalidInputError(`the source returned too much for a range of ${end - start}: ${bytes.length}`, hint)
    }
  }
  if (typeof source?.slice !== 'function' || typeof source.size !== 'number')
    throw new InvalidInputError('the source of a range must be a Blob, or a function that reads a range')
  return () => async (start, end) => new Uint8Array(await source.slice(start, end).arrayBuffer())
}
