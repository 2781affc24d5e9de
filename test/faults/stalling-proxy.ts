// A proxy in front of a database that can stop forwarding in both directions, as a broken network route does: connections stay
// open, and nothing is answered.
import type { Socket } from 'node:net'
import { socketProxy } from './socket-proxy.js'

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
  let isStalled = false
  const hold = (socket: Socket) => {
    socket.pause()
    socket.cork()
  }
  const target = { host: url.hostname, port: Number(url.port) }
  const { sockets, listen, close } = socketProxy(target, (client, database) => {
    client.pipe(database).pipe(client)
    if (isStalled) for (const socket of [client, database]) hold(socket)
  })
  url.port = String(await listen())
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
    close,
  }
}
