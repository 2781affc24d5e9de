/**
 * Keeps reading after an answer that was sent before its request had arrived, such as the refusal of a body that is too large. A connection
 * that is closed at once would be reset, and a client that sends its whole body before it reads would never see the answer.
 */
import type { IncomingMessage } from 'node:http'

/** Twice the largest body: no client sends more by mistake. */
const MOST_BYTES = 16_777_216
const MOST_MS = 10_000

/** Discards the rest of a request until it has arrived or is too long; only then the connection may be closed. */
export function linger(request: IncomingMessage): void {
  const { socket } = request
  let left = MOST_BYTES
  let isLast = false
  const timer = setTimeout(() => socket.destroy(), MOST_MS)
  timer.unref()
  // Node calls it when the last answer has been sent.
  socket.destroySoon = () => {
    isLast = true
    socket.end()
  }
  request.on('data', (chunk: Uint8Array) => {
    left -= chunk.length
    if (left < 0) socket.destroy()
  })
  request.once('end', () => {
    clearTimeout(timer)
    delete (socket as { destroySoon?: unknown }).destroySoon
    if (isLast) socket.destroySoon()
  })
  request.once('close', () => clearTimeout(timer))
  request.resume()
}
