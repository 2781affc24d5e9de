/**
 * Listens to signals that many calls share. Adds one listener to each signal, since Node warns of a leak at
 * the eleventh.
 */
import { AbortedError } from '../errors.js'

const listeners = new WeakMap<AbortSignal, Set<() => void>>()

/** Runs the function when the signal is aborted. Returns a function that stops listening. */
export function onAbort(signal: AbortSignal | undefined, run: () => void): () => void {
  if (!signal) return () => undefined
  const runs = listeners.get(signal) ?? listen(signal)
  runs.add(run)
  return () => runs.delete(run)
}

function listen(signal: AbortSignal): Set<() => void> {
  const runs = new Set<() => void>()
  const runAll = () => {
    for (const run of runs) run()
  }
  signal.addEventListener('abort', runAll, { once: true })
  listeners.set(signal, runs) // last: where addEventListener throws, the next call must try again
  return runs
}

/** Settles as the promise does, or rejects with AbortedError when the signal is aborted first. */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  return new Promise((resolve, reject) => {
    promise.then(resolve, reject) // first, so that its rejection is handled even where addEventListener throws
    const ignoreSignal = onAbort(signal, () => reject(new AbortedError(signal)))
    promise.then(ignoreSignal, ignoreSignal)
  })
}
