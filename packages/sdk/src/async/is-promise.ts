/** Tells a promise by its `then`: those of another realm, or of a library that replaces `Promise`, are promises too. */
export function isPromise<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function'
}
