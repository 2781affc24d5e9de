// Ctrl-C and other requests to end, as an AbortSignal, so that an example can clean up first.
import { constants } from 'node:os'

/**
 * Makes a signal that SIGINT, SIGTERM and SIGHUP abort. A second one of the same kind ends the process at once; a server of
 * `startServer` then ends itself.
 */
export function abortOnInterruption() {
  const interruption = new AbortController()
  for (const name of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
    process.once(name, () => interruption.abort(name))
  }
  return interruption.signal
}

/**
 * Returns the exit code that tells a shell which signal ended a program.
 *
 * @param {AbortSignal} signal one of `abortOnInterruption` that is aborted
 */
export function exitCodeOf(signal) {
  return 128 + constants.signals[/** @type {NodeJS.Signals} */ (signal.reason)]
}
