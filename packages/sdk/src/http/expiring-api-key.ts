/** API keys that live for minutes: what a page may hold, fetched from the application's backend and renewed in time. */
import { microtasks, requestsAreIsolated } from '../async/isolated-requests.js'
import { InvalidInputError } from '../errors.js'

/** A key is renewed in the last tenth of its life, but not more than this before its end. */
const MAX_MARGIN_MS = 30_000
/**
 * A key that seems to be at its end when it comes is used all the same, for so long: the clock here may be wrong. The
 * service refuses the key when it is not, and then it is renewed.
 */
const MIN_USE_MS = 10_000

/** What the backend hands out: of what `POST /v1/api-keys` answers, these fields, and no more need leave the backend. */
export interface ShortLivedApiKey {
  secret: string
  /** RFC 3339. */
  expires_at: string
  /** RFC 3339. With it, a wrong clock in the page does no harm. */
  created_at?: string | undefined
}

/** After how long calls no longer wait for a `fetchKey` that others wait for, in milliseconds: it may never answer. */
const PATIENCE_MS = 10_000

/** What `createClient` takes as `apiKey`. */
export type ExpiringApiKey = (refused?: string) => Promise<string>

/**
 * Makes an `apiKey` of a function that fetches short-lived keys from the application's own backend. A key is kept in memory, used
 * until shortly before it expires, and renewed once when the service refuses it all the same. Calls that come meanwhile wait
 * for the one that fetches. What `fetchKey` throws is passed on to them, and the next call tries again.
 *
 * @throws InvalidInputError at the call that needs the key, when `fetchKey` gives something else
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
    if (requestsAreIsolated()) void microtasks().then(forget) // who comes later may be of another request
    return renewing
  }
}

function readKey(key: ShortLivedApiKey): { secret: string; useForMs: number } {
  const { secret, expires_at, created_at } = key ?? {}
  const expiresAt = typeof expires_at === 'string' ? Date.parse(expires_at) : Number.NaN
  const createdAt = created_at === undefined ? Date.now() : Date.parse(created_at)
  if (typeof secret !== 'string' || Number.isNaN(expiresAt) || Number.isNaN(createdAt)) {
    const hint = 'Let the backend answer with `secret` and `expires_at` of the API key that it has created.'
    throw new InvalidInputError('fetchKey must give { secret, expires_at }', hint)
  }
  const lifeMs = expiresAt - createdAt
  return { secret, useForMs: Math.max(lifeMs - Math.min(lifeMs / 10, MAX_MARGIN_MS), MIN_USE_MS) }
}
