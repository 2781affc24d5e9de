/** Listens to signals that many calls share: one listener for each signal, or Node warns of a leak at the eleventh. */

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
  listeners.set(signal, runs)
  const runAll = () => {
    for (const run of runs) run()
  }
  signal.addEventListener('abort', runAll, { once: true })
  return runs
}
