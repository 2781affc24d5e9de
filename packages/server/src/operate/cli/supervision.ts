/** How the server obeys its supervisor: it ends in time when told to stop, and reports its state to systemd. */
import { execFile } from 'node:child_process'
import type { Log } from '@eaas/audit/node'
import type { ServiceManager } from '../../core/config.js'
import { isSinkStuck } from '../../guard/jobs/emit-checkpoints.js'
import type { Server } from '../../server.js'

const STOP_SIGNALS = ['SIGINT', 'SIGTERM'] as const
/** In milliseconds, the longest time that a closing server takes to end, as the guide for operators states. */
const CLOSED_MS = 10_000
/** In milliseconds, how much earlier the process ends: a busy machine may delay its timers. */
const SPARE_MS = 500
// In milliseconds, for the database to close: otherwise the embedded one would leave its socket and lock behind.
const CLOSE_DEADLINE_MS = 1_000
// In milliseconds, for jobs, the last checkpoints, and calls, which are cut off after five seconds. Behind locked
// tables, several statements in a row wait four seconds each.
const STOP_DEADLINE_MS = CLOSED_MS - SPARE_MS - CLOSE_DEADLINE_MS

/** A second signal ends the process at once. SIGHUP reloads, but on a terminal, which was then closed, it stops. */
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

// Writes the logs' ends first: otherwise an attacker who blocks the database could truncate the logs.
async function leave({ app, installation, keepWitnessed }: Closing): Promise<never> {
  app.log.error('did not stop in time')
  setTimeout(() => exit(1), CLOSE_DEADLINE_MS)
  await keepWitnessed()
    .then(() => installation.close())
    .catch(() => undefined)
  return exit(1)
}

// A system call that does not return blocks a thread for which `process.exit` waits.
function exit(code?: number): never {
  if (isSinkStuck()) process.kill(process.pid, 'SIGKILL')
  process.exit(code)
}

/** In milliseconds, for the program, which waits until systemd has read the message. */
const PATIENCE_MS = 5_000
const MESSAGES = 3 // in the watchdog's time, as one of them may fail or be late

interface Notifier {
  /** The server serves calls. From now on, systemd is told that it is alive. */
  ready(): void
  /** The server stops, which may take as long as the unit's `TimeoutStopSec`. */
  stopping(): void
}

/** Creates the notifier, which does nothing without a service manager. */
export function createNotifier(manager: ServiceManager | undefined, log: Pick<Log, 'error'>): Notifier {
  if (!manager) return { ready: () => undefined, stopping: () => undefined }
  const { socket, watchdogMs } = manager
  let isFailing = false

  // The program gets nothing of this process's environment, which may contain the root key; without PATH, it is in /bin.
  function send(message: string): void {
    const env = { NOTIFY_SOCKET: socket }
    execFile('systemd-notify', [message], { env, timeout: PATIENCE_MS }, (err) => {
      const untold = 'systemd could not be told by systemd-notify how the server is, and may end it'
      if (err && !isFailing) log.error({ err, message }, untold)
      isFailing = err !== null
    })
  }

  return {
    ready() {
      send('READY=1')
      // While the event loop is blocked, a timer of this thread sends nothing, as intended. It also runs during the stop.
      if (watchdogMs !== undefined) setInterval(send, watchdogMs / MESSAGES, 'WATCHDOG=1').unref()
    },
    stopping: () => send('STOPPING=1'),
  }
}
