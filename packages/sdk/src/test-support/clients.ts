// What tests of the client share: a service, clients that end with their test, and calls that must fail.
import { inspect } from 'node:util'
import { afterAll, afterEach, beforeAll, beforeEach, expect, vi } from 'vitest'
import { type Client, type ClientOptions, createClient, type EaasError, isEaasError } from '../index.js'
import { API_KEY, Service } from './service.js'

/** A service that runs during the tests around this call, and is reset before each of them. */
export function useService(): Service {
  const service = new Service()
  beforeAll(() => service.start())
  afterAll(() => service.stop())
  beforeEach(() => service.reset())
  return service
}

/** Gives a function that makes clients of a service; each is closed at the end of the test that made it. */
export function clientsOf(service: Service): (options?: Partial<ClientOptions>) => Client {
  const clients: Client[] = []
  afterEach(() => {
    for (const client of clients.splice(0)) client.close()
  })
  return (options = {}) => {
    const client = createClient({ baseUrl: service.url, apiKey: API_KEY, ...options })
    clients.push(client)
    return client
  }
}

/** A key of the service: a new one for each test of a file that calls `useClients`. */
export let keyId: string

/** What most tests of the client begin with: a service, and a function that makes clients of it. */
export function useClients() {
  const service = useService()
  beforeEach(() => {
    keyId = service.createKey()
  })
  return { service, connect: clientsOf(service) }
}

/** Every DEK that is drawn from now on, until the mocks are restored. */
export function noteDeks(): Uint8Array[] {
  const drawn: Uint8Array[] = []
  const draw = crypto.getRandomValues.bind(crypto)
  vi.spyOn(crypto, 'getRandomValues').mockImplementation((bytes) => {
    if (bytes instanceof Uint8Array && bytes.length === 32) drawn.push(bytes)
    return draw(bytes)
  })
  return drawn
}

/** The error of a call that must fail with one of the SDK's own. */
export async function failure(call: Promise<unknown>): Promise<EaasError> {
  const error: unknown = await call.then(
    (value) => expect.unreachable(`succeeded with ${inspect(value)}`),
    (reason: unknown) => reason,
  )
  if (!isEaasError(error)) throw error
  return error
}
