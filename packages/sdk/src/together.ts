/** Calls of which all must succeed. */
import { assertNotAborted } from './input.js'
import { onAbort, untilAborted } from './waiting.js'

/**
 * Makes calls of which all must succeed. The first error, and the caller's signal, aborts the others: so none is sent for
 * a caller that has its error. @throws AbortedError, or the first error
 */
export async function together<T>(
  signal: AbortSignal | undefined,
  call: (signal: AbortSignal) => readonly Promise<T>[],
): Promise<T[]> {
  assertNotAborted(signal)
  const controller = new AbortController()
  const ignoreSignal = onAbort(signal, () => controller.abort(signal?.reason))
  try {
    return await untilAborted(Promise.all(call(controller.signal)), controller.signal)
  } catch (error) {
    controller.abort(error)
    throw error
  } finally {
    ignoreSignal()
  }
}
