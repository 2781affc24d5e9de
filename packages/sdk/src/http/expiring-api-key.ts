/** Short-lived API keys for pages: fetched from the application's backend and renewed before they expire. */
import { InvalidInputError } from '../errors.js'
import { microtasks, requestsAreIsolated } from '../waiting.js'

/** A key is renewed in the last tenth of its life, but at most this long before its end. */
const MAX_MARGIN_MS = 30_000
/** A key is used this long even if it seems expired: this machine's clock may be wrong. */
const MIN_USE_MS = 10_000

/** The fields of the answer to `POST /v1/api-keys` that the backend must pass on. */
export interface ShortLivedApiKey {
  secret: string
  /** RFC 3339. */
  expires_at: string
  /** RFC 3339. With it, the page's clock does not affect the lifetime. */
  created_at?: string | undefined
}

/** How long calls wait for a `fetchKey` that an earlier call started, which may never settle. */
const PATIENCE_MS = 10_000
export type ExpiringApiKey = (refused?: string) => Promise<string>

/**
 * Makes an `apiKey` from a function that fetches short-lived keys from the application's own backend. Keeps a key in
 * memory until shortly before it expires, and renews it once if the service refuses it earlier. Concurrent calls share
 * a fetch for up to 10 seconds. They throw what `fetchKey` throws, and the next call tries again.
 * @throws InvalidInputError at the call that needs the key, when `fetchKey` returns anything but a ShortLivedApiKey
 * @example
 * ```ts
 * const apiKey = expiringApiKey(async () => (await fetch('/api/eaas-key', { method: 'POST' })).json())
 * const eaas = createClient({ baseUrl: 'https://eaas.example.org', apiKey })
 * ```
 */
export function expiringApiKey(fetchKey: () => Promise<ShortLivedApiKey>): ExpiringApiKey {
  let current: { secret: string; renewAt: number } | undefined
  let fetching: Promise<string> | undefined
  let since = 0

  const renew = async () => {
    const { secret, useForMs } = readKey(await fetchKey())
    current = { secret, renewAt: performance.now() + useForMs }
    return secret
  }
  const forget = () => {
    fetching = undefined
  }
  return async (refused) => {
    if (current && current.secret !== refused && performance.now() < current.renewAt) return current.secret
    if (fetching && performance.now() - since < PATIENCE_MS) return fetching
    since = performance.now()
    const renewing = renew().finally(() => fetching === renewing && forget()) // not in `renew`: it may fail before this is assigned
    fetching = renewing
    if (requestsAreIsolated()) void microtasks().then(forget) // a later caller may belong to another request
    return renewing
  }
}

function readKey(key: ShortLivedApiKey): { secret: string; useForMs: number } {
  const { secret, expires_at, created_at } = key ?? {}
  const expiresAt = typeof expires_at === 'string' ? Date.parse(expires_at) : Number.NaN
  const createdAt = created_at === undefined ? Date.now() : Date.parse(created_at)
  if (typeof secret !== 'string' || Number.isNaN(expiresAt) || Number.isNaN(createdAt)) {
    const hint = 'Let the backend answer with the API key that it created.'
    throw new InvalidInputError('fetchKey must return { secret, expires_at }', hint)
  }
  const lifeMs = expiresAt - createdAt
  return { secret, useForMs: Math.max(lifeMs - Math.min(lifeMs / 10, MAX_MARGIN_MS), MIN_USE_MS) }
}
