// A proxy in front of a database that can stop forwarding in both directions, as a broken network route does: connections stay
// open, and nothing is answered.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export interface StallingProxy {
  /** the URL that reaches the database through the proxy */
  url: string
  /** how many sockets are open */
  open(): number
  stall(): void
  resume(): void
  close(): Promise<void>
}

/** Starts a proxy in front of the database at a URL. */
export async function startStallingProxy(databaseUrl: string): Promise<StallingProxy> {
  const url = new URL(databaseUrl)
  const target = { host: url.hostname, port: Number(url.port) }
  const sockets = new Set<Socket>()
  let isStalled = false
  const server = createServer((client) => {
    const database = connect(target)
    client.pipe(database).pipe(client)
    for (const socket of [client, database]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        database.destroy()
      })
      if (isStalled) hold(socket)
    }
  })
  const hold = (socket: Socket) => {
    socket.pause()
    socket.cork()
  }
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  url.port = String((server.address() as AddressInfo).port)
  return {
    url: url.href,
    open: () => sockets.size,
    stall() {
      isStalled = true
      for (const socket of sockets) hold(socket)
    },
    resume() {
      isStalled = false
      for (const socket of sockets) {
        socket.uncork()
        socket.resume()
      }
    },
    async close() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
