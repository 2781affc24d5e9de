// Which calls the SDK tries again, after what, how often and for how long.
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { inspect } from 'node:util'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Client } from '../index.js'
import { failure } from '../test-support/clients.js'
import { calls, connect, keyId, service, useEveryCall } from '../test-support/every-call.js'
import { API_KEY, type Intercept, problem, send } from '../test-support/service.js'

useEveryCall()

describe('retries', () => {
  const failing =
    (status: number): Intercept =>
    (_, response) => {
      send(response, problem(status, 'As asked', 'E_UNAVAILABLE'))
      return true
    }

  describe.each(calls)('%s', (name, repeatable, run) => {
    it.each([500, 502, 503, 504])(`after %d is ${repeatable ? 'tried again' : 'not tried again'}`, async (status) => {
      service.intercept = failing(status)
      const error = await failure(run(connect()))
      expect(error).toMatchObject({ code: 'E_API', httpStatus: status, retryable: repeatable })
      expect(service.count(name)).toBe(repeatable ? 3 : 1)
    })

    it.each([400, 401, 403, 404, 408, 409, 413, 422, 425, 429, 501, 505])(
      'after %d is not tried again',
      async (status) => {
        service.intercept = failing(status)
        const error = await failure(run(connect()))
        expect(error).toMatchObject({ code: 'E_API', httpStatus: status, retryable: false })
        expect(service.count(name)).toBe(1)
      },
    )

    it.each([
      ['before the answer', (response: ServerResponse) => response.destroy()],
      [
        'half-way through the body',
        (response: ServerResponse) => {
          response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' })
          response.write('{"keys":')
          setTimeout(() => response.destroy(), 10)
        },
      ],
    ])(
      `after a connection that breaks %s is ${repeatable ? 'tried again' : 'not tried again'}`,
      async (_, breakOff) => {
        service.intercept = (__, response) => {
          breakOff(response)
          return true
        }
        const error = await failure(run(connect()))
        expect(error).toMatchObject({ code: 'E_NETWORK', retryable: repeatable })
        expect(service.count(name)).toBe(repeatable ? 3 : 1)
      },
    )
  })

  it('a call succeeds when a later attempt does', async () => {
    service.intercept = (_, response) => {
      if (service.requests.length > 2) return false
      if (service.requests.length === 1) response.destroy()
      else send(response, problem(503, 'Service Unavailable', 'E_UNAVAILABLE'))
      return true
    }
    const eaas = connect()
    expect(await eaas.decryptText(await eaas.encrypt('third time', { keyId }))).toBe('third time')
    expect(service.count('wrap')).toBe(3)
    // All attempts send the same DEK, so that at most one of the tokens is ever used, and no DEK seals for
    // two of them.
    expect(new Set(service.wrappedDeks().map((dek) => dek.toString('hex'))).size).toBe(1)
  })

  it('tries as often as `retries` says', async () => {
    service.intercept = failing(503)
    await failure(connect({ retries: 0 }).keys.list())
    expect(service.requests.length).toBe(1)
    await failure(connect({ retries: 4 }).keys.list())
    expect(service.requests.length).toBe(6)
  })

  it.each([
    ['twice as long each time, and 2 seconds at most', 1, [100, 200, 400, 800, 1_600, 2_000, 2_000]],
    ['a random share of that', 0.5, [50, 100, 200, 400, 800, 1_000, 1_000]],
  ])('waits between attempts %s', async (_, random, expected) => {
    vi.spyOn(Math, 'random').mockReturnValue(random)
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] })
    onTestFinished(() => {
      vi.useRealTimers()
      vi.restoreAllMocks()
    })
    const times: number[] = []
    const fetch = async () => {
      times.push(Date.now())
      return Response.json({}, { status: 503, headers: { 'content-type': 'application/problem+json' } })
    }
    const failing = failure(connect({ retries: 7, fetch }).keys.list())
    await vi.advanceTimersByTimeAsync(10_000)
    await failing
    expect(times.slice(1).map((time, at) => time - (times[at] ?? 0))).toEqual(expected)
  })

  it('passes fetch the URL as text and plain options, at each attempt', async () => {
    const seen: unknown[] = []
    const fetch = async (...call: unknown[]) => {
      seen.push(call)
      throw new TypeError('fetch failed')
    }
    await failure(connect({ retries: 1, fetch }).hash('a', { keyId }))
    const init = {
      method: 'POST',
      body: JSON.stringify({ value: 'a', key_id: keyId }),
      redirect: 'manual',
      cache: 'no-store',
    }
    const call = [`${service.url}/v1/hash`, expect.objectContaining(init)]
    expect(seen).toEqual([call, call])
    for (const [, { headers, signal }] of seen as [string, { headers: object; signal: unknown }][]) {
      expect(Object.getPrototypeOf(headers)).toBe(Object.prototype)
      expect(signal).toBeInstanceOf(AbortSignal)
    }
  })

  it('does not obey Retry-After', async () => {
    service.intercept = (_, response) => {
      response.setHeader('retry-after', '3600')
      return failing(503)({} as never, response)
    }
    const started = performance.now()
    await failure(connect().keys.list())
    expect(performance.now() - started).toBeLessThan(5_000)
    expect(service.requests.length).toBe(3)
  })

  it('the deadline is over all attempts, and says how long it was', async () => {
    service.intercept = failing(503)
    const error = await failure(connect({ retries: 10, timeoutMs: 400 }).keys.list())
    expect(error).toMatchObject({ code: 'E_TIMEOUT', retryable: true })
    expect(error.message).toContain('400 ms')
  })

  it('a service that cannot be reached is a network error that names origin and reason', async () => {
    const closed = createServer()
    await new Promise<void>((resolve) => closed.listen(0, '127.0.0.1', resolve))
    const baseUrl = `http://127.0.0.1:${(closed.address() as AddressInfo).port}`
    await new Promise((resolve) => closed.close(resolve))
    const error = await failure(connect({ baseUrl }).keys.list())
    expect(error).toMatchObject({ code: 'E_NETWORK', retryable: true })
    expect(error.message).toContain(`${baseUrl} (ECONNREFUSED)`)
  })

  it.each<[string, string, (eaas: Client, controller: AbortController) => unknown]>([
    ['the signal is aborted', 'E_ABORTED', (_, controller) => controller.abort()],
    ['the client is closed', 'E_ABORTED', (eaas) => eaas.close()],
    ['the deadline has passed', 'E_TIMEOUT', () => undefined],
  ])('nothing is sent any more once %s, however late the API key comes', async (_, code, end) => {
    for (const refused of [false, true]) {
      const fetch = vi.fn<typeof globalThis.fetch>(async (url) => globalThis.fetch(url, { headers: {} })) // 401
      let give: (apiKey: string) => void = () => undefined
      const late = new Promise<string>((resolve) => {
        give = resolve
      })
      const apiKey = (key?: string) => (refused && key === undefined ? 'eaas_sk_refused' : late)
      const eaas = connect({ fetch, apiKey, timeoutMs: 300 })
      const controller = new AbortController()
      const error = failure(eaas.keys.list({ signal: controller.signal }))
      await expect.poll(() => fetch).toHaveBeenCalledTimes(refused ? 1 : 0)
      await new Promise((resolve) => setTimeout(resolve, 50))
      end(eaas, controller)
      expect((await error).code).toBe(code)
      give(API_KEY)
      await new Promise((resolve) => setTimeout(resolve, 20))
      expect(fetch).toHaveBeenCalledTimes(refused ? 1 : 0)
    }
  })

  it('no error holds the request, and with it the API key or the DEK', async () => {
    for (const intercept of [failing(503), ((_, response) => !!response.destroy()) satisfies Intercept]) {
      service.intercept = intercept
      for (const [, , run] of calls) {
        const error = await failure(run(connect({ retries: 0 })))
        const shown = inspect(error, { depth: 9, showHidden: true })
        expect(shown).not.toContain(API_KEY)
        expect(shown).not.toContain('SECRET')
        for (const dek of service.wrappedDeks()) expect(shown).not.toContain(dek.toString('base64'))
        if (error.code === 'E_NETWORK') expect(error.cause).toMatchObject({ message: 'fetch failed', cause: {} })
        else expect(error.cause).toBeUndefined()
      }
    }
  })
})
