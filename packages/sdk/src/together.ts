/** Calls of which all must succeed. */
import { assertNotAborted } from './input.js'
import { onAbort, untilAborted } from './waiting.js'

export type Calls<T extends readonly unknown[]> = readonly [...{ [K in keyof T]: Promise<T[K]> }]

/** All calls must succeed; the first error or the signal aborts the others. @throws AbortedError, or that error */
export async function together<T extends readonly unknown[]>(
  signal: AbortSignal | undefined,
  call: (signal: AbortSignal) => Calls<T>,
): Promise<T> {
  assertNotAborted(signal)
  const controller = new AbortController()
  const ignoreSignal = onAbort(signal, () => controller.abort(signal?.reason))
  try {
    const all = Promise.all(call(controller.signal))
    return (await untilAborted(all, controller.signal)) as readonly unknown[] as T
  } catch (error) {
    controller.abort(error)
    throw error
  } finally {
    ignoreSignal()
  }
}
