// A proxy in front of a database, whose sockets a test can hold, cut or listen in on.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type NetConnectOpts, type Socket } from 'node:net'

/**
 * Makes a proxy in front of a database at a port or at a unix socket. Where one end of a connection closes, so does the other.
 * @param forward passes on what either end sends
 */
export function socketProxy(target: NetConnectOpts, forward: (client: Socket, database: Socket) => void) {
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const database = connect(target)
    for (const socket of [client, database]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        database.destroy()
      })
    }
    forward(client, database)
  })
  return {
    /** the open ones, of both ends */
    sockets,
    /** Takes connections at a port, or at a free one; returns it. */
    async listen(port = 0): Promise<number> {
      server.listen(port, '127.0.0.1')
      await once(server, 'listening')
      return (server.address() as AddressInfo).port
    },
    /** Ends all connections and takes no more of them. */
    async close(): Promise<void> {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
