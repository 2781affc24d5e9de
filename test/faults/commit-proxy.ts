// A proxy in front of a database that can be switched to turn COMMIT into ROLLBACK, or to lose the answer to a COMMIT. In the first case
// the database answers with the tag ROLLBACK, as it does after a failed transaction.
import type { NetConnectOpts } from 'node:net'
import { socketProxy } from './socket-proxy.js'

/** Both have the same length, so that the message's length field stays right. */
const COMMIT = 'commit\0'
const ROLLBACK = 'abort;\0'

export interface CommitProxy {
  port: number
  rollsBack: boolean
  /** a text in a transaction whose COMMIT reaches the database, while the connection ends without the answer */
  losesAnswerTo?: string
  close(): Promise<void>
}

/** Starts a proxy in front of a database at a port or at a unix socket. */
export async function startCommitProxy(target: NetConnectOpts): Promise<CommitProxy> {
  const { listen, close } = socketProxy(target, (client, database) => {
    let isAwaited = false
    client.on('data', (chunk) => {
      const text = chunk.toString('latin1')
      if (proxy.losesAnswerTo !== undefined && text.includes(proxy.losesAnswerTo)) isAwaited = true
      if (isAwaited && text.includes(COMMIT)) {
        database.unpipe(client)
        database.once('data', () => client.destroy()).resume()
      }
      database.write(proxy.rollsBack ? withoutCommit(chunk) : chunk)
    })
    database.pipe(client)
  })
  const proxy: CommitProxy = { port: await listen(), rollsBack: false, close }
  return proxy
}

function withoutCommit(chunk: Buffer): Buffer {
  return Buffer.from(chunk.toString('latin1').replaceAll(COMMIT, ROLLBACK), 'latin1')
}
