/** What becomes of the connections when the server stops: it waits for calls, not for clients. */
import type { Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import { linger } from './linger.js'

/** How long calls under way may go on once the server stops; a slow reader's or a stalled body's is cut then. In milliseconds. */
const GRACE_MS = 5_000

interface Connection {
  /** calls that arrived and are not answered yet: several where the client does not wait for the answers */
  calls: number
  /** bytes that had arrived when the last call was answered; more than that is the beginning of another one */
  readBefore: number
}

/**
 * Closes the connections when the application closes: those without a call at once, the others when their call is answered, and
 * all that is left after five seconds. A call counts from its first byte on. The framework closes idle ones only, and would wait for
 * what never speaks, or never reads. While the server is stopping, but not closed yet, each answer asks its client to connect anew, so
 * that a balancer can send it elsewhere.
 */
export function endConnections(app: FastifyInstance, isStopping: () => boolean): void {
  const open = new Map<Socket, Connection>()
  let isClosing = false
  let cut: NodeJS.Timeout | undefined

  app.server.on('connection', (socket: Socket) => {
    open.set(socket, { calls: 0, readBefore: 0 })
    socket.once('close', () => open.delete(socket))
  })
  app.addHook('onRequest', (request, _, done) => {
    const connection = open.get(request.raw.socket)
    if (connection) connection.calls += 1
    done()
  })
  app.addHook('onSend', (request, reply, payload, done) => {
    const isLast = (open.get(request.raw.socket)?.calls ?? 1) <= 1
    if ((isClosing || isStopping()) && isLast) reply.header('connection', 'close')
    if (!request.raw.complete) linger(request.raw)
    done(null, payload)
  })
  app.addHook('onResponse', ({ raw: { socket } }, _, done) => {
    const connection = open.get(socket)
    if (connection) {
      connection.calls -= 1
      connection.readBefore = socket.bytesRead
      if (isClosing && connection.calls === 0) socket.end() // its header may have left before
    }
    done()
  })
  app.addHook('preClose', async () => {
    isClosing = true
    // What has reached the kernel is read and accepted in the next turn: a connection that is reset now would lose it.
    await turn()
    await turn()
    for (const [socket, { calls, readBefore }] of open) {
      if (calls === 0 && socket.bytesRead === readBefore) socket.destroy()
    }
    cut = setTimeout(() => {
      for (const socket of open.keys()) socket.destroy()
    }, GRACE_MS)
  })
  app.addHook('onClose', async () => clearTimeout(cut))
}
