/** Stack traces that lead to the application: many callers may wait for one request, and an error of it names none of them. */
import { isEaasError } from './errors.js'

/**
 * Remembers who calls. What it returns makes of an error of the SDK one of the caller's own, alike but for its stack; anything
 * else it returns as it is. The text of the stack is made only when it is needed.
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

/** The same function, whose errors have the caller in their stack. */
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
