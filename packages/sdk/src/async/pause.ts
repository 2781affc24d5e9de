/** Waits for a time. */
import { onAbort } from './on-abort.js'

/**
 * Resolves after so many milliseconds, at the next turn if they are over. @throws the signal's reason, as
 * soon as it is aborted
 */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  const timeoutMs = Math.max(0, ms) // Node 26 warns of a negative time
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    const timer = setTimeout(() => {
      ignoreSignal()
      resolve()
    }, timeoutMs)
    const ignoreSignal = onAbort(signal, () => {
      clearTimeout(timer)
      reject(signal?.reason)
    })
  })
}
