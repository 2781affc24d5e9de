/** Stack traces that lead to the application. Many callers may share one request, and its error has none of them in its stack. */
import { isEaasError } from './errors.js'

/**
 * Remembers the caller's stack. Returns a function that copies an error of the SDK and gives the copy that stack; it returns
 * anything else unchanged. The stack's text is made only when an error needs it.
 */
export function rememberCaller(): (error: unknown) => unknown {
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
  return async (...args) => {
    const atCaller = rememberCaller()
    try {
      return await run(...args)
    } catch (error) {
      throw atCaller(error)
    }
  }
}
