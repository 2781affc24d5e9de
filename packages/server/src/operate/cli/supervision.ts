/** How the server obeys what supervises it: ends in time when it is told to stop, and tells systemd how it is. */
import { execFile } from 'node:child_process'
import type { Log } from '@eaas/audit/node'
import type { ServiceManager } from '../../core/config.js'
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

/** How long the program may take, in milliseconds: it waits until systemd has read the message. */
const PATIENCE_MS = 5_000
const MESSAGES = 3 // messages in the watchdog's time: one of them may fail or be late

interface Notifier {
  /** The server serves calls; from now on systemd is told that it is alive. */
  ready(): void
  /** The server stops, which may take as long as the unit's `TimeoutStopSec`. */
  stopping(): void
}

/** Creates the notifier; without a service manager it does nothing. */
export function createNotifier(manager: ServiceManager | undefined, log: Pick<Log, 'error'>): Notifier {
  if (!manager) return { ready: () => undefined, stopping: () => undefined }
  const { socket, watchdogMs } = manager
  let isFailing = false

  // The program gets nothing of this process's environment, which may hold the root key; without PATH it is in /bin.
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
      // A timer of this thread sends nothing while the event loop is blocked. It also runs while the server stops.
      if (watchdogMs !== undefined) setInterval(send, watchdogMs / MESSAGES, 'WATCHDOG=1').unref()
    },
    stopping: () => send('STOPPING=1'),
  }
}
