/**
 * Keeps reading after an answer that was sent before its request had arrived, such as the refusal of a body
 * that is too large. A connection that is closed at once would be reset, and a client that sends its whole
 * body before it reads would never see the answer.
 */
import type { IncomingMessage } from 'node:http'
import type { Duplex, Readable } from 'node:stream'
import { createPieceCount } from '@eaas/protocol'

/** Twice the largest body: no client sends more by mistake. */
const MOST_BYTES = 16_777_216
const MOST_MS = 10_000

/**
 * Discards the rest of a request until it has arrived, or is too long or in too many pieces; only then may the
 * connection be closed.
 */
export function linger(request: IncomingMessage): void {
  const { socket } = request
  let isLast = false
  // Node calls it when the last answer has been sent.
  socket.destroySoon = () => {
    isLast = true
    socket.end()
  }
  const stop = discard(request, socket)
  request.once('end', () => {
    stop()
    delete (socket as { destroySoon?: unknown }).destroySoon
    if (isLast) socket.destroySoon()
  })
}

/**
 * Discards what still arrives on a connection after the answer to a request that could not be parsed, until the client
 * ends it.
 */
export function lingerUnparsed(socket: Duplex): void {
  discard(socket, socket)
}

/**
 * Discards what arrives until a time, a length or a number of pieces is exceeded, then destroys the socket. Returns a
 * function that lifts the time limit.
 */
function discard(source: Readable, socket: Duplex): () => void {
  let left = MOST_BYTES
  const isOnePieceTooMany = createPieceCount()
  const timer = setTimeout(() => socket.destroy(), MOST_MS)
  timer.unref()
  const stop = () => clearTimeout(timer)
  source.on('data', (chunk: Uint8Array) => {
    left -= chunk.length
    if (left < 0 || isOnePieceTooMany()) socket.destroy()
  })
  source.once('close', stop)
  source.resume()
  return stop
}
