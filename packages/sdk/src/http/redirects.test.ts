// The SDK follows no redirect: it would take a DEK, or the API key, to where the operator never sent it.
import dns from 'node:dns'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { loadOn } from '../../../../test/support/platforms/platform.js'
import type { Client } from '../index.js'
import { failure } from '../test-support/clients.js'
import { calls, connect, service, stored, useEveryCall } from '../test-support/every-call.js'
import { API_KEY, type Intercept, send } from '../test-support/service.js'

useEveryCall()

describe('redirects', () => {
  const hits: string[] = []
  const sink = createServer((request, response) => {
    hits.push(request.url ?? '')
    response.end()
  })
  let sinkUrl = ''

  beforeAll(async () => {
    await new Promise<void>((resolve) => sink.listen(0, '127.0.0.1', resolve))
    sinkUrl = `http://127.0.0.1:${(sink.address() as AddressInfo).port}/sink`
  })
  afterAll(() => new Promise((resolve) => sink.close(resolve)))
  beforeEach(() => {
    hits.length = 0
  })
  afterEach(() => {
    vi.restoreAllMocks()
  })

  /**
   * The sink under a name below the one that the service would have; names do not resolve here by themselves.
   */
  function subDomain(): string {
    const lookup: unknown = (_: string, __: object, done: (error: null, found: object[]) => void) =>
      done(null, [{ address: '127.0.0.1', family: 4 }])
    vi.spyOn(dns, 'lookup').mockImplementation(lookup as typeof dns.lookup)
    return sinkUrl.replace('127.0.0.1', 'sink.localhost')
  }

  function redirectTo(location: string, status: number): Intercept {
    return (request, response) => {
      if (request.url.startsWith('/sink')) {
        hits.push(request.url)
        response.end()
      } else response.writeHead(status, { location, 'content-type': 'application/json' }).end('{}')
      return true
    }
  }

  it('control: a client that follows redirects reaches the sink, body and all', async () => {
    service.intercept = redirectTo(sinkUrl, 307)
    await fetch(`${service.url}/v1/keys`, { method: 'POST', body: '{}' })
    expect(hits).toEqual(['/sink'])
  })

  it('control: a sub-domain of the service is found, and leads to the sink', async () => {
    service.intercept = redirectTo(subDomain(), 307)
    await fetch(`${service.url}/v1/keys`)
    expect(hits).toEqual(['/sink'])
  })

  const health = ['health', true, (eaas: Client) => eaas.health()] as const

  describe.each([301, 302, 303, 307, 308])('%d', (status) => {
    it.each([...calls, health])(
      'is never followed by %s, to another origin, a sub-domain or the same, and is not tried again',
      async (name, _, run) => {
        for (const target of [sinkUrl, subDomain(), '/sink', `${service.url}/sink`]) {
          service.requests.length = 0
          service.intercept = redirectTo(target, status)
          const error = await failure(run(connect()))
          expect(error).toMatchObject({ code: 'E_PROTOCOL', retryable: false })
          expect(error.message).toContain('redirect')
          expect(service.count(name)).toBe(1)
        }
        expect(hits).toEqual([])
      },
    )
  })

  it('is refused too when the fetch that was passed follows it all the same', async () => {
    service.intercept = (request, response) => {
      if (request.url === '/v1/keys') response.writeHead(307, { location: '/v1/keys?moved' }).end()
      else send(response, { status: 200, body: { keys: [], count: 0 } })
      return true
    }
    const following: typeof fetch = (input, init) => fetch(input, { ...init, redirect: 'follow' })
    const error = await failure(connect({ fetch: following }).keys.list())
    expect(error.code).toBe('E_PROTOCOL')
  })

  it('is refused as in browsers too, where fetch tells nothing of it', async () => {
    const opaque = { status: 0, type: 'opaqueredirect', redirected: false, headers: new Headers(), body: null }
    const error = await failure(connect({ fetch: async () => opaque }).keys.list())
    expect(error).toMatchObject({ code: 'E_PROTOCOL', retryable: false })
    expect(error.message).toContain('redirect')
  })

  it('is refused too where a Request takes no redirect: "error", and no cache either, as in workerd', async () => {
    const refused: string[] = []
    class WorkerRequest extends Request {
      constructor(input: RequestInfo | URL, init: RequestInit = {}) {
        if (init.redirect === 'error' || init.cache !== undefined) {
          refused.push(JSON.stringify(init))
          throw new TypeError('unknown value')
        }
        super(input, init)
      }
    }
    const sent: object[] = []
    const { createClient: createThere } = await loadOn<typeof import('../index.js')>(
      { Request: WorkerRequest },
      new URL('../index.ts', import.meta.url),
    )
    const recording: typeof fetch = (input, init) => {
      sent.push(init ?? {})
      return fetch(new WorkerRequest(input, init))
    }
    const eaas = createThere({ baseUrl: service.url, apiKey: API_KEY, fetch: recording })
    expect(await eaas.decryptText(stored)).toBe('SECRET')
    for (const target of [sinkUrl, '/sink', `${service.url}/sink`]) {
      service.intercept = redirectTo(target, 307)
      expect((await failure(eaas.keys.list())).code).toBe('E_PROTOCOL')
    }
    expect(hits).toEqual([])
    expect(sent).toHaveLength(4)
    expect(refused).toEqual(['{"cache":"no-store"}']) // asked once
    eaas.close()
  })
})
