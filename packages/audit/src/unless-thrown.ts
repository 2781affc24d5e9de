/** Calls `read`. Returns undefined if it throws an error of these classes. */
export function unlessThrown<T>(read: () => T, ...kinds: readonly (new (...args: never[]) => Error)[]): T | undefined {
  try {
    return read()
  } catch (error) {
    if (kinds.some((kind) => error instanceof kind)) return undefined
    throw error
  }
}
