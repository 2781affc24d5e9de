/** Listens to signals that many calls share: one listener for each signal, or Node warns of a leak at the eleventh. */
import { AbortedError } from '../errors.js'

const listeners = new WeakMap<AbortSignal, Set<() => void>>()

/** Runs the function when the signal is aborted, unless the function that is returned was called before. */
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
  listeners.set(signal, runs) // only now: where addEventListener throws, the next call must not take it for done
  return runs
}

/** What the promise becomes, unless the signal is aborted before. @throws AbortedError by rejection */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  return new Promise((resolve, reject) => {
    promise.then(resolve, reject) // first, so that its rejection is handled even where the signal cannot be listened to
    const ignoreSignal = onAbort(signal, () => reject(new AbortedError(signal)))
    promise.then(ignoreSignal, ignoreSignal)
  })
}
