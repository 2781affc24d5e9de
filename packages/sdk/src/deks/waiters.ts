/** Callers who wait for one DEK: each says what to do with it, and may give up on its own. */

import { onAbort } from '../async/on-abort.js'
import { rememberCaller } from '../caller.js'
import { AbortedError } from '../errors.js'

/** One caller who waits. */
export interface Waiter<A> {
  /** Runs what the caller wanted to do; it runs at once, so that the DEK is never out of its owner's hands. */
  serve(argument: A): void
  fail(error: unknown): void
}

/**
 * Joins those who wait, until served, failed, or the signal is aborted.
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
    waiters.add(waiter) // last: whoever serves it calls `ignoreSignal`
  })
}
