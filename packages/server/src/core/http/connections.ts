/**
 * Closes connections when the server stops, which waits for calls but not for clients, and when a client does not read
 * its answers. Closing a connection frees the memory that its calls hold.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Server, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { Server as TlsServer } from 'node:tls'
import type { Holding } from '@eaas/protocol'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { endWithoutAnswer, linger, sendParserError } from './early-answers.js'
import { WITHDRAWN } from './tls-listener.js'

/** When the server stops, a connection may begin a call for this long: its request may be on the way. */
const LAST_CALL_MS = 500
/** After that, calls may continue for this long; a slow reader or a stalled body is then cut off. */
const GRACE_MS = 5_000
/** How long a client may leave an answer, which holds memory, unread. Node notices after one to two times as long. */
const UNREAD_MS = 30_000
/** Calls under way on one connection. Each holds memory, and a client may pipeline any number. */
const MOST_CALLS = 100
/** How long a stopping server accepts waiting connections if clients keep connecting. */
const MOST_ACCEPTING_MS = 500

declare module 'fastify' {
  interface FastifyRequest {
    /** what the body and the answer of an admitted call hold */
    holding: Holding | null
  }
}

interface Connection {
  calls: number // arrived and not yet answered; several if the client pipelines
  waiting: (() => void)[] // begin the calls behind the first, each once the call before it is answered
  isUnused: boolean // its first call is still to come
  readBefore: number // bytes that had arrived when the last call was answered; any further byte begins another call
  isWithdrawn: boolean // it takes no more calls: its certificate is no longer accepted, or it sent bytes that are not a request
  newest?: { request: IncomingMessage; response: ServerResponse } | undefined // until both have ended: its headers have an API key
}

const PARSER_ERROR = 'parserError'

/** Handles bytes after the handshake that are not a request: the calls before them are answered first. */
export function onParserError(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (!socket.emit(PARSER_ERROR, error)) sendParserError(error, socket)
}

/**
 * Closes all connections when the application closes: after half a second those without a call, the others once their
 * call is answered, and all that remain after five seconds. A call begins with its first byte. Node and the framework
 * would reset requests that may already have arrived, and wait for clients that never send or read. While the server
 * stops, each answer asks its client to reconnect. Also closes connections with unread answers.
 */
