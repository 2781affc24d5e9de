/** A progress bar on standard error, on a terminal only, and a pump of bytes that shows it. */
import { visibleLine } from '@eaas/protocol'
import type { Bytes } from '@eaas/sdk'
import type { Io } from './io.js'
import type { Output } from './output.js'

const WIDTH = 24
const EVERY_MS = 100

type Bar = { show(done: number, total: number | undefined, text: string): void; done(): void }

/** Shows a text, and a bar if the total is known. */
export function showBar(io: Io, what: string): Bar {
  if (!io.stderr.isTTY) return { show: () => undefined, done: () => undefined }
  let shownAt = 0
  return {
    show(done, total, text) {
      if (performance.now() - shownAt < EVERY_MS) return
      shownAt = performance.now()
      io.stderr.write(`\r\u001b[K${visibleLine(`${what} ${total ? `${barOf(done / total)} ` : ''}${text}`)}`)
    },
    done: () => void io.stderr.write('\r\u001b[K'),
  }
}

/** Shows how many bytes are done, and a bar if the total is known. */
export function showProgress(io: Io, what: string, total: number | undefined) {
  const bar = showBar(io, what)
  let amount = 0
  return {
    add(more: number) {
      amount += more
      bar.show(amount, total, `${(amount / 1_000_000).toFixed(1)} MB`)
    },
    done: () => bar.done(),
  }
}

function barOf(share: number): string {
  const done = Math.min(1, share)
  const full = Math.round(done * WIDTH)
  return `[${'#'.repeat(full)}${'.'.repeat(WIDTH - full)}] ${Math.floor(done * 100)} %`
}

interface PumpOptions {
  output: Output
  what: string
  total: number | undefined
  onChunk?: (chunk: Uint8Array) => void
}

/** Pumps bytes through a pair of streams into an output. Returns how many were written. */
export async function pump(
  io: Io,
  source: ReadableStream<Uint8Array>,
  transform: TransformStream<Uint8Array, Bytes>,
  { output, what, total, onChunk }: PumpOptions,
): Promise<number> {
  const { signal } = io
  const progress = showProgress(io, what, total)
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
