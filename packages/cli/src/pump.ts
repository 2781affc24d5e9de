/** Runs bytes through a pair of streams into an output. */
import type { Bytes } from '@eaas/sdk'
import type { Output } from './output.js'
import type { Progress } from './progress.js'

export interface PumpOptions {
  output: Output
  progress: Progress
  signal: AbortSignal
  /** Called with each chunk before it is written. */
  onChunk?: ((chunk: Uint8Array) => void) | undefined
}

/** Returns how many bytes were read and written. */
export async function pump(
  source: ReadableStream<Uint8Array>,
  transform: TransformStream<Uint8Array, Bytes>,
  { output, progress, signal, onChunk }: PumpOptions,
): Promise<{ bytesIn: number; bytesOut: number }> {
  let [bytesIn, bytesOut] = [0, 0]
  const counting = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      bytesIn += chunk.length
      progress.add(chunk.length)
      controller.enqueue(chunk)
    },
  })
  const reader = source.pipeThrough(counting, { signal }).pipeThrough(transform, { signal }).getReader()
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      onChunk?.(read.value)
      bytesOut += read.value.length
      await output.write(read.value)
    }
  } catch (error) {
    await reader.cancel(error).catch(() => undefined)
    throw error
  } finally {
    progress.done()
  }
  return { bytesIn, bytesOut }
}
