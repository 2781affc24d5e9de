/** Where a service is: an absolute URL, or a path in pages and workers. */
import { InvalidInputError } from '../errors.js'

const HINT = 'Pass an absolute URL such as https://eaas.example.org or https://example.org/eaas.'

/** Reads an absolute base URL; the result ends with a slash. @throws InvalidInputError */
export function parseBaseUrl(baseUrl: string): URL {
  // The value is not repeated in a message: it may hold a password.
  if (typeof baseUrl !== 'string' || !URL.canParse(baseUrl)) throw new InvalidInputError('baseUrl must be a URL', HINT)
  const url = new URL(baseUrl)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw new InvalidInputError('baseUrl must be an http or https URL', HINT)
  }
  if (url.username !== '' || url.password !== '') {
    throw new InvalidInputError('baseUrl must hold no user name and no password', HINT)
  }
  if (baseUrl.includes('?') || baseUrl.includes('#')) {
    throw new InvalidInputError('baseUrl must hold no query and no fragment', HINT)
  }
  if (!url.pathname.endsWith('/')) url.pathname += '/'
  return url
}

/** Reads a base URL that may be a path such as `/api/eaas`, of the page's own origin. @throws InvalidInputError */
export function resolveBaseUrl(baseUrl: string): URL {
  // Two slashes, or a slash and a backslash, would name another host.
  if (typeof baseUrl !== 'string' || !/^\/(?![/\\])/.test(baseUrl)) return parseBaseUrl(baseUrl)
  const origin = pageOrigin()
  if (origin === undefined) throw new InvalidInputError('baseUrl can be a path in pages and workers only', HINT)
  return parseBaseUrl(origin + baseUrl)
}

/** The origin of the page or worker that this runs in; undefined elsewhere, and where a page has none (`file:`). */
export function pageOrigin(): string | undefined {
  const origin = (globalThis as { location?: { origin?: unknown } }).location?.origin
  return typeof origin === 'string' && /^https?:\/\//.test(origin) ? origin : undefined
}
