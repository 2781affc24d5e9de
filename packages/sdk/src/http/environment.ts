/** The service that the environment names, for a client without a `baseUrl`. */
import { InvalidInputError } from '../errors.js'
import { readBaseUrl } from './base-url.js'

const HINT = 'Set it, as `npx @eaas/server dev` does in .env.local, or pass `baseUrl` and `apiKey`.'

/** Makes a function that returns the URL in EAAS_URL. Throws InvalidInputError where it is not set, or wrong. */
export function environmentUrl(allowInsecure: boolean): () => URL {
  return () => readBaseUrl(fromEnvironment('EAAS_URL'), allowInsecure)()
}

/** Returns the API key in EAAS_API_KEY. @throws InvalidInputError where it is not set */
export function environmentApiKey(): string {
  return fromEnvironment('EAAS_API_KEY')
}

/** Looked up at each request: the code that fills the environment may run after the module that makes the client. */
function fromEnvironment(name: string): string {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } }
  const value = process?.env?.[name]
  if (value) return value
  throw new InvalidInputError(`${name} is not set in the environment`, HINT)
}
