/** Waits for a time. */
import { onAbort } from './on-abort.js'

/** Resolves after so many milliseconds. @throws the signal's reason, as soon as it is aborted */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    const timer = setTimeout(() => {
      ignoreSignal()
      resolve()
    }, ms)
    const ignoreSignal = onAbort(signal, () => {
      clearTimeout(timer)
      reject(signal?.reason)
    })
  })
}
