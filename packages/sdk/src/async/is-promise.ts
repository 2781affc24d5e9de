/** A value that is there already, or a promise of it. */
export type Soon<T> = T | Promise<T>

/** Tells whether a value has a `then`, which promises of another realm or of a library have too. */
export function isPromise<T>(value: Soon<T>): value is Promise<T> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function'
}

/** Passes a value on: at once where it is there already, and when it comes where it is promised. */
export function use<T, R>(value: Soon<T>, take: (value: T) => Soon<R>): Soon<R> {
  return isPromise(value) ? value.then(take) : take(value)
}
