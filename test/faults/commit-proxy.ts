// A proxy in front of a database that can be switched to turn COMMIT into ROLLBACK. The database then answers a COMMIT with the tag
// ROLLBACK, as it does after a failed transaction.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type NetConnectOpts, type Socket } from 'node:net'

/** Both have the same length, so that the message's length field stays right. */
const COMMIT = 'commit\0'
const ROLLBACK = 'abort;\0'

export interface CommitProxy {
  port: number
  rollsBack: boolean
  close(): Promise<void>
}

/** Starts a proxy in front of a database at a port or at a unix socket. */
export async function startCommitProxy(target: NetConnectOpts): Promise<CommitProxy> {
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const database = connect(target)
    for (const socket of [client, database]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        client.destroy()
        database.destroy()
      })
    }
    client.on('data', (chunk) => database.write(proxy.rollsBack ? withoutCommit(chunk) : chunk))
    database.pipe(client)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const proxy: CommitProxy = {
    port: (server.address() as AddressInfo).port,
    rollsBack: false,
    async close() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
  return proxy
}

function withoutCommit(chunk: Buffer): Buffer {
  return Buffer.from(chunk.toString('latin1').replaceAll(COMMIT, ROLLBACK), 'latin1')
}
