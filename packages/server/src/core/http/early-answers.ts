/**
 * Answers that are sent before a request has arrived, or to bytes that are not a request. Then the rest is read:
 * closing at once would reset the connection, and a client that sends its whole body before it reads would never see
 * the answer.
 */
import type { IncomingMessage } from 'node:http'
import type { Duplex, Readable } from 'node:stream'
import {
  createPieceCount,
  DETAILS,
  PROBLEM_CONTENT_TYPE,
  PROBLEMS,
  type ProblemCode,
  problemDocument,
} from '@eaas/protocol'

const PARSER_ERRORS: Readonly<Record<string, [ProblemCode, string]>> = {
  HPE_HEADER_OVERFLOW: ['E_HEADERS_TOO_LARGE', DETAILS.E_HEADERS_TOO_LARGE.headers],
  ERR_HTTP_REQUEST_TIMEOUT: ['E_REQUEST_TIMEOUT', DETAILS.E_REQUEST_TIMEOUT.request],
}

/** Describes what is wrong with bytes that are not a request; undefined if the connection broke. */
export function findParserProblem({ code = '' }: NodeJS.ErrnoException): [ProblemCode, string] | undefined {
  const known = PARSER_ERRORS[code]
  if (known) return known
  return code.startsWith('HPE_') ? ['E_MALFORMED_REQUEST', 'not a valid HTTP request'] : undefined
}

/** Answers on the bare socket after the HTTP parser has failed, and closes the socket. */
export function sendParserError(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (socket.writableEnded) return // already answered: Node reports each further piece that it cannot parse
  const problem = findParserProblem(error)
  if (!problem || !socket.writable) return void socket.destroy()
  const { status, title } = PROBLEMS[problem[0]]
  const body = JSON.stringify(problemDocument(...problem))
  socket.end(
    `HTTP/1.1 ${status} ${title}\r\ncontent-type: ${PROBLEM_CONTENT_TYPE}\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  )
  discard(socket, socket) // until the client ends the connection
}

/** Closes a connection on which the HTTP parser has failed within a request that is already answered. */
export function endWithoutAnswer(socket: Duplex): void {
  if (socket.writableEnded) return
  socket.end()
  discard(socket, socket)
}

/** Twice the largest body: no client sends more by mistake. */
const MOST_BYTES = 16_777_216
const MOST_MS = 10_000

/** Discards the rest of a request. The connection closes only once the rest has arrived, or is too long. */
export function linger(request: IncomingMessage): void {
  const { socket } = request
  let isLast = false
  // Node calls this once the last answer is sent.
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

/** How fast discarded bytes are read, and how far ahead of that rate: more garbage would delay other calls. */
const BYTES_A_MS = 65_536
const AHEAD_MS = 4
let discardedUntil = 0

/** Discards what arrives, and destroys the socket after too much or too long. Returns a function that lifts the time limit. */
function discard(source: Readable, socket: Duplex): () => void {
  let left = MOST_BYTES
  const isOnePieceTooMany = createPieceCount()
  const timer = setTimeout(() => socket.destroy(), MOST_MS).unref()
  const stop = () => clearTimeout(timer)
  source.on('data', (chunk: Uint8Array) => {
    left -= chunk.length
    if (left < 0 || isOnePieceTooMany()) socket.destroy()
    const now = performance.now()
    discardedUntil = Math.max(now, discardedUntil) + chunk.length / BYTES_A_MS
    if (discardedUntil - now <= AHEAD_MS) return
    source.pause()
    setTimeout(() => source.resume(), discardedUntil - now)
  })
  source.once('close', stop)
  source.resume()
  return stop
}
