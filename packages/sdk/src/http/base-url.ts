/** Reads the base URL of a service: an absolute URL, or a path in pages and workers. */
import { InvalidInputError } from '../errors.js'
import { kindOf } from '../input.js'

const ANY_ORIGIN = 'https://page.invalid'
export const ENVIRONMENT_HINT = 'If it comes from the environment, set it where the program runs.'
/** Hosts whose traffic stays on this machine, as URLs spell them. */
const LOCAL_HOST = /^(?:localhost|.+\.localhost|127(?:\.\d+){3}|\[::1\])$/
const HINT = 'Pass an absolute URL, such as https://example.org/eaas.'
const ABOUT = { option: 'baseUrl' }

/** Reads an absolute base URL, and adds a final slash. `allowInsecure` allows http to any host. @throws InvalidInputError */
function parseBaseUrl(baseUrl: string, allowInsecure = false): URL {
  // No message repeats the value, which may contain a password.
  if (typeof baseUrl !== 'string') {
    const hint = 'Pass the `href` of a URL object.'
    throw new InvalidInputError(`baseUrl must be text, got ${kindOf(baseUrl)}`, hint, ABOUT)
  }
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined
  if (!url || !/^https?:/.test(url.protocol))
    throw new InvalidInputError('baseUrl must be an http or https URL', HINT, ABOUT)
  if (url.protocol === 'http:' && !allowInsecure && !LOCAL_HOST.test(url.hostname)) {
    const hint = 'Use https, or pass `allowInsecure: true`.'
    throw new InvalidInputError('baseUrl is http to another machine: keys would travel unencrypted', hint, ABOUT)
  }
  if (url.username !== '' || url.password !== '' || /[?#]/.test(baseUrl))
    throw new InvalidInputError('baseUrl must not contain a user name, a password, a query or a fragment', HINT, ABOUT)
  if (!url.pathname.endsWith('/')) url.pathname += '/'
  return url
}

/** If there is no URL, only the returned function throws: pages are built without the production environment. */
export function readBaseUrl(baseUrl: string | undefined, allowInsecure = false): () => URL {
  if (baseUrl !== undefined && baseUrl !== '') {
    const url = parseBaseUrl(baseUrl, allowInsecure)
    return () => url
  }
  return () => {
    throw new InvalidInputError('baseUrl is missing', `${HINT} ${ENVIRONMENT_HINT}`, ABOUT)
  }
}

/** Like `readBaseUrl`, but also takes a path of the page's own origin, which does not exist while a server renders the page. */
export function resolveBaseUrl(baseUrl: string | undefined, allowInsecure = false): () => URL {
  // Two slashes, or a slash and a backslash, would name another host.
  if (typeof baseUrl !== 'string' || !/^\/(?![/\\])/.test(baseUrl)) return readBaseUrl(baseUrl, allowInsecure)
  parseBaseUrl(ANY_ORIGIN + baseUrl)
  return () => {
    const origin = pageOrigin()
    if (origin === undefined)
      throw new InvalidInputError('baseUrl can be a path in pages and workers only', HINT, ABOUT)
    return parseBaseUrl(origin + baseUrl, allowInsecure)
  }
}

/** Returns the origin of this page or worker; undefined elsewhere, and for a page without one (`file:`). */
export function pageOrigin(): string | undefined {
  const origin = (globalThis as { location?: { origin?: unknown } }).location?.origin
  return typeof origin === 'string' && /^https?:\/\//.test(origin) ? origin : undefined
}
