/** The primary process of a server with several workers: it owns the port, reads who a connection is from, and serves nothing itself. */
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import type { Config } from '../config.js'
import { acceptWaiting } from '../http/accept-waiting.js'
import { logWithoutApp } from '../logger.js'
import { type Reading, readFirstBytes } from './first-bytes.js'
import { createGroup, type Group, type GroupOptions } from './group.js'

export interface Primary {
  /** where it listens */
  address: AddressInfo
  /** Has the first worker create the first tenant, and say where the server is. @throws WorkerEndedError */
  greet(url: string): Promise<void>
  /** Has /health turn callers away for `drainMs` while all are served, then closes; resolves to the exit code. */
  stop(drainMs: number): Promise<number>
  /** Ends every worker at once. */
  kill(): void
}

/**
 * Starts the workers, and listens when they are ready.
 *
 * @throws WorkerEndedError, or the system's error about the address; no worker is left then
 */
export async function startPrimary(
  { host, port, workers, logLevel }: Pick<Config, 'host' | 'port' | 'workers' | 'logLevel'>,
  { commandOf, onGiveUp }: Pick<GroupOptions, 'commandOf' | 'onGiveUp'>,
): Promise<Primary> {
  const group = createGroup({
    size: workers,
    commandOf,
    onGiveUp,
    log: (level, details, message) => logWithoutApp(logLevel, level, details, message),
  })
  const reading = new Set<Reading>()
  const server = createReader(group, reading)
  try {
    await group.start()
    server.listen({ host, port })
    await once(server, 'listening')
    // Accepting failed, for want of file descriptors for example. The connections that there are go on, and so does accepting.
    server.on('error', (error) => logWithoutApp(logLevel, 'error', { err: error }, 'accepting a connection failed'))
  } catch (error) {
    await group.close()
    throw error
  }
  return {
    address: server.address() as AddressInfo,
    async greet(url) {
      try {
        await group.greet(url)
      } catch (error) {
        server.close()
        await group.close()
        throw error
      }
    },
    async stop(drainMs) {
      group.drain()
      if (drainMs > 0) await sleep(drainMs)
      await acceptWaiting(server)
      server.close()
      for (const each of reading) each.finish()
      await turn() // they are passed on now
      return group.close()
    },
    kill: () => group.kill(),
  }
}

/** Creates the server that reads the first bytes of each connection, and passes it on. */
function createReader(group: Group, reading: Set<Reading>): Server {
  // A client may end its side after its request, and still waits for the answer.
  return createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    const each = readFirstBytes(socket, {
      onRead({ bytes, tenant }) {
        reading.delete(each)
        group.pass({ socket, bytes, tenant })
      },
      onGone: () => reading.delete(each),
    })
    reading.add(each)
  })
}
