/** HTTP around a witness: `POST /add-checkpoint` and nothing else (cosignature.md 3 and 4). */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { collectBytes, createHeldBytes, type Holding, MAX_PIECES, TOO_MANY_PIECES } from '@eaas/protocol'
import { MAX_REQUEST_BYTES, SIZE_TYPE } from '../formats/cosignature.js'
import type { Log } from '../node/log.js'
import { LostDirectoryError } from './directory.js'
import { WitnessRefusal } from './judge.js'
import { UnwrittenStateError, type Witness } from './witness.js'

const PATH = '/add-checkpoint'
const TEXT = 'text/plain; charset=utf-8'
/** How long a request's headers, and the whole request, may take to arrive, in milliseconds. */
const HEADERS_TIMEOUT_MS = 5_000
const REQUEST_TIMEOUT_MS = 15_000
const TIMEOUT_CHECK_MS = 1_000
const KEEP_ALIVE_MS = 60_000
const MOST_CONNECTIONS = 256
/** Bytes that open requests may hold in total, and from one address. Each counts as the longest body. */
const PROCESS_BYTES = 64 * MAX_REQUEST_BYTES
const ADDRESS_BYTES = PROCESS_BYTES / 4
/** How long each piece of a body keeps its room after the answer, in milliseconds; reading it takes a hundredth of that. */
const PIECE_MS = 1
/** How long the last lines of the log may take to be read, in milliseconds. */
const LOGGED_MS = 1_000

type Answer = { status: number; body: string; type?: string; headers?: Record<string, string> }

/** Thrown for a request that is answered before its body was read completely. */
class UnreadBody extends Error {
  override readonly name = 'UnreadBody'

  constructor(readonly answer: Answer) {
    super(answer.body)
  }
}

const BUSY: Answer = { status: 503, body: 'busy\n', headers: { 'retry-after': '1' } }

/** Creates the server, which does not listen yet. `end` is called if the witness's directory is lost. */
export function createWitnessServer(witness: Witness, log: Log, end: () => void = endProcess): Server {
  const hold = createHeldBytes<[address: string]>([PROCESS_BYTES, ADDRESS_BYTES], () => new UnreadBody(BUSY))
  const server = createServer(
    {
      headersTimeout: HEADERS_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      connectionsCheckingInterval: TIMEOUT_CHECK_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
    },
    async (request, response) => {
      const holding = hold(request.socket.remoteAddress ?? '')
      let pieces = 0
      const onPiece = () => ++pieces
      try {
        const answer = await answerTo(request, witness, { log, end, holding, onPiece })
        if (answer) send(request, response, answer)
      } catch (error) {
        log.error({ error: stackOf(error) }, 'unexpected error')
        request.socket.destroy()
      } finally {
        setTimeout(() => holding.end(), pieces * PIECE_MS).unref()
      }
    },
  )
  server.maxConnections = MOST_CONNECTIONS
  return server
}

/** Finds the answer; undefined if the connection ended before the end of the body. */
async function answerTo(
  request: IncomingMessage,
  witness: Witness,
  { holding, onPiece, ...failing }: { log: Log; end: () => void; holding: Holding; onPiece: () => number },
): Promise<Answer | undefined> {
  if (request.url !== PATH) return { status: 404, body: `a witness answers POST ${PATH} only\n` }
  if (request.method !== 'POST') return { status: 405, body: 'use POST\n', headers: { allow: 'POST' } }
  let body: Uint8Array
  try {
    holding.take(MAX_REQUEST_BYTES)
    body = await readBody(request, onPiece)
  } catch (error) {
    return error instanceof UnreadBody ? error.answer : undefined
  }
  try {
    return { status: 200, body: await witness.addCheckpoint(body) }
  } catch (error) {
    return failureAnswer(error, failing)
  }
}

function failureAnswer(error: unknown, { log, end }: { log: Log; end: () => void }): Answer {
  if (error instanceof WitnessRefusal) {
    const { status, message, size } = error
    log.debug({ status, reason: message }, 'did not cosign')
    return size === undefined ? { status, body: `${message}\n` } : { status, body: `${size}\n`, type: SIZE_TYPE }
  }
  if (error instanceof UnwrittenStateError) {
    log.error({ error: String(error.cause) }, 'the state could not be written; nothing was cosigned')
    return { status: 500, body: 'the witness cannot write its state\n' }
  }
  if (error instanceof LostDirectoryError) {
    log.fatal({ error: error.message }, 'the witness ends: its directory is lost')
    end()
    return { status: 500, body: 'the witness lost its directory\n' }
  }
  log.error({ error: stackOf(error) }, 'unexpected error')
  return { status: 500, body: 'unexpected error\n' }
}

/** Ends the process once the log is written, or soon if nothing reads it. */
function endProcess(): void {
  process.exitCode = 1
  setTimeout(() => process.exit(), LOGGED_MS)
  process.stderr.write('', () => process.exit())
}

function stackOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? String(error)) : String(error)
}

/** Reads a body; `onPiece` counts its pieces. @throws UnreadBody if it is refused. Rejects if the connection ends before it */
async function readBody(request: IncomingMessage, onPiece: () => number): Promise<Uint8Array> {
  const tooLong = new UnreadBody({ status: 413, body: `a request has at most ${MAX_REQUEST_BYTES} bytes\n` })
  if (Number(request.headers['content-length'] ?? 0) > MAX_REQUEST_BYTES) throw tooLong
  const body = collectBytes()
  for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    if (onPiece() > MAX_PIECES) throw new UnreadBody({ status: 400, body: `${TOO_MANY_PIECES}\n` })
    if (body.bytes().length + chunk.length > MAX_REQUEST_BYTES) throw tooLong
    body.add(chunk)
  }
  return body.bytes()
}

function send(
  request: IncomingMessage,
  response: ServerResponse,
  { status, body, type = TEXT, headers }: Answer,
): void {
  const isRead = request.complete
  response.writeHead(status, {
    'content-type': type,
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
    ...headers,
    ...(isRead ? {} : { connection: 'close' }),
  })
  response.end(body, () => {
    if (!isRead) request.destroy() // drops the rest of an unread body
  })
}
