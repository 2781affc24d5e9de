// Bytes through streams: written in chunks of chosen sizes, and collected until the end or an error.
import { concatBytes } from '@eaas/protocol'

/** Bytes as a stream of chunks of these lengths, again and again. */
export function chunked(bytes: Uint8Array, lengths: readonly number[] = [bytes.length]): ReadableStream<Uint8Array> {
  let [at, turn] = [0, 0]
  return new ReadableStream({
    pull(controller) {
      const length = lengths[turn++ % lengths.length] ?? bytes.length
      if (at >= bytes.length) return controller.close()
      controller.enqueue(bytes.slice(at, at + length))
      at += length
    },
  })
}

/** All bytes of a stream. */
export async function collect(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  const { bytes, error } = await collectUntilError(stream)
  if (error !== undefined) throw error
  return bytes
}

/** The bytes of a stream until its error, and the error. */
export async function collectUntilError(
  stream: ReadableStream<Uint8Array>,
): Promise<{ bytes: Uint8Array; error: unknown }> {
  const chunks: Uint8Array[] = []
  let error: unknown
  const reader = stream.getReader()
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) chunks.push(read.value)
  } catch (reason) {
    error = reason
  }
  return { bytes: concatBytes(...chunks), error }
}

/** Quickly, for megabytes. */
export function isSame(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0
}
