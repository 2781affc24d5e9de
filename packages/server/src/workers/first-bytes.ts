/** Reads the beginning of a connection, then stops reading, so that another process can read on where this one stopped. */
import type { Socket } from 'node:net'
import { MOST_HEAD_BYTES, readRequestHead } from './request-head.js'

/** How long the head of the first request may take before the connection is passed on as it is. */
const MOST_MS = 1_000
const LINE_FEED = 0x0a

export interface FirstBytes {
  bytes: Uint8Array
  /** the tenant that the first request names, as `readRequestHead` finds it */
  tenant: string | undefined
}

export interface Reading {
  /** Passes the connection on soon, with what has arrived. */
  finish(): void
}

/**
 * Reads until the head of the first request is complete, cannot become a head, or takes too long. Calls `onRead` once, after which nothing
 * of the connection is read here; calls `onGone` instead if the client leaves without a byte, or the connection breaks.
 */
export function readFirstBytes(
  socket: Socket,
  { onRead, onGone }: { onRead: (first: FirstBytes) => void; onGone: () => void },
): Reading {
  const chunks: Uint8Array[] = []
  let arrived = 0
  let tenant: string | undefined
  let isEnding = false

  // Not at once: after each chunk the stream decides to read on, and only after that decision can reading be stopped for good. What
  // arrives until then is collected like the rest.
  function finish(): void {
    if (isEnding) return
    isEnding = true
    clearTimeout(timer)
    setImmediate(passOn)
  }

  function passOn(): void {
    if (socket.destroyed) return
    socket.off('data', onData).off('end', onEnd).off('close', onClose).pause()
    stopReading(socket)
    onRead({ bytes: Buffer.concat(chunks), tenant })
  }

  function onData(chunk: Buffer): void {
    chunks.push(chunk)
    if (isEnding) return
    arrived += chunk.length
    // Only a line feed ends a head. A client that sends byte by byte must not cost a search for each of them.
    if (chunks.length > 1 && arrived < MOST_HEAD_BYTES && !chunk.includes(LINE_FEED)) return
    const head = readRequestHead(Buffer.concat(chunks))
    if (!head) return
    tenant = head.tenant
    finish()
  }

  function onEnd(): void {
    if (chunks.length === 0) socket.destroy()
    else finish()
  }

  function onClose(): void {
    clearTimeout(timer)
    onGone()
  }

  const timer = setTimeout(finish, MOST_MS)
  socket.on('error', () => undefined) // `close` follows
  socket.on('data', onData).on('end', onEnd).on('close', onClose)
  return { finish }
}

/** Stops the system's reading too. `pause()` alone stops only the events: what arrived afterwards would be read here, and be lost. */
function stopReading(socket: Socket): void {
  const { _handle: handle } = socket as unknown as { _handle: { reading: boolean; readStop(): number } | null }
  if (!handle) return
  handle.reading = false
  handle.readStop()
}
