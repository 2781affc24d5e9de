/** Runs bytes through a pair of streams into an output. */
import type { Bytes } from '@eaas/sdk'
import type { Io } from './io.js'
import type { Output } from './output.js'
import { showProgress } from './progress.js'

interface PumpOptions {
  output: Output
  /** what the progress is of, and how many bytes there are to read */
  what: string
  total: number | undefined
  /** Called with each chunk before it is written. */
  onChunk?: (chunk: Uint8Array) => void
}

/** Shows progress, and returns how many bytes were written. */
export async function pump(
  io: Io,
  source: ReadableStream<Uint8Array>,
  transform: TransformStream<Uint8Array, Bytes>,
  { output, what, total, onChunk }: PumpOptions,
): Promise<number> {
  const { signal } = io
  const progress = showProgress(io, what, { total })
  let written = 0
  const counting = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      progress.add(chunk.length)
      controller.enqueue(chunk)
    },
  })
  const reader = source.pipeThrough(counting, { signal }).pipeThrough(transform, { signal }).getReader()
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      onChunk?.(read.value)
      written += read.value.length
      await output.write(read.value)
    }
  } catch (error) {
    await reader.cancel(error).catch(() => undefined)
    throw error
  } finally {
    progress.done()
  }
  return written
}
