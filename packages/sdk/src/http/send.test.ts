import dns from 'node:dns'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { inspect } from 'node:util'
import { gzipSync } from 'node:zlib'
import type { Envelope } from '@eaas/protocol'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { loadOn } from '../../../../test/support/platform.js'
import type { Client } from '../index.js'
import { clientsOf, failure, useService } from '../test-support/clients.js'
import { API_KEY, type Intercept, problem, send } from '../test-support/service.js'

const service = useService()
let keyId: string
let stored: Envelope
const connect = clientsOf(service)

beforeEach(async () => {
  keyId = service.createKey()
  stored = await connect().encrypt('SECRET', { keyId })
  service.requests.length = 0
})

/** Every call that the SDK makes, and whether it may be repeated. */
const calls = [
  ['wrap', true, (eaas: Client) => eaas.encrypt('SECRET', { keyId })],
  ['unwrap', true, (eaas: Client) => eaas.decrypt(stored)],
  ['hash', true, (eaas: Client) => eaas.hash('SECRET', { keyId })],
  ['list', true, (eaas: Client) => eaas.keys.list()],
  ['get', true, (eaas: Client) => eaas.keys.get(keyId)],
  ['audit', true, (eaas: Client) => eaas.audit.list()],
  ['verify', true, (eaas: Client) => eaas.audit.verify()],
  ['create', false, (eaas: Client) => eaas.keys.create({ name: 'retried' })],
  ['rotate', false, (eaas: Client) => eaas.keys.rotate(keyId)],
  ['rotation', false, (eaas: Client) => eaas.keys.setRotation(keyId, 30)],
  ['disable', false, (eaas: Client) => eaas.keys.disable(keyId)],
  ['enable', false, (eaas: Client) => eaas.keys.enable(keyId)],
  ['destroy', false, (eaas: Client) => eaas.keys.destroy(keyId, 'k')],
  ['cancel', false, (eaas: Client) => eaas.keys.cancelDestruction(keyId)],
  ['export', false, (eaas: Client) => eaas.keys.export(keyId)],
  ['list api-keys', true, (eaas: Client) => eaas.apiKeys.list()],
  ['create api-keys', false, (eaas: Client) => eaas.apiKeys.create({ name: 'ci', permissions: [] })],
  ['update api-keys', false, (eaas: Client) => eaas.apiKeys.update(keyId, {})],
  ['revoke api-keys', false, (eaas: Client) => eaas.apiKeys.revoke(keyId)],
  ['tenant', true, (eaas: Client) => eaas.tenant()],
  ['usage', true, (eaas: Client) => eaas.usage()],
  ['encrypt', true, (eaas: Client) => eaas.server.encrypt('SECRET', { keyId })],
  ['decrypt', true, (eaas: Client) => eaas.server.decrypt(stored)],
  ['rewrap', true, (eaas: Client) => eaas.rewrap(stored)],
  ['batch', true, (eaas: Client) => Promise.all([eaas.hash('SECRET', { keyId }), eaas.hash('SECRET2', { keyId })])],
] as const

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

  /** The sink under a name below the one that the service would have; names do not resolve here by themselves. */
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

  it('is refused too where a Request takes no redirect: "error", and no cache either, as in workerd', async () => {
    const refused: string[] = []
    class WorkerRequest extends Request {
      constructor(input: RequestInfo | URL, init: RequestInit = {}) {
        if (init.redirect === 'error' || init.cache !== undefined) {
          refused.push(JSON.stringify(init))
          throw new TypeError('unknown value of redirect')
        }
        super(input, init)
      }
    }
    const { createClient: createThere } = await loadOn<typeof import('../index.js')>(
      { Request: WorkerRequest },
      new URL('../index.ts', import.meta.url),
    )
    const eaas = createThere({ baseUrl: service.url, apiKey: API_KEY })
    expect(await eaas.decryptText(stored)).toBe('SECRET')
    for (const target of [sinkUrl, '/sink', `${service.url}/sink`]) {
      service.intercept = redirectTo(target, 307)
      expect((await failure(eaas.keys.list())).code).toBe('E_PROTOCOL')
    }
    expect(hits).toEqual([])
    expect(refused).toEqual(['{"redirect":"error","cache":"no-store"}', '{"redirect":"manual","cache":"no-store"}'])
    eaas.close()
  })

  it('is refused too when the fetch that was passed hands it over', async () => {
    const handing: typeof fetch = async () => new Response(null, { status: 302, headers: { location: sinkUrl } })
    expect((await failure(connect({ fetch: handing }).keys.list())).code).toBe('E_PROTOCOL')
  })
})

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
      expect(error).toMatchObject({ code: 'E_API', status, retryable: repeatable })
      expect(service.count(name)).toBe(repeatable ? 3 : 1)
    })

    it.each([400, 401, 403, 404, 408, 409, 413, 422, 425, 429, 501, 505])(
      'after %d is not tried again',
      async (status) => {
        service.intercept = failing(status)
        const error = await failure(run(connect()))
        expect(error).toMatchObject({ code: 'E_API', status, retryable: false })
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
    // All attempts send the same DEK, so that at most one of the tokens is ever used, and no DEK seals for two of them.
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
    ['a random share of that', 0.5, [50, 100, 200, 400, 800, 1_600, 2_000]],
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
    const init = { method: 'POST', body: JSON.stringify({ value: 'a', key_id: keyId }), redirect: 'error' }
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
      await vi.waitFor(() => expect(fetch).toHaveBeenCalledTimes(refused ? 1 : 0))
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

describe('a malicious service', () => {
  const json = { 'content-type': 'application/json' }
  const dek = Buffer.alloc(32, 1).toString('base64')
  const body = (value: string | Uint8Array, headers: Record<string, string> = json, status = 200): Intercept => {
    return (_, response) => {
      response.writeHead(status, headers).end(value)
      return true
    }
  }
  const unwrapped = (over: object) => body(JSON.stringify({ dek, key_id: keyId, key_version: 1, ...over }))
  const wrapped = (over: object) =>
    body(JSON.stringify({ wrapped_key: 'AAAA', key_id: keyId, key_version: 1, ...over }))
  const anyVersion = [0, -1, 1.5, 2 ** 31, 2 ** 60, '1', null, true, [1], { n: 1 }]

  const rightAnswers: Record<string, () => unknown> = {
    wrap: () => ({ wrapped_key: 'AAAA', key_id: keyId, key_version: 1 }),
    unwrap: () => ({ dek, key_id: keyId, key_version: 1 }),
    hash: () => ({ hash: 'a'.repeat(64), key_id: keyId }),
    list: () => ({ keys: [], count: 0 }),
    audit: () => ({ logs: [], count: 0, total: 0, limit: 50, offset: 0 }),
  }

  const answers: [string, () => Intercept][] = [
    [
      'what would be right, as HTML',
      () => (request, response) => {
        const body = rightAnswers[request.operation]
        response.writeHead(200, { 'content-type': 'text/html' }).end(JSON.stringify(body?.()))
        return true
      },
    ],
    ['a page of HTML', () => body('<h1>hello</h1>', { 'content-type': 'text/html' })],
    ['JSON that says it is HTML', () => body('{}', { 'content-type': 'text/html' })],
    ['HTML that says it is JSON', () => body('<h1>hello</h1>')],
    ['JSON without a content type', () => body('{}', {})],
    ['a success with the type of a problem', () => body('{}', { 'content-type': 'application/problem+json' })],
    ['nothing, with status 204', () => (_, response) => !!response.writeHead(204).end()],
    ['nothing, with status 205', () => (_, response) => !!response.writeHead(205).end()],
    ['nothing, with status 200', () => body('')],
    ['{}', () => body('{}')],
    ['null', () => body('null')],
    ['an array', () => body('[]')],
    ['a number', () => body('1')],
    ['a string', () => body('"ok"')],
    ['JSON that is cut off', () => body(`{"dek":"${dek}`)],
    ['two JSON documents', () => body('{}{}')],
    ['JSON after a byte order mark and a comma', () => body('\ufeff,{}')],
    ['bytes that are not UTF-8', () => body(Buffer.from('7b22ff227d', 'hex'))],
    [
      '__proto__',
      () => body('{"__proto__":{"dek":"x","polluted":true},"constructor":{"prototype":{"polluted":true}}}'),
    ],
    ['arrays in arrays, 100,000 deep', () => body('['.repeat(100_000) + ']'.repeat(100_000))],
    ['a megabyte of white space', () => body(' '.repeat(1024 * 1024 + 1))],
    ['a gzip bomb', () => body(gzipSync(Buffer.alloc(64 * 1024 * 1024, 32)), { ...json, 'content-encoding': 'gzip' })],
    ['gzip that is none', () => body('{}', { ...json, 'content-encoding': 'gzip' })],
    ['an error without a problem document', () => body('{}', json, 400)],
    ['an error that is a page', () => body('<h1>no</h1>', { 'content-type': 'text/html' }, 404)],
    ['an error that is empty', () => body('{}', { 'content-type': 'application/problem+json' }, 409)],
    [
      'a problem of another status',
      () => body(JSON.stringify(problem(404, 'x', 'y').body), { 'content-type': 'application/problem+json' }, 403),
    ],
  ]

  const toUnwrap: [string, () => Intercept][] = [
    ...[0, 16, 31, 33, 64].map((length): [string, () => Intercept] => [
      `a DEK of ${length} bytes`,
      () => unwrapped({ dek: Buffer.alloc(length, 1).toString('base64') }),
    ]),
    ['a DEK in hexadecimal', () => unwrapped({ dek: Buffer.alloc(32, 1).toString('hex') })],
    ['a DEK in URL-safe base64', () => unwrapped({ dek: Buffer.alloc(32, 255).toString('base64url') })],
    ['a DEK without padding', () => unwrapped({ dek: dek.replace('=', '') })],
    ['a DEK with non-zero trailing bits', () => unwrapped({ dek: dek.replace('E=', 'F=') })],
    ['a DEK with a line feed', () => unwrapped({ dek: `${dek}\n` })],
    ['a DEK as an array', () => unwrapped({ dek: [...Buffer.alloc(32)] })],
    ['a DEK as an object', () => unwrapped({ dek: { type: 'Buffer', data: [...Buffer.alloc(32)] } })],
    ['a DEK of null', () => unwrapped({ dek: null })],
    ['the DEK of another key', () => unwrapped({ key_id: '00000000-0000-4000-8000-000000000000' })],
    ['a key id that is a path', () => unwrapped({ key_id: '../admin' })],
    ['no key id', () => unwrapped({ key_id: undefined })],
    ...anyVersion.map((key_version): [string, () => Intercept] => [
      `key_version ${JSON.stringify(key_version)}`,
      () => unwrapped({ key_version }),
    ]),
  ]

  const toWrap: [string, () => Intercept][] = [
    ['an empty wrapped key', () => wrapped({ wrapped_key: '' })],
    ['a wrapped key that is a number', () => wrapped({ wrapped_key: 7 })],
    ['a wrapped key of null', () => wrapped({ wrapped_key: null })],
    ['a wrapped key of 10 MB', () => wrapped({ wrapped_key: 'A'.repeat(10_000_000) })],
    ['the id of another key', () => wrapped({ key_id: '00000000-0000-4000-8000-000000000000' })],
    ['no key version', () => wrapped({ key_version: undefined })],
    ...anyVersion.map((key_version): [string, () => Intercept] => [
      `key_version ${JSON.stringify(key_version)}`,
      () => wrapped({ key_version }),
    ]),
  ]

  it.each(answers)('is refused by every call: %s', async (answer, intercept) => {
    service.intercept = intercept()
    for (const [name, , run] of calls) {
      // What these two promise.
      if (answer.endsWith('204') && (name === 'disable' || name === 'revoke api-keys')) continue
      const error = await failure(run(connect({ retries: 0 })))
      expect(['E_PROTOCOL', 'E_NETWORK']).toContain(error.code)
      expect(inspect(error)).not.toContain('SECRET')
      expect(inspect(error)).not.toContain(dek)
    }
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
  })

  it.each(toUnwrap)('is refused when it answers unwrap with %s', async (_, intercept) => {
    service.intercept = intercept()
    const error = await failure(connect().decryptText(stored))
    expect(error.code).toBe('E_PROTOCOL')
    expect(inspect(error)).not.toContain(dek)
    service.intercept = undefined
  })

  it.each(toWrap)('is refused when it answers wrap with %s', async (_, intercept) => {
    service.intercept = intercept()
    expect((await failure(connect().encrypt('SECRET', { keyId }))).code).toBe('E_PROTOCOL')
  })

  it('is refused when it answers hash with anything but 64 hexadecimal digits for that key', async () => {
    const hash = 'a'.repeat(64)
    const wrong = [
      { hash: hash.toUpperCase() },
      { hash: hash.slice(1) },
      { hash: `${hash}\n` },
      { hash: 1 },
      { key_id: stored.iv },
    ]
    for (const over of wrong) {
      service.intercept = body(JSON.stringify({ hash, key_id: keyId, ...over }))
      expect((await failure(connect().hash('SECRET', { keyId }))).code).toBe('E_PROTOCOL')
    }
  })

  it('gets a decryption error, and no plaintext out, for a wrong DEK of the right length', async () => {
    service.intercept = unwrapped({})
    const error = await failure(connect().decryptText(stored))
    expect(error).toMatchObject({
      code: 'E_DECRYPTION',
      message: 'could not decrypt: altered, or encrypted under another key',
    })
  })

  it('is cut off when its answer never ends', async () => {
    let sent = 0
    service.intercept = (_, response) => {
      response.writeHead(200, json)
      const chunk = Buffer.alloc(64 * 1024, 32)
      const more = () => {
        while (!response.destroyed && response.write(chunk)) sent += chunk.length
      }
      response.on('drain', more)
      more()
      return true
    }
    expect((await failure(connect().keys.list())).code).toBe('E_PROTOCOL')
    expect(sent).toBeLessThan(16 * 1024 * 1024)
  })

  it.each(calls)('cannot hold %s beyond the deadline by answering a byte at a time', async (_, __, run) => {
    service.intercept = (___, response) => {
      response.writeHead(200, json)
      const timer = setInterval(() => response.write(' '), 20)
      response.on('close', () => clearInterval(timer))
      return true
    }
    const started = performance.now()
    expect((await failure(run(connect({ timeoutMs: 200 })))).code).toBe('E_TIMEOUT')
    expect(performance.now() - started).toBeLessThan(2_000)
  })

  it('cannot hold a call by never answering, even when fetch ignores its signal', async () => {
    const deaf: typeof fetch = () => new Promise(() => undefined)
    expect((await failure(connect({ fetch: deaf, timeoutMs: 50 }).keys.list())).code).toBe('E_TIMEOUT')
  })

  it('cannot put anything but visible text of a fair length into an error', async () => {
    service.intercept = (_, response) => {
      response.setHeader('x-request-id', 'a'.repeat(1_000))
      const detail = `\u001b[31m\u0000\r\nerror: fake \ud800 ${'x'.repeat(100_000)}`
      const { body: document } = problem(400, 'Bad Request', 'E_VALIDATION', detail)
      response.writeHead(400, { 'content-type': 'application/problem+json' }).end(JSON.stringify(document))
      return true
    }
    const error = await failure(connect().keys.list())
    expect(error.message).not.toMatch(/[\p{Cc}\p{Surrogate}]/u)
    expect(error.message.length).toBeLessThan(2_000)
    expect(error).toMatchObject({ code: 'E_API', requestId: undefined })
  })

  it.each<[string, (value: string) => Intercept]>([
    [
      'the request id',
      (value) => (_, response) => {
        const headers = { 'content-type': 'application/problem+json', 'x-request-id': `${value}.${API_KEY}` }
        response.writeHead(400, headers).end(JSON.stringify(problem(400, 'Bad Request', 'E_VALIDATION').body))
        return true
      },
    ],
    ['the content type', (value) => body('{}', { 'content-type': `text/${value}; ${API_KEY}` })],
    ['a name', (value) => body(JSON.stringify({ month: '2026-01', operations: { [value + API_KEY]: 'x' } }))],
  ])('cannot put a secret into an error by %s', async (_, intercept) => {
    service.intercept = intercept('SECRET')
    const errors = [await failure(connect().hash('SECRET', { keyId })), await failure(connect().usage())]
    for (const error of errors.slice(0, 1)) expect(inspect(error, { depth: 9 })).not.toMatch(/SECRET/i)
    for (const error of errors) expect(inspect(error, { depth: 9 }).toLowerCase()).not.toContain(API_KEY.toLowerCase())
  })

  it('cannot put anything but visible text of a fair length into an error by a name that it makes up', async () => {
    const name = `\u001b[31m\r\nerror: fake ${'x'.repeat(100_000)}`
    service.intercept = body(JSON.stringify({ month: '2026-01', operations: { [name]: 'x' } }))
    const error = await failure(connect().usage())
    expect(error.message).toContain('error: fake')
    expect(error.message).not.toMatch(/\p{Cc}/u)
    expect(error.message.length).toBeLessThan(2_000)
  })

  it('is not sent cookies, a referrer, or anything but the bearer token', async () => {
    await connect().keys.list()
    const headers = service.requests[0]?.headers as IncomingMessage['headers']
    expect(Object.keys(headers).filter((name) => ['cookie', 'referer', 'origin'].includes(name))).toEqual([])
    expect(headers.authorization).toBe(`Bearer ${API_KEY}`)
    expect(headers.accept).toBe('application/json, application/problem+json')
  })
})
