/** Waiting for what many share. Each caller may give up alone, and gets errors that lead to it. */
import { AbortedError, isEaasError, NetworkError } from './errors.js'
import { assertNotAborted } from './input.js'

/** A value that is there already, or a promise of it. */
export type Soon<T> = T | Promise<T>

/** Tells whether a value has a `then`, which promises of another realm or of a library have too. */
export function isPromise<T>(value: Soon<T>): value is Promise<T> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function'
}

/** Passes a value on: at once if it is there already, otherwise when its promise resolves. */
export function use<T, R>(value: Soon<T>, take: (value: T) => Soon<R>): Soon<R> {
  return isPromise(value) ? value.then(take) : take(value)
}

/**
 * Loads once, and then returns no promise. Callers share a load: in a page each `import()` settles in its own turn,
 * which would split batches. Isolated requests cannot share. A failed load is tried again.
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

/** Loads a part on first use, a file of its own in bundles. @throws NetworkError; the next call tries again */
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

/** Returns what the platform has of Node. Next's edge runtime has functions in its place that throw when they are called. */
export function nodeGlobals(): NodeGlobals {
  return typeof (globalThis as Platform).EdgeRuntime === 'string' ? {} : globalThis
}

/**
 * Whether one isolate runs many requests and keeps their promises, timers and controllers apart: workerd, or an
 * `EdgeRuntime`. Awaiting another's promise may take for ever, so calls share them only within one run of microtasks.
 * Plain values can be shared.
 */
export function requestsAreIsolated(): boolean {
  return (
    (globalThis as Platform).navigator?.userAgent === 'Cloudflare-Workers' ||
    typeof (globalThis as Platform).EdgeRuntime === 'string'
  )
}

/** The most microtasks that calls made together need until they reach the shared promise. */
const TICKS = 32

/** Resolves when all calls that were made together have caught up, before any other request runs. */
export async function microtasks(): Promise<void> {
  for (let tick = 0; tick < TICKS; tick++) await undefined
}

/** The next turn of the event loop. Timers are read at load, so that fake ones do not stop the SDK. */
export const turn = /* @__PURE__ */ (() => {
  const { scheduler, setTimeout } = globalThis as Platform
  const { setImmediate = setTimeout } = nodeGlobals()
  return (): Promise<void> =>
    setImmediate === setTimeout && scheduler?.yield
      ? scheduler.yield()
      : new Promise((resolve) => setImmediate(resolve))
})()

const listeners = new WeakMap<AbortSignal, Set<() => void>>()

/** Runs on abort; returns what stops listening. One listener a signal: Node warns at the eleventh. */
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
  listeners.set(signal, runs) // last: where addEventListener throws, the next call must try again
  return runs
}

/** Settles as the promise does, or rejects with AbortedError when the signal is aborted first. */
export function untilAborted<T>(soon: Soon<T>, signal: AbortSignal | undefined): Promise<T> {
  return new Promise((resolve, reject) => {
    const promise = Promise.resolve(soon)
    promise.then(resolve, reject) // first, so that its rejection is handled even where addEventListener throws
    const ignoreSignal = onAbort(signal, () => reject(new AbortedError(signal)))
    promise.then(ignoreSignal, ignoreSignal)
  })
}

/** Each has a function to run with it. */
export interface Waiter<A> {
  /** Runs the caller's function at once, so that nothing else holds what it gets. */
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

/** Returns what copies an SDK error with the stack of the caller, which an error of a shared request lacks. */
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

/** Below the 16 ms that a page has for one frame. */
const TURN_MS = 8
const UNDER_WAY = 500
/** Milliseconds of a monotonic clock. Looked up at each call: tests of applications replace it. */
export const now = (): number => performance.now()

export interface Pace {
  /** Tells whether it is time to rest. Cheap enough to call for each record. */
  due(): boolean
  /** Gives the event loop a turn. @throws AbortedError when the signal is aborted, in that turn too */
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

/** Makes a backlog. With `promisesAreRare`, as with a synchronous engine, each promise is awaited when it is added. */
export function createBacklog(promisesAreRare: boolean) {
  let promises: Promise<unknown>[] = []
  /** Waits for all promises that were added. @throws what one of them rejected with */
  const flush = (): Promise<unknown> => {
    const all = promises
    promises = []
    return Promise.all(all)
  }
  return {
    flush,
    /** Adds a promise. The caller must await what is returned, unless it is undefined. */
    add(promise: Promise<unknown>): Promise<unknown> | undefined {
      if (promisesAreRare) return promise
      promise.catch(() => undefined) // flush() rejects with it
      promises.push(promise)
      return promises.length >= UNDER_WAY ? flush() : undefined
    },
  }
}
