/** Cleanup before this process ends, in any way except SIGKILL. */
import { constants } from 'node:os'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
const left = new Set<() => void>()

/**
 * Calls the synchronous `clean` if this process ends, by a signal or by `process.exit`, before the returned function is
 * called. A signal with another listener, such as a server's, does not end the process yet.
 */
export function beforeEnd(clean: () => void): () => void {
  if (left.size === 0) {
    for (const name of SIGNALS) process.prependListener(name, onSignal) // before the other listeners, which it counts
    process.on('exit', cleanAll)
  }
  left.add(clean)
  return () => release(clean)
}

function release(clean: () => void): void {
  if (!left.delete(clean) || left.size > 0) return
  for (const name of SIGNALS) process.off(name, onSignal)
  process.off('exit', cleanAll)
}

function cleanAll(): void {
  for (const clean of [...left]) {
    release(clean)
    clean()
  }
}

function onSignal(signal: NodeJS.Signals): void {
  if (process.listenerCount(signal) > 1) return
  cleanAll()
  if (process.pid === FIRST_PROCESS) process.exit(128 + constants.signals[signal])
  process.kill(process.pid, signal) // without listeners, it ends the process as usual
}

/** The first process of a container: the kernel does not end it by signals that it does not handle. */
const FIRST_PROCESS = 1

/**
 * Lets signals without another listener end the first process of a container, as they end any other. Replaces the
 * listeners of bin/eaas.mjs, which do so while the program is loaded.
 */
export function endBySignals(): void {
  if (process.pid !== FIRST_PROCESS) return
  for (const name of SIGNALS) process.removeAllListeners(name)
  beforeEnd(() => undefined)
}
