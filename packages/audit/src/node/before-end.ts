/** What is to be done before this process ends, however it ends but by SIGKILL. */
import { constants } from 'node:os'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
const left = new Set<() => void>()

/**
 * Calls `clean`, which must be synchronous, if this process ends by a signal or `process.exit` before the
 * returned function is called. A signal that somebody else handles, as a server does, ends nothing yet.
 */
export function beforeEnd(clean: () => void): () => void {
  if (left.size === 0) {
    for (const name of SIGNALS) process.prependListener(name, onSignal) // first: it counts those that handle it
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
  process.kill(process.pid, signal) // nobody handles it any more, so it ends the process as it would have
}

/** In a container, this process's id, which the kernel ends by no signal that it does not handle. */
const FIRST_PROCESS = 1

/**
 * As the first process of a container: has signals end this process that nobody else handles, as they end every other
 * process. Takes the place of the listeners of bin/eaas.mjs, which do that while the program is loaded.
 */
export function endBySignals(): void {
  if (process.pid !== FIRST_PROCESS) return
  for (const name of SIGNALS) process.removeAllListeners(name)
  beforeEnd(() => undefined)
}
