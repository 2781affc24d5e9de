/** Creates clients: tells them where their parts are. */
import { assembleClient, type Client, type ClientOptions, type Closable } from './client.js'

/**
 * Creates a client. Does not use the network.
 *
 * @throws InvalidInputError when an option is wrong
 * @example
 * ```ts
 * const eaas = createClient({ baseUrl: 'https://eaas.example.org', apiKey: () => readSecret('eaas-api-key') })
 * ```
 */
export function createClient(options: ClientOptions): Client & Closable {
  return assembleClient(options, () => import('./first-call.js'))
}
