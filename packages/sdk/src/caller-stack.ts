/**
 * Stack traces that lead to the application. Many callers may share one request, and its error has none of
 * them in its stack.
 */
import { isEaasError } from './errors.js'

/** Returns an error with the stack of a caller that was remembered. */
export type AtCaller = (error: unknown) => unknown

/**
 * Remembers the caller's stack. Returns a function that copies an error of the SDK and gives the copy that
 * stack; it returns anything else unchanged. The stack's text is made only when an error needs it.
 */
export function rememberCaller(): AtCaller {
  const caller = new Error()
  return (error) => {
    if (!isEaasError(error)) return error
    const copy: object = Object.setPrototypeOf(new Error(), Object.getPrototypeOf(error))
    const stack = String(caller.stack).replace(/^Error/, () => String(error))
    return Object.defineProperties(copy, {
      ...Object.getOwnPropertyDescriptors(error),
      stack: { value: stack, configurable: true, writable: true },
    })
  }
}

/** Wraps a function so that its errors have the caller in their stack. */
export function traced<A extends unknown[], T>(run: (...args: A) => Promise<T>): (...args: A) => Promise<T> {
  return async (...args) => runFor(rememberCaller(), () => run(...args))
}

/** Runs a function, and gives its errors the stack of a caller that was remembered. */
export async function runFor<T>(atCaller: AtCaller, run: () => Promise<T>): Promise<T> {
  try {
    return await run()
  } catch (error) {
    throw atCaller(error)
  }
}
