/** How a server that was told to stop ends within its time. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type { Installation } from '../installation.js'
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

/** Closes the server, and ends the process when that is done or has taken too long. */
export function closeAndExit({ app, installation }: Pick<Server, 'app' | 'installation'>): void {
  setTimeout(() => leave(app, installation), STOP_DEADLINE_MS).unref()
  app.close().then(
    () => process.exit(), // connections that are still open do not delay the exit
    (error: unknown) => {
      app.log.error({ err: error }, 'stopping failed')
      process.exitCode = 1
    },
  )
}

async function leave(app: FastifyInstance, installation: Installation): Promise<never> {
  app.log.error('did not stop in time')
  await Promise.race([installation.close(), sleep(CLOSE_DEADLINE_MS)]).catch(() => undefined)
  process.exit(1)
}
