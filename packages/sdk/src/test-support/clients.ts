// What tests of the client share: a service, clients that end with their test, and calls that must fail.
import { inspect } from 'node:util'
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest'
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

/** The error of a call that must fail with one of the SDK's own. */
export async function failure(call: Promise<unknown>): Promise<EaasError> {
  const error: unknown = await call.then(
    (value) => expect.unreachable(`succeeded with ${inspect(value)}`),
    (reason: unknown) => reason,
  )
  if (!isEaasError(error)) throw error
  return error
}