export function endConnections(app: FastifyInstance, isStopping: () => boolean, { unreadMs = UNREAD_MS } = {}): void {
  const open = new Map<Socket, Connection>()
  let isClosing = false
  const timers: NodeJS.Timeout[] = []
  app.server.closeIdleConnections = () => undefined

  // A connection without traffic stays open while the server works on its call, or while its first call is still to come.
  app.server.timeout = unreadMs
  app.server.on('timeout', (socket: Socket) => {
    const { calls = 0, isUnused = false } = open.get(socket) ?? {}
    if (socket.writableLength === 0 && (calls > 0 || isUnused)) socket.setTimeout(unreadMs)
    else socket.destroy()
  })

  // Under TLS, calls arrive on the socket that the handshake creates.
  const isTls = app.server instanceof TlsServer
  app.server.on(isTls ? 'secureConnection' : 'connection', (socket: Socket) => {
    // Read now, and kept by Node: once a connection is reset, the system no longer knows its address, and its call
    // would be recorded without an origin.
    if (socket.remoteAddress === undefined && typeof app.server.address() !== 'string') return socket.destroy()
    const unused = { calls: 0, waiting: [], isUnused: true, isWithdrawn: false }
    const connection: Connection = { ...unused, readBefore: socket.bytesRead }
    open.set(socket, connection)
    socket.once(WITHDRAWN, () => {
      connection.isWithdrawn = true
      if (connection.calls === 0) socket.destroy()
    })
    socket.on(PARSER_ERROR, (error: NodeJS.ErrnoException) => {
      const { calls, newest } = connection
      const isInside = newest?.request.complete === false
      const isUnanswered = calls === 1 && isInside && !newest.response.headersSent
      if (calls === 0 && isInside)
        endWithoutAnswer(socket) // the call has its answer
      else if (calls === 0 || isUnanswered) sendParserError(error, socket)
      else connection.isWithdrawn = true // closes it after the answer to the call under way
    })
    socket.once('close', () => open.delete(socket))
  })
  const handshakes = new Set<Socket>()
  if (isTls) {
    app.server.on('connection', (socket: Socket) => {
      handshakes.add(socket)
      socket.once('close', () => handshakes.delete(socket))
    })
  }
  app.addHook('onRequest', (request, reply, done) => {
    const connection = open.get(request.raw.socket)
    if (!connection) return done()
    connection.newest = { request: request.raw, response: reply.raw }
    connection.calls += 1
    connection.isUnused = false
    if (connection.calls > MOST_CALLS)
      request.raw.socket.destroy() // nobody would read an answer
    else if (connection.calls > 1) connection.waiting.push(done)
    else done()
  })
  app.addHook('onSend', (request, reply, payload, done) => {
    const connection = open.get(request.raw.socket)
    const isLast = (connection?.calls ?? 1) <= 1
    // Not between closing and the end of listening: a new connection may then be reset before it is accepted.
    const isLeaving = isClosing ? !app.server.listening : isStopping()
    // Since the upgrade is not made, the protocol of the next bytes is unclear.
    const asksUpgrade = request.headers.upgrade !== undefined
    if ((isLeaving && isLast) || asksUpgrade || connection?.isWithdrawn) reply.header('connection', 'close')
    if (connection && !request.raw.complete) linger(request.raw)
    done(null, payload)
  })
  app.addHook('onResponse', ({ raw: { socket, complete } }, reply, done) => {
    const connection = open.get(socket)
    if (connection) {
      connection.calls -= 1
      if (complete && connection.calls === 0) connection.newest = undefined
      connection.readBefore = socket.bytesRead
      if (connection.isWithdrawn) socket.destroySoon()
      // No call begins after an answer that closes the connection: its client would never learn the outcome (RFC 9112 9.6).
      else if (reply.raw.shouldKeepAlive && reply.getHeader('connection') !== 'close') connection.waiting.shift()?.()
    }
    done()
  })
  app.addHook('preClose', async () => {
    isClosing = true
    await stopListening(app.server)
    const from = performance.now()
    const closeIdle = async () => {
      await turn() // first reads what the kernel has received
      for (const [socket, { calls, readBefore }] of open) {
        if (calls === 0 && socket.bytesRead === readBefore) socket.destroy()
      }
    }
    timers.push(
      setInterval(() => performance.now() - from >= LAST_CALL_MS && void closeIdle(), LAST_CALL_MS / 5),
      setTimeout(() => {
        for (const socket of [...open.keys(), ...handshakes]) socket.destroy()
      }, GRACE_MS),
    )
  })
  app.addHook('onClose', async () => {
    for (const timer of timers) clearTimeout(timer)
  })
}

/**
 * Accepts connections, one in each turn of the event loop, until none waits, and then stops listening: the system resets
 * those that wait. It stops within the last turn, since another one may arrive after it.
 */
export async function stopListening(server: Server): Promise<void> {
  const from = performance.now()
  let accepted = 0
  const count = () => {
    accepted += 1
  }
  server.on('connection', count)
  for (let before = -1; before !== accepted && performance.now() - from < MOST_ACCEPTING_MS; ) {
    before = accepted
    await turn() // the first turn may begin before the event loop has looked for connections
    await turn()
  }
  server.close()
  server.off('connection', count)
}

/** For the last call of a connection; the calls before it are answered. */
const underWay = new WeakMap<Socket, Holding>()

export function endHoldings(app: FastifyInstance): void {
  app.decorateRequest('holding', null)
  app.addHook('onResponse', ({ holding }, _, done) => {
    holding?.end()
    done()
  })
}

/** Ties a holding to a request: it ends when the request is answered or its connection closes. */
export function beginHolding(request: FastifyRequest, holding: Holding): void {
  const { socket } = request.raw
  request.holding = holding
  if (socket.destroyed) return void holding.end() // the client left during admission, so no close event follows
  if (!underWay.has(socket)) socket.once('close', () => underWay.get(socket)?.end())
  underWay.set(socket, holding)
}

/**
 * Sends the head of an answer by itself if a 100 precedes it. While the previous answer on the connection is being sent,
 * Node queues both, and puts a head whose body begins with bytes first: the 100 would then be inside the body.
 */
export function continueInOrder(app: FastifyInstance): void {
  app.server.on('checkContinue', (request, answer: Parameters<RequestListener>[1]) => {
    answer.writeContinue()
    const { writeHead } = answer
    answer.writeHead = (...head: unknown[]) => {
      Reflect.apply(writeHead, answer, head)
      answer.flushHeaders()
      return answer
    }
    app.server.emit('request', request, answer)
  })
}
