/** A turn of the event loop: what arrived meanwhile goes first. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
