// Tells systemd that the server is ready, alive and stopping, as a unit of `Type=notify` with `WatchdogSec` expects.
// Its socket takes datagrams, which Node cannot send on a unix socket, so systemd's own program sends them.
import { execFile } from 'node:child_process'
import type { Log } from '@eaas/audit/node'
import type { ServiceManager } from '../../core/config.js'

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
