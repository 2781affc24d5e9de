// The `fetch` of another library, as an application passes it: undici's own, whose types are not the global one's.
import { createServer } from 'node:http'
import { type AddressInfo, connect as connectTo } from 'node:net'
import { ProxyAgent, fetch as undiciFetch } from 'undici'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, expectTypeOf, it } from 'vitest'
import { createBroker } from '../../../packages/sdk/src/broker.js'
import type { Fetch } from '../../../packages/sdk/src/index.js'
import { keyId, useClients } from '../../../packages/sdk/src/test-support/clients.js'
import { API_KEY } from '../../../packages/sdk/src/test-support/service.js'

const { service, connect } = useClients()
let tunnels: (string | undefined)[]
let dispatcher: ProxyAgent

/** A proxy as companies have them: it connects to where CONNECT says. */
const proxy = createServer().on('connect', ({ url }, socket, head) => {
  tunnels.push(url)
  const { hostname, port } = new URL(`http://${url}`)
  const far = connectTo(Number(port), hostname, () => {
    socket.write('HTTP/1.1 200 OK\r\n\r\n')
    far.write(head)
    socket.pipe(far).pipe(socket)
  })
  far.on('error', () => socket.destroy())
  socket.on('error', () => far.destroy())
})
beforeAll(() => new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve)))
afterAll(() => new Promise((resolve) => proxy.close(resolve)))
beforeEach(() => {
  tunnels = []
  dispatcher = new ProxyAgent(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}`)
})
afterEach(() => dispatcher.destroy())

const throughProxy: Fetch = (url, init) => undiciFetch(url, { ...init, dispatcher })

/** What a page asks a broker. */
const askForHash = () =>
  new Request('http://localhost/api/eaas/v1/hash', {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' },
    body: JSON.stringify({ key_id: keyId, value: 'x' }),
  })

describe("undici's own fetch", () => {
  it('is taken by a client as it is, and with a dispatcher', async () => {
    const envelope = await connect({ fetch: undiciFetch }).encrypt('x', { keyId })
    expect(tunnels).toEqual([])
    expect(await connect({ fetch: throughProxy }).decryptText(envelope)).toBe('x')
    expect(tunnels).toEqual([new URL(service.url).host])
  })

  it('is taken by a broker as it is, and with a dispatcher', async () => {
    for (const fetch of [undiciFetch, throughProxy]) {
      const broker = createBroker({
        baseUrl: service.url,
        apiKey: API_KEY,
        authenticate: () => ({ id: 'ada' }),
        allow: { hash: [keyId] },
        fetch,
      })
      expect((await broker(askForHash())).status).toBe(200)
    }
    expect(tunnels).toEqual([new URL(service.url).host])
  })
})

describe('the type of the option `fetch`', () => {
  it('takes the global fetch, and functions of the URL as text', () => {
    expectTypeOf<typeof globalThis.fetch>().toExtend<Fetch>()
    expectTypeOf<typeof undiciFetch>().toExtend<Fetch>()
    expectTypeOf<(url: string, init: RequestInit) => Promise<Response>>().toExtend<Fetch>()
    expectTypeOf<(url: string | URL | Request, init?: RequestInit) => Promise<Response>>().toExtend<Fetch>()
    expectTypeOf<() => Promise<Response>>().toExtend<Fetch>()
    expectTypeOf<(url: URL) => Promise<Response>>().not.toExtend<Fetch>()
    expectTypeOf<(url: string) => Promise<string>>().not.toExtend<Fetch>()
  })

  it('lets a broker call it with the URL as text', async () => {
    const urls: unknown[] = []
    const fetch: Fetch = (url, init) => {
      urls.push(url)
      return globalThis.fetch(url, init)
    }
    const options = { baseUrl: service.url, apiKey: API_KEY, fetch }
    const broker = createBroker({ ...options, authenticate: () => ({ id: 'ada' }), allow: { hash: [keyId] } })
    await connect({ fetch }).hash('x', { keyId })
    await broker(askForHash())
    expect(urls).toEqual([`${service.url}/v1/hash`, `${service.url}/v1/hash`])
  })
})
