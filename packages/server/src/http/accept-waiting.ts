/** Accepts the connections that wait in the kernel when a server is about to close. */
import type { Server } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'

/** When it ends even though clients connect without a pause, in milliseconds. */
const MOST_MS = 500

/**
 * Waits until no connection is left for the server to accept; the system resets those that are left when it
 * closes. libuv accepts one connection in each turn of the event loop. A connection that arrives after the
 * last turn can still be reset, so the caller closes at once.
 */
export async function acceptWaiting(server: Server): Promise<void> {
  const from = performance.now()
  let accepted = 0
  const count = () => {
    accepted += 1
  }
  server.on('connection', count)
  for (let before = -1; before !== accepted && performance.now() - from < MOST_MS; ) {
    before = accepted
    await turn() // the first turn may begin before the event loop has looked for connections
    await turn()
  }
  server.off('connection', count)
}
