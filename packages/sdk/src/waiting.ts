/** Waiting for what many calls share. Each caller may give up alone, and gets errors with its own stack. */
import { AbortedError, isEaasError, NetworkError } from './errors.js'
import { assertNotAborted } from './input.js'

/** A value that is already there, or a promise of it. */
export type Soon<T> = T | Promise<T>

/** Tells whether a value has a `then`, as promises of other realms and libraries have. */
export function isPromise<T>(value: Soon<T>): value is Promise<T> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function'
}

/** Passes a value on: synchronously if it is already there, otherwise when its promise resolves. */
export function use<T, R>(value: Soon<T>, take: (value: T) => Soon<R>): Soon<R> {
  return isPromise(value) ? value.then(take) : take(value)
}

/**
 * Loads once, and afterwards returns no promise. Callers share a load: in a page each `import()` settles in its own
 * turn, which would split batches. Isolated requests cannot share it. A failed load is tried again.
 */
export function loadOnce<T extends object>(load: () => Promise<T>): () => Soon<T> {
  let loaded: T | undefined
  let loading: Promise<T> | undefined
  const keep = (value: T) => {
    loaded ??= value
    return loaded
  }
  const forget = (error: unknown) => {
    loading = undefined
    throw error
  }
  return () => {
    if (loaded) return loaded
    if (requestsAreIsolated()) return load().then(keep)
    loading ??= load().then(keep, forget)
    return loading
  }
}

/** Loads a part on first use; in bundles it is a file of its own. @throws NetworkError; the next call tries again */
export async function loadPart<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load()
  } catch {
    const hint = 'Try again, or reload the page: a newer build may have replaced its file.'
    throw new NetworkError('a part of the SDK could not be loaded', hint, true)
  }
}

interface NodeGlobals {
  process?: { getBuiltinModule?: (id: string) => unknown }
  setImmediate?: (run: () => void) => unknown
}

interface Platform {
  navigator?: { userAgent?: unknown }
  EdgeRuntime?: unknown
  scheduler?: { yield?: () => Promise<void> }
  setTimeout: (run: () => void) => unknown
}

/** Returns the platform's globals of Node. Next's edge runtime replaces them by functions that throw when called. */
export function nodeGlobals(): NodeGlobals {
  return typeof (globalThis as Platform).EdgeRuntime === 'string' ? {} : globalThis
}

/**
 * Tells whether one isolate runs many requests and keeps their promises, timers and controllers apart: workerd, or an
 * `EdgeRuntime`. Awaiting another request's promise may take for ever, so calls share promises only within one run of
 * microtasks. Plain values can be shared.
 */
export function requestsAreIsolated(): boolean {
  return (
    (globalThis as Platform).navigator?.userAgent === 'Cloudflare-Workers' ||
    typeof (globalThis as Platform).EdgeRuntime === 'string'
  )
}

/** The most microtasks that simultaneous calls need to reach the shared promise. */
const TICKS = 32

/** Resolves when all simultaneous calls have caught up, before any other request runs. */
export async function microtasks(): Promise<void> {
  for (let tick = 0; tick < TICKS; tick++) await undefined
}

/** The next turn of the event loop. Timers are read when this loads, so that fake timers do not stop the SDK. */
export const turn = /* @__PURE__ */ (() => {
  const { scheduler, setTimeout } = globalThis as Platform
  const { setImmediate = setTimeout } = nodeGlobals()
  return (): Promise<void> =>
    setImmediate === setTimeout && scheduler?.yield
      ? scheduler.yield()
      : new Promise((resolve) => setImmediate(resolve))
})()

const listeners = new WeakMap<AbortSignal, Set<() => void>>()

/** Runs a function on abort. Returns a function that stops listening. One listener per signal, since Node warns at the eleventh. */
export function onAbort(signal: AbortSignal | undefined, run: () => void): () => void {
  if (!signal) return () => undefined
  const runs = listeners.get(signal) ?? listen(signal)
  runs.add(run)
  return () => runs.delete(run)
}

function listen(signal: AbortSignal): Set<() => void> {
  const runs = new Set<() => void>()
  const runAll = () => {
    for (const run of runs) run()
  }
  signal.addEventListener('abort', runAll, { once: true })
  listeners.set(signal, runs) // last: if addEventListener throws, the next call must try again
  return runs
}

/** Settles as the promise does, or rejects with AbortedError if the signal is aborted first. */
export function untilAborted<T>(soon: Soon<T>, signal: AbortSignal | undefined): Promise<T> {
  return new Promise((resolve, reject) => {
    const promise = Promise.resolve(soon)
    promise.then(resolve, reject) // first, so that its rejection is handled even if addEventListener throws
    const ignoreSignal = onAbort(signal, () => reject(new AbortedError(signal)))
    promise.then(ignoreSignal, ignoreSignal)
  })
}

/** A waiting caller, with a function to run once there is a result. */
export interface Waiter<A> {
  /** Runs the caller's function synchronously, so that nothing else holds its argument. */
  serve(argument: A): void
  fail(error: unknown): void
}

/** Joins the waiting callers until served, failed or aborted. @throws AbortedError by rejection */
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

export type AtCaller = (error: unknown) => unknown

/** Returns a function that copies an SDK error with the caller's stack, which an error of a shared request lacks. */
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

/** Less than the 16 ms that a page has for one frame. */
const TURN_MS = 8
const UNDER_WAY = 500
/** The time of a monotonic clock, in milliseconds. Read at each call, since tests of applications replace it. */
export const now = (): number => performance.now()

export interface Pace {
  /** Tells whether it is time to rest. Cheap enough for each record. */
  due(): boolean
  /** Lets the event loop run. @throws AbortedError if the signal is aborted before or meanwhile */
  rest(signal?: AbortSignal | undefined): Promise<void>
}

export function createPace(): Pace {
  let since = now()
  return {
    due: () => now() - since >= TURN_MS,
    async rest(signal) {
      await turn()
      assertNotAborted(signal)
      since = now()
    },
  }
}

/** Makes a backlog. With `promisesAreRare`, as for a synchronous engine, each promise is awaited when it is added. */
export function createBacklog(promisesAreRare: boolean) {
  let promises: Promise<unknown>[] = []
  /** Waits for all added promises. @throws the rejection of one of them */
  const flush = (): Promise<unknown> => {
    const all = promises
    promises = []
    return Promise.all(all)
  }
  return {
    flush,
    /** Adds a promise. The caller must await the result, unless it is undefined. */
    add(promise: Promise<unknown>): Promise<unknown> | undefined {
      if (promisesAreRare) return promise
      promise.catch(() => undefined) // flush() rejects with it
      promises.push(promise)
      return promises.length >= UNDER_WAY ? flush() : undefined
    },
  }
}
