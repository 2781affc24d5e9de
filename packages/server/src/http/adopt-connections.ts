/** Lets a server serve connections that another process accepted, whose first bytes that process may have read. */
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'

/**
 * Returns the function that takes a connection over, with the bytes that were read of it. The server never listens itself; everything else
 * is as for a connection that it accepted. To be called when the application is ready.
 */
export function adoptConnections({ server }: FastifyInstance): (socket: Socket, bytes: Uint8Array) => void {
  server.emit('listening') // from then on Node watches the timeouts of a server's connections
  return (socket, bytes) => {
    socket.allowHalfOpen = true // these two as Node's HTTP server makes the connections that it accepts
    socket.setNoDelay(true)
    if (bytes.length > 0) socket.unshift(bytes)
    server.emit('connection', socket)
  }
}
