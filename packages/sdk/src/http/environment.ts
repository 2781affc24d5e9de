/** Reads the service's URL and an API key from the environment, outside pages. Says what is wrong with an API key. */
import { InvalidInputError } from '../errors.js'
import { ENVIRONMENT_HINT, readBaseUrl } from './base-url.js'
import type { HttpOptions, Service } from './calls.js'

const UNSET_HINT =
  'Run `npx @eaas/server dev`, then the program with the file that it writes: `node --env-file=.env.local`. Or pass `baseUrl` and `apiKey`.'

/** Finds the service in EAAS_URL, unless there is a `baseUrl`, and the key in EAAS_API_KEY. @throws InvalidInputError */
export function findInEnvironment({
  findBase,
  allowInsecure,
  apiKey,
  fromEnv,
}: Pick<HttpOptions, 'findBase' | 'allowInsecure' | 'apiKey' | 'fromEnv'>): Service {
  if (!findBase) {
    const base = readBaseUrl(fromEnvironment('EAAS_URL'), allowInsecure)()
    return { base, given: apiKey ?? (() => fromEnvironment('EAAS_API_KEY')) }
  }
  const base = findBase()
  if (!fromEnv) throw missingApiKey()
  return { base, given: apiKeyFor(base) }
}

/** Read at each request: the environment may be filled after the module that makes the client has run. */
function inEnvironment(name: string): string | false | undefined {
  const { env = {} } = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process ?? {}
  return Object.hasOwn(env, name) && env[name]
}

function fromEnvironment(name: string): string {
  const value = inEnvironment(name)
  if (value) return value
  throw new InvalidInputError(`${name} is not set in the environment`, UNSET_HINT)
}

/** Returns EAAS_API_KEY if EAAS_URL names the same service as `baseUrl`, or none. @throws InvalidInputError */
function apiKeyFor(base: URL): string {
  const key = inEnvironment('EAAS_API_KEY')
  const url = inEnvironment('EAAS_URL')
  if (key && (!url || isSame(url, base))) return key
  throw missingApiKey(
    key ? 'EAAS_API_KEY belongs to the service of EAAS_URL, which is another one than that of baseUrl. ' : '',
  )
}

/** Compares URLs as they are requested: the host's case, a default port and a final slash do not count. */
function isSame(url: string, base: URL): boolean {
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (parsed && !parsed.pathname.endsWith('/')) parsed.pathname += '/'
  return parsed?.href === base.href
}

function missingApiKey(why = ''): InvalidInputError {
  const hint = `${why}Pass an API key, or a function that returns it. ${ENVIRONMENT_HINT}`
  return new InvalidInputError('apiKey is missing: only pages and workers that call a broker need none', hint)
}

export function wrongApiKey(value: unknown): InvalidInputError {
  const message = 'apiKey must be text of visible ASCII, without spaces'
  return new InvalidInputError(message, apiKeyHint(value), { option: 'apiKey' })
}

function apiKeyHint(value: unknown): string {
  const text = String(value)
  if (text.trim() !== '' && text.trim() !== text) return 'Trim it: a file ends with a line break.'
  if (/^bearer /i.test(text)) return 'Pass it without "Bearer".'
  return 'Check where the API key is read from.'
}
