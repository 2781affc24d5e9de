/** Callers who wait for one DEK. Each has a function to run with it, and may give up alone. */
import { onAbort } from '../async/on-abort.js'
import { rememberCaller } from '../caller-stack.js'
import { AbortedError } from '../errors.js'

/** One waiting caller. */
export interface Waiter<A> {
  /** Runs the caller's function at once, so that nothing else holds the DEK. */
  serve(argument: A): void
  fail(error: unknown): void
}

/**
 * Joins the waiting callers until it is served, is failed, or the signal is aborted.
 *
 * @throws AbortedError by rejection
 */
export function joinWaiters<A, T, W extends Waiter<A>>(
  waiters: Set<W>,
  signal: AbortSignal | undefined,
  use: (argument: A) => T | Promise<T>,
  make: (waiter: Waiter<A>) => W,
): Promise<T> {
  const atCaller = rememberCaller()
  return new Promise<T>((resolve, reject) => {
    const leave = () => {
      waiters.delete(waiter)
      ignoreSignal()
    }
    const fail = (error: unknown) => {
      leave()
      reject(atCaller(error))
    }
    const serve = (argument: A) => {
      leave()
      try {
        resolve(use(argument))
      } catch (error) {
        reject(atCaller(error))
      }
    }
    const waiter = make({ serve, fail })
    const ignoreSignal = onAbort(signal, () => fail(new AbortedError(signal)))
    waiters.add(waiter) // last: serving it calls `ignoreSignal`
  })
}
