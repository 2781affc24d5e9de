/**
 * Some platforms run many requests in one isolate and keep their promises, timers and controllers apart: a
 * request that awaits another one's promise may wait for ever, at the latest after the other one was
 * answered. There, calls share promises only within one run of microtasks, which no other request can enter.
 * Plain values can be shared.
 */

/** The most microtasks that calls made together need until they reach the shared promise. */
const TICKS = 32

interface Platform {
  navigator?: { userAgent?: unknown }
  EdgeRuntime?: unknown
}

/**
 * Tells whether this is such a platform: Cloudflare's workerd, or an edge runtime that sets `EdgeRuntime`.
 */
export function requestsAreIsolated(): boolean {
  const { navigator, EdgeRuntime } = globalThis as Platform
  return navigator?.userAgent === 'Cloudflare-Workers' || typeof EdgeRuntime === 'string'
}

/** Resolves when all calls that were made together have caught up, before any other request runs. */
export async function microtasks(): Promise<void> {
  for (let tick = 0; tick < TICKS; tick++) await undefined
}
