/** How a server that was told to stop ends in time. */
import { isSinkStuck } from '../../guard/jobs/emit-checkpoints.js'
import type { Server } from '../../server.js'

const STOP_SIGNALS = ['SIGINT', 'SIGTERM'] as const
/** How long a closing server takes to end at most, as the guide for operators says. In milliseconds. */
const CLOSED_MS = 10_000
/** How much earlier the process ends than that, in milliseconds: a busy machine may delay its timers. */
const SPARE_MS = 500
// Milliseconds for the database to close: unclosed, the embedded one would leave its socket and lock behind.
const CLOSE_DEADLINE_MS = 1_000
// Milliseconds for calls, which are cut off after five seconds, jobs and the last checkpoints: behind locked tables
// several statements in a row wait four seconds each.
const STOP_DEADLINE_MS = CLOSED_MS - SPARE_MS - CLOSE_DEADLINE_MS

/** A second signal ends the process at once. SIGHUP reloads, but on a terminal, which was closed then, it stops. */
export function onSignals({ stop, reload }: { stop: (signal: NodeJS.Signals) => void; reload: () => void }): void {
  const signals = process.stdin.isTTY ? ([...STOP_SIGNALS, 'SIGHUP'] as const) : STOP_SIGNALS
  const once = (signal: NodeJS.Signals) => {
    for (const name of signals) process.off(name, once)
    stop(signal)
  }
  for (const name of signals) process.on(name, once)
  if (!process.stdin.isTTY) process.on('SIGHUP', reload)
}

type Closing = Pick<Server, 'app' | 'installation' | 'keepWitnessed'>

/** Ends the process when the server is closed, or that has taken too long. */
export function closeAndExit(server: Closing): void {
  const { app } = server
  setTimeout(() => leave(server), STOP_DEADLINE_MS).unref()
  app.close().then(
    () => exit(), // connections that are still open do not delay the exit
    (error: unknown) => {
      app.log.error({ err: error }, 'stopping failed')
      process.exitCode = 1
    },
  )
}

// The logs' ends are written first: otherwise an attacker who blocks the database could truncate the logs.
async function leave({ app, installation, keepWitnessed }: Closing): Promise<never> {
  app.log.error('did not stop in time')
  setTimeout(() => exit(1), CLOSE_DEADLINE_MS)
  await keepWitnessed()
    .then(() => installation.close())
    .catch(() => undefined)
  return exit(1)
}

// A system call that does not return holds a thread that `process.exit` waits for.
function exit(code?: number): never {
  if (isSinkStuck()) process.kill(process.pid, 'SIGKILL')
  process.exit(code)
}
