/** How a server that was told to stop ends within its time. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Server } from '../server.js'

export const STOP_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
/** How long calls under way may take to finish before the process ends nevertheless, in milliseconds. */
const STOP_DEADLINE_MS = 10_000
/** How long the database may then take to close: otherwise the embedded one would leave its socket and lock behind. */
const CLOSE_DEADLINE_MS = 3_000
/** After how long a process that closes has ended, unless it does not run at all. In milliseconds. */
export const CLOSED_MS = STOP_DEADLINE_MS + CLOSE_DEADLINE_MS

/** Calls `stop` at the first signal; a second signal ends the process at once. */
export function onStopSignal(stop: (signal: NodeJS.Signals) => void): void {
  const once = (signal: NodeJS.Signals) => {
    for (const name of STOP_SIGNALS) process.off(name, once)
    stop(signal)
  }
  for (const name of STOP_SIGNALS) process.on(name, once)
}

type Closing = Pick<Server, 'app' | 'installation' | 'keepWitnessed'>

/** Closes the server, and ends the process when that is done or has taken too long. */
export function closeAndExit(server: Closing): void {
  const { app } = server
  setTimeout(() => leave(server), STOP_DEADLINE_MS).unref()
  app.close().then(
    () => process.exit(), // connections that are still open do not delay the exit
    (error: unknown) => {
      app.log.error({ err: error }, 'stopping failed')
      process.exitCode = 1
    },
  )
}

// The database may be what does not answer: where the logs ended is written first, or whoever keeps it from answering could cut them off.
async function leave({ app, installation, keepWitnessed }: Closing): Promise<never> {
  app.log.error('did not stop in time')
  const closed = keepWitnessed().then(() => installation.close())
  await Promise.race([closed, sleep(CLOSE_DEADLINE_MS)]).catch(() => undefined)
  process.exit(1)
}
