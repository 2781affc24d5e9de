/** What the environment says of the service, for programs outside pages: its URL, and an API key. */
import { InvalidInputError } from '../errors.js'
import { ENVIRONMENT_HINT, readBaseUrl } from './base-url.js'

const UNSET_HINT =
  'Run `npx @eaas/server dev`, then the program with the file that it writes: `node --env-file=.env.local`. Or pass `baseUrl` and `apiKey`.'

/** Returns the URL in EAAS_URL. @throws InvalidInputError where it is not set, or wrong */
export function environmentUrl(allowInsecure: boolean): URL {
  return readBaseUrl(fromEnvironment('EAAS_URL'), allowInsecure)()
}

/** Returns the API key in EAAS_API_KEY, of a client that has its URL from there too. @throws InvalidInputError where it is not set */
export function environmentApiKey(): string {
  return fromEnvironment('EAAS_API_KEY')
}

/** Looked up at each request: the code that fills the environment may run after the module that makes the client. */
function inEnvironment(name: string): string | false | undefined {
  const { env = {} } = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process ?? {}
  return Object.hasOwn(env, name) && env[name]
}

function fromEnvironment(name: string): string {
  const value = inEnvironment(name)
  if (value) return value
  throw new InvalidInputError(`${name} is not set in the environment`, UNSET_HINT)
}

/**
 * Returns the API key in EAAS_API_KEY for a client with a `baseUrl`, if EAAS_URL names the same service, or none. @throws InvalidInputError
 */
export function environmentApiKeyFor(base: URL): string {
  const key = inEnvironment('EAAS_API_KEY')
  const url = inEnvironment('EAAS_URL')
  if (key && (!url || isSame(url, base))) return key
  throw missingApiKey(
    key ? 'EAAS_API_KEY belongs to the service of EAAS_URL, which is another one than that of baseUrl. ' : '',
  )
}

/** Compares URLs as they are requested: the case of the host, a default port and a final slash do not count. */
function isSame(url: string, base: URL): boolean {
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (parsed && !parsed.pathname.endsWith('/')) parsed.pathname += '/'
  return parsed?.href === base.href
}

export function missingApiKey(why = ''): InvalidInputError {
  return new InvalidInputError(
    'apiKey is missing: only pages and workers that call a broker need none',
    `${why}Pass an API key, or a function that returns it. ${ENVIRONMENT_HINT}`,
  )
}
