// What a broker passes on and answers, over real HTTP: an application that mounts it, pages that call it, the
// service behind it.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import fastify from 'fastify'
import { describe, expect, it } from 'vitest'
import { encodeUserId, toNodeHandler } from '../broker.js'
import { createClient } from '../index.js'
import {
  ask,
  broker,
  DEK,
  keyId,
  otherKey,
  serveBroker,
  service,
  url,
  useBroker,
  wrapBody,
  wrapPath,
} from '../test-support/broker.js'
import { API_KEY, problem } from '../test-support/service.js'

useBroker()

describe('a broker', () => {
  it('passes a wrap on with the API key and the name of the user, and nothing else of the page', async () => {
    const { status, headers, body } = await ask(wrapPath(), {
      headers: {
        'x-csrf': 'page',
        authorization: 'Bearer page',
        'accept-language': 'fr',
        'x-forwarded-for': '9.9.9.9',
      },
      body: { dek: DEK, more: 'unknown', __proto__: null },
    })
    expect([status, body.key_id, body.key_version]).toEqual([200, keyId, 1])
    const [seen] = service.requests
    expect(seen).toMatchObject({ method: 'POST', url: `/v1/keys/${keyId}/wrap`, body: JSON.stringify({ dek: DEK }) })
    expect(seen?.headers).toMatchObject({ authorization: `Bearer ${API_KEY}`, 'eaas-on-behalf-of': 'ada' })
    for (const name of ['cookie', 'origin', 'referer', 'x-csrf', 'x-forwarded-for', 'sec-fetch-site']) {
      expect(seen?.headers).not.toHaveProperty(name)
    }
    expect(headers).toMatchObject({ 'content-type': 'application/json', 'x-request-id': 'req-1' })
    expect(headers).toMatchObject({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' })
  })

  it('lets no header of the service through but the content type and the request id', async () => {
    service.intercept = (_, response) => {
      response.writeHead(200, {
        'content-type': 'application/json; charset=utf-8',
        'x-request-id': 'req-9',
        'set-cookie': 'evil=1',
        'access-control-allow-origin': '*',
        server: 'internal/1.2',
      })
      response.end('{}')
      return true
    }
    const { headers } = await ask(wrapPath(), { body: { dek: DEK } })
    expect(Object.keys(headers).sort()).toEqual(
      [
        ...['cache-control', 'connection', 'content-length', 'content-type', 'date', 'keep-alive'],
        ...['x-content-type-options', 'x-request-id'],
      ].sort(),
    )
  })

  it('serves a client without an API key: encrypt, decrypt, search', async () => {
    const eaas = pageClient('sid=ada')
    const envelope = await eaas.encrypt('+33 6 12 34 56 78', { keyId })
    expect(await eaas.decryptText(envelope)).toBe('+33 6 12 34 56 78')
    expect(await pageClient('sid=ada').decryptText(envelope)).toBe('+33 6 12 34 56 78')
    expect(await eaas.hash('ada@example.org', { keyId })).toMatch(/^[0-9a-f]{64}$/)
    await expect(pageClient('sid=ben').decryptText(envelope)).rejects.toMatchObject({
      code: 'E_API',
      httpStatus: 403,
      problem: 'E_NOT_ALLOWED',
    })
    expect(service.requests.every(({ headers }) => headers.authorization === `Bearer ${API_KEY}`)).toBe(true)
  })

  it('answers in place for what is not allowed in a batch, and passes on the rest', async () => {
    const operations = [
      { op: 'wrap', key_id: otherKey, dek: DEK },
      { op: 'wrap', key_id: keyId, dek: DEK },
      { op: 'unwrap', key_id: keyId, wrapped_key: 'AAAA' },
      { op: 'hash', key_id: keyId, value: 'v' },
    ]
    const { status, body } = await ask('/api/eaas/v1/batch', { headers: { cookie: 'sid=ben' }, body: { operations } })
    expect(status).toBe(200)
    expect(body.results.map((result: { status: number }) => result.status)).toEqual([403, 200, 403, 200])
    expect(body.results[0].body).toMatchObject({ status: 403, code: 'E_NOT_ALLOWED', type: 'about:blank' })
    expect(body.results[3].body.key_id).toBe(keyId)
    expect(service.requests[0]?.operations.map(({ op }) => op)).toEqual(['wrap', 'hash'])
  })

  it('takes key ids by operation instead of a function', async () => {
    serveBroker({ allow: { wrap: [keyId] } })
    expect((await ask(wrapPath(), { body: { dek: DEK } })).status).toBe(200)
    expect((await ask(wrapPath(otherKey), { body: { dek: DEK } })).status).toBe(403)
    expect((await ask('/api/eaas/v1/hash', { body: { value: 'v', key_id: keyId } })).status).toBe(403)
  })

  it('passes on a refusal that only speaks of what would be a fault of its own', async () => {
    service.intercept = (_, response) => {
      const { body } = problem(403, 'Forbidden', 'E_WRAPPED_KEY', 'not E_IP_NOT_ALLOWED')
      response.writeHead(403, { 'content-type': 'application/problem+json' }).end(JSON.stringify(body))
      return true
    }
    expect(await ask(wrapPath(), wrapBody)).toMatchObject({ status: 403, body: { code: 'E_WRAPPED_KEY' } })
  })

  it('passes the refusals of the service on as they are', async () => {
    const { status, body, headers } = await ask(`/api/eaas/v1/keys/${keyId}/unwrap`, { body: { wrapped_key: 'AAAA' } })
    expect([status, body.code, headers['content-type']]).toEqual([403, 'E_WRAPPED_KEY', 'application/problem+json'])
  })

  it.each<[string, (text: string) => unknown]>([
    ['parsed', JSON.parse],
    ['left as text', (text) => text],
    ['left as bytes', (text) => Buffer.from(text)],
  ])('takes a body that Express has read already and %s, and its originalUrl', async (_, read) => {
    const parsing = createServer(async (request, response) => {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      const body = read(Buffer.concat(chunks).toString())
      const originalUrl = request.url
      toNodeHandler(broker)(Object.assign(request, { body, originalUrl, url: '/stripped' }), response)
    })
    await new Promise<void>((resolve) => parsing.listen(0, '127.0.0.1', resolve))
    const { port } = parsing.address() as AddressInfo
    const response = await fetch(`http://127.0.0.1:${port}${wrapPath()}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', cookie: 'sid=ada', origin: `http://127.0.0.1:${port}` },
      body: JSON.stringify({ dek: DEK }),
    })
    expect(response.status).toBe(200)
    parsing.closeAllConnections()
    await new Promise((resolve) => parsing.close(resolve))
  })

  it('stands in Fastify before it reads the body, and leaves the other routes to it', async () => {
    const app = fastify()
    const handle = toNodeHandler(broker)
    app.addHook('onRequest', async (request, reply) => {
      if (request.url.startsWith('/api/eaas/')) handle(request.raw, reply.hijack().raw)
    })
    app.post('/api/other', async ({ body }) => body)
    const origin = await app.listen({ host: '127.0.0.1', port: 0 })
    const post = (path: string, cookie = 'sid=ada') =>
      fetch(origin + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json', cookie, origin },
        body: JSON.stringify({ dek: DEK }),
      })
    expect((await post(wrapPath())).status).toBe(200)
    expect(service.requests[0]).toMatchObject({ body: JSON.stringify({ dek: DEK }) })
    expect((await post(wrapPath(), '')).status).toBe(401)
    expect((await post('/api/eaas/v1/keys')).status).toBe(404)
    expect(await (await post('/api/other')).json()).toEqual({ dek: DEK })
    await app.close()
  })

  it('is a handler of the Fetch API too, at any base path', async () => {
    serveBroker({ basePath: '/internal/eaas' })
    const page = { cookie: 'sid=ada', 'content-type': 'application/json', origin: 'https://app.example.org' }
    const init = { method: 'POST', headers: page, body: JSON.stringify({ dek: DEK }) }
    const at = (path: string) => new Request(`https://app.example.org${path}`, init)
    expect((await broker(at(`/internal/eaas/v1/keys/${keyId}/wrap`))).status).toBe(200)
    expect((await broker(at(wrapPath()))).status).toBe(404)
  })
})

describe('the name of a user', () => {
  it('stands for one id only', () => {
    const ids = ['%2C', ',', '%252C', ' ', '+', '%20', 'é', 'e\u0301']
    expect(new Set(ids.map(encodeUserId)).size).toBe(ids.length)
    expect(encodeUserId('user-4711@example.org')).toBe('user-4711@example.org')
  })
})

/** A page, as far as Node can be one. */
function pageClient(cookie: string) {
  const page: typeof fetch = (input, init) => {
    const request = new Request(input, init)
    request.headers.delete('authorization')
    request.headers.set('cookie', cookie)
    request.headers.set('sec-fetch-site', 'same-origin')
    return fetch(request)
  }
  return createClient({ baseUrl: `${url}/api/eaas`, apiKey: 'none', fetch: page })
}
