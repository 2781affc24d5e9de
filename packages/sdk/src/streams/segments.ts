/** Cuts chunks of any size into a stream's segments (stream.md 4), and reads the header line before them. */
import type { StreamHeader } from '@eaas/protocol'
import { decodeStreamHeader, FormatError, findStreamHeaderEnd, MAX_STREAM_HEADER_BYTES } from '@eaas/protocol'
import { InvalidInputError } from '../errors.js'
import type { Chunks } from './byte-streams.js'
import type { ReadSource } from './open-range.js'

/** Its bytes belong to the reader until it requests the next segment. */
type Segment = { bytes: Uint8Array; isFinal: boolean }

/** Holds the last segment back until another byte follows. Copies a byte at most once, and no segment that is whole in a chunk. */
export async function* cutSegments(chunks: Chunks, size: number): AsyncGenerator<Segment, void> {
  const held = new Uint8Array(size)
  let length = 0
  try {
    for (let chunk = await chunks.next(); chunk; chunk = await chunks.next()) {
      for (let at = 0; at < chunk.length; ) {
        if (length === size) {
          yield { bytes: held, isFinal: false }
          length = 0
        }
        if (length === 0 && chunk.length - at > size) {
          yield { bytes: chunk.subarray(at, at + size), isFinal: false }
          at += size
          continue
        }
        const part = chunk.subarray(at, at + size - length)
        held.set(part, length)
        length += part.length
        at += part.length
      }
    }
    yield { bytes: held.subarray(0, length), isFinal: true }
  } finally {
    held.fill(0) // it may hold plaintext
  }
}

/** Reads the header line. Returns it, and the chunks after it. @throws InvalidInputError if it is not one */
export async function takeHeader(chunks: Chunks): Promise<{ header: StreamHeader; rest: Chunks }> {
  let line = new Uint8Array(0)
  for (let chunk = await chunks.next(); chunk; chunk = await chunks.next()) {
    const before = line.length
    line = new Uint8Array([...line, ...chunk.subarray(0, MAX_STREAM_HEADER_BYTES - before)])
    const end = findStreamHeaderEnd(line)
    if (end !== undefined)
      return { header: readHeader(line.subarray(0, end)), rest: behind(chunk.subarray(end - before), chunks) }
    if (line.length === MAX_STREAM_HEADER_BYTES) break
  }
  return refuse('its first line does not end')
}

/** Reads the header line of a source. Returns it with its length. @throws InvalidInputError if it is not one */
export async function findHeader(read: ReadSource): Promise<{ header: StreamHeader; length: number }> {
  const head = await read(0, MAX_STREAM_HEADER_BYTES)
  const length = findStreamHeaderEnd(head) ?? refuse('its first line does not end')
  return { header: readHeader(head.subarray(0, length)), length }
}

function readHeader(line: Uint8Array): StreamHeader {
  try {
    return decodeStreamHeader(line)
  } catch (error) {
    if (!(error instanceof FormatError)) throw error
    return refuse(error.message)
  }
}

function refuse(reason: string): never {
  const hint = 'Pass the bytes from the first one on, exactly as encryptStream() gave them.'
  throw new InvalidInputError(`not an encrypted stream: ${reason}`, hint)
}

function behind(rest: Uint8Array, chunks: Chunks): Chunks {
  let first: Uint8Array | undefined = rest
  return {
    next() {
      if (!first) return chunks.next()
      const taken = first
      first = undefined
      return Promise.resolve(taken)
    },
  }
}
