/**
 * Platforms that run many requests in one isolate and keep them apart: a promise of one request that another awaits never
 * settles, or settles never more once the first has been answered, and so it is with timers and controllers. There, calls
 * share what is under way only within one run of microtasks, which no other request can enter, and keep plain values.
 */

/** Microtasks that calls made together may take until they ask for the same thing. */
const TICKS = 32

interface Platform {
  navigator?: { userAgent?: unknown }
  EdgeRuntime?: unknown
}

/** Whether this is such a platform: Cloudflare's workerd, or an edge runtime that says so. */
export function requestsAreIsolated(): boolean {
  const { navigator, EdgeRuntime } = globalThis as Platform
  return navigator?.userAgent === 'Cloudflare-Workers' || typeof EdgeRuntime === 'string'
}

/** Resolves when calls that were made together have come as far as the first of them; no other request has run by then. */
export async function microtasks(): Promise<void> {
  for (let tick = 0; tick < TICKS; tick++) await undefined
}
