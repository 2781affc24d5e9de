/** Ends the connections when the server stops: it waits for calls, not for clients. */
import type { Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import { acceptWaiting } from './accept-waiting.js'
import { linger } from './delayed-close.js'

/** How long a connection without a call may still begin one after the server stops, because its request may be on the way. In milliseconds. */
const LAST_CALL_MS = 500
/** How long calls under way may continue after the server stops; a slow reader or a stalled body is then cut off. In milliseconds. */
const GRACE_MS = 5_000

interface Connection {
  /** calls that arrived and are not answered yet; several if the client pipelines */
  calls: number
  /** bytes that had arrived when the last call was answered; any more bytes begin another call */
  readBefore: number
}

/**
 * Closes the connections when the application closes: those without a call half a second later, the others when their call is answered,
 * and all that remain after five seconds. A call counts from its first byte on. Node and the framework would close idle connections at once,
 * whose next request may have arrived already and would be reset, and would wait for clients that never send or never read. Once the server
 * begins to stop, each answer asks its client to reconnect, so that a balancer can send it elsewhere.
 */
export function endConnections(app: FastifyInstance, isStopping: () => boolean): void {
  const open = new Map<Socket, Connection>()
  let isClosing = false
  let onNone: (() => void) | undefined
  const timers: NodeJS.Timeout[] = []
  app.server.closeIdleConnections = () => undefined

  app.server.on('connection', (socket: Socket) => {
    // Bytes that came with the connection, which another process read, are not in `bytesRead`, and begin a call as well.
    open.set(socket, { calls: 0, readBefore: socket.readableLength > 0 ? -1 : 0 })
    socket.once('close', () => {
      open.delete(socket)
      if (open.size === 0) onNone?.()
    })
  })
  app.addHook('onRequest', (request, _, done) => {
    const connection = open.get(request.raw.socket)
    if (connection) connection.calls += 1
    done()
  })
  app.addHook('onSend', (request, reply, payload, done) => {
    const connection = open.get(request.raw.socket)
    const isLast = (connection?.calls ?? 1) <= 1
    // Not while the server closes and still listens: a new connection may then be reset before it is accepted.
    const isLeaving = isClosing ? !app.server.listening : isStopping()
    if (isLeaving && isLast) reply.header('connection', 'close')
    if (connection && !request.raw.complete) linger(request.raw)
    done(null, payload)
  })
  app.addHook('onResponse', ({ raw: { socket } }, _, done) => {
    const connection = open.get(socket)
    if (connection) {
      connection.calls -= 1
      connection.readBefore = socket.bytesRead
    }
    done()
  })
  app.addHook('preClose', async () => {
    isClosing = true
    const from = performance.now()
    const closeIdle = async () => {
      await turn() // reads first what has reached the kernel
      for (const [socket, { calls, readBefore }] of open) {
        if (calls === 0 && socket.bytesRead === readBefore) socket.destroy()
      }
    }
    timers.push(
      setInterval(() => performance.now() - from >= LAST_CALL_MS && void closeIdle(), LAST_CALL_MS / 5),
      setTimeout(() => {
        for (const socket of open.keys()) socket.destroy()
      }, GRACE_MS),
    )
    await acceptWaiting(app.server)
    // A server that listens waits for its connections itself; those that were handed to it (`adoptConnections`) it does not know.
    if (app.server.listening || open.size === 0) return
    await new Promise<void>((resolve) => {
      onNone = resolve
    })
  })
  app.addHook('onClose', async () => {
    for (const timer of timers) clearTimeout(timer)
  })
}
