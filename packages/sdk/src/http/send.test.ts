// What a service that stalls, floods, or answers wrongly over HTTP itself can do to a call: nothing but make it fail. Every lie in the
// body of an answer is in test/sdk/client/malicious.test.ts.
import { inspect } from 'node:util'
import { gzipSync } from 'node:zlib'
import type { Envelope } from '@eaas/protocol'
import { describe, expect, it, vi } from 'vitest'
import { type Client, type IndexBy, text } from '../index.js'
import { failure } from '../test-support/clients.js'
import { calls, connect, keyId, service, useEveryCall } from '../test-support/every-call.js'
import { API_KEY, type Intercept, problem } from '../test-support/service.js'

useEveryCall()

describe('a malicious service', () => {
  const json = { 'content-type': 'application/json' }
  const dek = Buffer.alloc(32, 1).toString('base64')
  const body = (value: string | Uint8Array, headers: Record<string, string> = json, status = 200): Intercept => {
    return (_, response) => {
      response.writeHead(status, headers).end(value)
      return true
    }
  }

  const rightAnswers: Record<string, () => unknown> = {
    wrap: () => ({ wrapped_key: 'AAAA', key_id: keyId, key_version: 1 }),
    unwrap: () => ({ dek, key_id: keyId, key_version: 1 }),
    hash: () => ({ hash: 'a'.repeat(64), key_id: keyId }),
    list: () => ({ keys: [], count: 0 }),
    audit: () => ({ logs: [], count: 0, total: 0, limit: 50, offset: 0 }),
  }

  /** The code is E_PROTOCOL where none is named. */
  const answers: [string, () => Intercept, code?: string][] = [
    [
      'what would be right, as HTML',
      () => (request, response) => {
        const body = rightAnswers[request.operation]
        response.writeHead(200, { 'content-type': 'text/html' }).end(JSON.stringify(body?.()))
        return true
      },
    ],
    ['nothing, with status 204', () => (_, response) => !!response.writeHead(204).end()],
    ['a gzip bomb', () => body(gzipSync(Buffer.alloc(20 * 1024 * 1024, 32)), { ...json, 'content-encoding': 'gzip' })],
    ['gzip that is none', () => body('{}', { ...json, 'content-encoding': 'gzip' }), 'E_NETWORK'],
  ]

  it.each(answers)('is refused by every call: %s', async (answer, intercept, code = 'E_PROTOCOL') => {
    service.intercept = intercept()
    for (const [name, , run] of calls) {
      // What these two promise.
      if (answer.endsWith('204') && (name === 'disable' || name === 'revoke api-keys')) continue
      const error = await failure(run(connect({ retries: 0 })))
      expect(error.code, name).toBe(code)
      expect(inspect(error)).not.toContain('SECRET')
      expect(inspect(error)).not.toContain(dek)
    }
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

  const refusing = (detail: string) => {
    const { body: document } = problem(400, 'Bad Request', 'E_VALIDATION', detail)
    return body(JSON.stringify(document), { 'content-type': 'application/problem+json' }, 400)
  }

  it('cannot make a call search a long text for secrets, or show a part of one where the text is cut', async () => {
    const value = `SECRET${'-0123456789'.repeat(20)}`
    const searching = vi.spyOn(String.prototype, 'replaceAll')
    service.intercept = refusing(`no: ${value.repeat(2_000)}`)
    const { message } = await failure(connect().keys.create({ name: value }))
    const lengths = searching.mock.contexts.map((searched) => String(searched).length)
    searching.mockRestore()
    expect(Math.max(...lengths)).toBeLessThan(2_000)
    expect(message).toMatch(/\[removed\]/)
    expect(message).not.toMatch(/SECRET|0123/)
  })

  it('whose answer is not UTF-8 keeps no connection open by it', async () => {
    const cancel = vi.fn()
    const answer = new ReadableStream({ start: (controller) => controller.enqueue(Uint8Array.of(0xff)), cancel })
    const eaas = connect({ fetch: async () => new Response(answer, { headers: json }) })
    expect((await failure(eaas.keys.list())).message).toContain('not UTF-8')
    expect(cancel).toHaveBeenCalledTimes(1)
  })

  const KEY = 'q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA='
  it.each<[string, (eaas: Client) => Promise<unknown>]>([
    ['wrap', (eaas) => eaas.encrypt('x', { keyId })],
    ['hash', (eaas) => eaas.hash('x', { keyId })],
    ['batch', (eaas) => Promise.all([eaas.hash('x', { keyId }), eaas.hash('y', { keyId })])],
    ['indexSecret', (eaas) => indexed(eaas, {})],
    ['blindHash', (eaas) => indexed(eaas, { by: 'oblivious', publicKey: KEY })],
    ['encrypt', (eaas) => eaas.server.encrypt('x', { keyId })],
    ['decrypt', async (eaas) => eaas.server.decrypt(await sealed(1))],
    ['unwrap', async (eaas) => eaas.decrypt(await sealed(2))],
    ['rewrap', async (eaas) => eaas.rewrap(await sealed(2))],
    ['export', (eaas) => eaas.keys.export(keyId)],
    ['createKey', (eaas) => eaas.keys.create({ name: 'x' })],
    ['createApiKey', (eaas) => eaas.apiKeys.create({ name: 'x', permissions: ['hash'] })],
    ['get', (eaas) => eaas.keys.get(keyId)],
  ])('cannot put a secret of an earlier call into an error of %s', async (operation, call) => {
    const isManagement = ['createKey', 'createApiKey', 'get'].includes(operation)
    const told = isManagement ? `key ${KEY}` : `Ada has HIV, key ${KEY.replace('E', 'E ')}`
    await Promise.all([sealed(1), sealed(2)])
    service.intercept = (_, response) => {
      const { body } = problem(400, told, 'E_VALIDATION', told)
      const headers = { 'content-type': 'application/problem+json', 'x-request-id': KEY }
      response.writeHead(400, headers).end(JSON.stringify(body))
      return true
    }
    const error = await failure(call(connect()))
    expect(error.hint).toMatch(/\w/)
    const shown = inspect(error, { depth: 9, showHidden: true })
    expect(shown).toContain('E_VALIDATION')
    expect(shown).not.toMatch(/Ada|HIV|q83v|WeJCrze8SNFZ4kKv/)
  })

  const indexed = (eaas: Client, index: IndexBy) =>
    eaas
      .model({ name: 'patients', keyId, bind: false, warn: false, index, fields: { name: text({ index: 'i' }) } })
      .index({ name: 'x' })
  const envelopes = new Map<string, Promise<Envelope>>()
  /** An envelope of the key, sealed before the service lies. */
  const sealed = (envelope: 1 | 2) => {
    const known = envelopes.get(keyId + envelope) ?? connect().encrypt('x', { keyId, envelope })
    envelopes.set(keyId + envelope, known)
    return known
  }

  it('names the permission that a call lacks, if there is such a permission', async () => {
    for (const [said, shown] of [
      ['hash', true],
      ['HIV', false],
    ] as const) {
      service.intercept = refusing(`missing permission: ${said}`)
      expect((await failure(connect().hash('x', { keyId }))).message.includes(said)).toBe(shown)
    }
  })

  it('cannot put anything but visible text of a fair length into an error by a name that it makes up', async () => {
    const name = `\u001b[31m\r\nerror: fake ${'x '.repeat(50_000)}`
    service.intercept = body(JSON.stringify({ month: '2026-01', operations: { [name]: 'x' } }))
    const error = await failure(connect().usage())
    expect(error.message).toContain('error: fake')
    expect(error.message).not.toMatch(/\p{Cc}/u)
    expect(error.message.length).toBeLessThan(2_000)
  })

  it('is sent no headers but those that any fetch sends, and the bearer token', async () => {
    const namesOf = () => Object.keys(service.requests.at(-1)?.headers ?? {}).sort()
    await fetch(`${service.url}/v1/keys`, { cache: 'no-store' })
    const ofAnyFetch = namesOf()
    await connect().keys.list()
    expect(namesOf()).toEqual(['authorization', ...ofAnyFetch].sort())
    const { authorization, accept } = service.requests.at(-1)?.headers ?? {}
    expect(authorization).toBe(`Bearer ${API_KEY}`)
    expect(accept).toBe('application/json, application/problem+json')
  })

  it('gets neither cookies nor a referrer from a page: fetch is told so', async () => {
    const spy = vi.fn<typeof fetch>((...call) => fetch(...call))
    const eaas = connect({ fetch: spy })
    await eaas.keys.list()
    const sent = {
      method: 'GET',
      headers: { accept: 'application/json, application/problem+json', authorization: `Bearer ${API_KEY}` },
      redirect: 'manual',
      cache: 'no-store',
      credentials: 'omit',
      referrerPolicy: 'no-referrer',
      signal: expect.any(AbortSignal),
    }
    expect(spy.mock.calls).toEqual([[`${service.url}/v1/keys`, sent]])
    spy.mockClear()
    await eaas.hash('a', { keyId })
    const posted = {
      ...sent,
      method: 'POST',
      headers: { ...sent.headers, 'content-type': 'application/json' },
      body: JSON.stringify({ value: 'a', key_id: keyId }),
    }
    expect(spy.mock.calls).toEqual([[`${service.url}/v1/hash`, posted]])
  })
})
