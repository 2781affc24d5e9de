/** What becomes of the connections when the server stops: it waits for calls, not for clients. */
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'

/** How long calls under way may go on once the server stops; a slow reader's or a stalled body's is cut then. In milliseconds. */
const GRACE_MS = 5_000

/**
 * Closes the connections when the application closes: those without a call at once, the others when their call is answered, and
 * all that is left after five seconds. The framework closes idle ones only, and would wait for what never speaks, or never reads.
 */
export function endConnections(app: FastifyInstance): void {
  const open = new Set<Socket>()
  const calling = new Set<Socket>()
  let isClosing = false
  let cut: NodeJS.Timeout | undefined

  app.server.on('connection', (socket: Socket) => {
    open.add(socket)
    socket.once('close', () => {
      open.delete(socket)
      calling.delete(socket)
    })
  })
  app.addHook('onRequest', (request, _, done) => {
    calling.add(request.raw.socket)
    done()
  })
  app.addHook('onSend', (_, reply, payload, done) => {
    if (isClosing) reply.header('connection', 'close')
    done(null, payload)
  })
  app.addHook('onResponse', ({ raw: { socket } }, _, done) => {
    calling.delete(socket)
    if (isClosing) socket.end() // its header may have left before
    done()
  })
  app.addHook('preClose', async () => {
    isClosing = true
    for (const socket of open) if (!calling.has(socket)) socket.destroy()
    cut = setTimeout(() => {
      for (const socket of [...open, ...calling]) socket.destroy()
    }, GRACE_MS)
  })
  app.addHook('onClose', async () => clearTimeout(cut))
}
