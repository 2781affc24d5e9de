// The broker over real HTTP: an application that mounts it, pages that call it, and the service behind it.
import { randomBytes, randomUUID } from 'node:crypto'
import { createServer, type IncomingHttpHeaders, type Server, request as send } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import fastify from 'fastify'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { type Broker, type BrokerOptions, createBroker, encodeUserId, toNodeHandler, UpstreamError } from './broker.js'
import { createClient } from './index.js'
import { useService } from './test-support/clients.js'
import { API_KEY, problem } from './test-support/service.js'

interface User {
  id: string
  mayRead: boolean
}

const USERS: Record<string, User> = {
  'sid=ada': { id: 'ada', mayRead: true },
  'sid=ben': { id: 'ben', mayRead: false },
}
const DEK = randomBytes(32).toString('base64')

const service = useService()
let application: Server
let broker: Broker
let url: string
let keyId: string
let otherKey: string
let reported: unknown[]

const allow: BrokerOptions<User>['allow'] = (user, { operation, key_id }) =>
  key_id === keyId && (operation !== 'unwrap' || user.mayRead)

function make(options: Partial<BrokerOptions<User>> = {}): Broker {
  return createBroker({
    baseUrl: service.url,
    apiKey: API_KEY,
    authenticate: (request) => USERS[request.headers.get('cookie') ?? ''],
    allow,
    onError: (error) => reported.push(error),
    ...options,
  })
}

beforeAll(async () => {
  application = createServer((request, response) => toNodeHandler(broker)(request, response))
  await new Promise<void>((resolve) => application.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(application.address() as AddressInfo).port}`
})
afterAll(async () => {
  application.closeAllConnections()
  await new Promise((resolve) => application.close(resolve))
})
beforeEach(() => {
  reported = []
  keyId = service.createKey()
  otherKey = service.createKey()
  broker = make()
})
afterEach(() => expect(reported).toEqual([])) // whoever expects one takes it out

interface Ask {
  method?: string
  headers?: Record<string, string | string[] | undefined>
  body?: unknown
}

/** Sends exactly this; `fetch` would tidy up the path and the headers. */
function ask(path: string, { method = 'POST', headers = {}, body }: Ask = {}) {
  const hasBody = method !== 'GET'
  const text = typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body ?? {})
  const all = {
    'content-type': 'application/json',
    'content-length': hasBody ? Buffer.byteLength(text) : undefined,
    cookie: 'sid=ada',
    'sec-fetch-site': 'same-origin',
    ...headers,
  }
  const kept = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
  // biome-ignore lint/suspicious/noExplicitAny: the tests look at the fields that they expect, whatever the answer is
  return new Promise<{ status: number; headers: IncomingHttpHeaders; text: string; body: any }>((resolve, reject) => {
    const sending = send(`${url}/`, { path, method, headers: kept as Record<string, string> }, async (response) => {
      let text = ''
      for await (const chunk of response.setEncoding('utf8')) text += chunk
      const isJson = /json/.test(response.headers['content-type'] ?? '')
      resolve({
        status: response.statusCode ?? 0,
        headers: response.headers,
        text,
        body: isJson ? JSON.parse(text) : undefined,
      })
    })
    sending.on('error', reject)
    sending.end(hasBody ? text : undefined)
  })
}

const wrapPath = (id = keyId) => `/api/eaas/v1/keys/${id}/wrap`

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
      status: 403,
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
    broker = make({ allow: { wrap: [keyId] } })
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
    broker = make({ basePath: '/internal/eaas' })
    const page = { cookie: 'sid=ada', 'content-type': 'application/json', origin: 'https://app.example.org' }
    const init = { method: 'POST', headers: page, body: JSON.stringify({ dek: DEK }) }
    const at = (path: string) => new Request(`https://app.example.org${path}`, init)
    expect((await broker(at(`/internal/eaas/v1/keys/${keyId}/wrap`))).status).toBe(200)
    expect((await broker(at(wrapPath()))).status).toBe(404)
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

type Refused = [name: string, path: () => string, ask: Ask | (() => Ask), status: number, code: string]

const batch = (...operations: unknown[]) => ({ body: { operations } })
const wrapBody = { body: { dek: DEK } }
const hashPath = () => '/api/eaas/v1/hash'
const batchPath = () => '/api/eaas/v1/batch'
const wrapAt = () => wrapPath()
const withHeaders = (headers: Ask['headers']): Ask => ({ ...wrapBody, ...(headers ? { headers } : {}) })

const REFUSED: Refused[] = [
  ['GET', wrapAt, { method: 'GET' }, 405, 'E_METHOD_NOT_ALLOWED'],
  ['PUT', wrapAt, { ...wrapBody, method: 'PUT' }, 405, 'E_METHOD_NOT_ALLOWED'],
  ['DELETE', hashPath, { method: 'DELETE' }, 405, 'E_METHOD_NOT_ALLOWED'],
  ['PATCH', batchPath, { method: 'PATCH' }, 405, 'E_METHOD_NOT_ALLOWED'],
  ['OPTIONS', wrapAt, { method: 'OPTIONS' }, 405, 'E_METHOD_NOT_ALLOWED'],
  ['TRACE', wrapAt, { method: 'TRACE' }, 400, 'E_MALFORMED_REQUEST'],
  ['a list of keys', () => '/api/eaas/v1/keys', { method: 'GET' }, 404, 'E_ROUTE_NOT_FOUND'],
  ['creating a key', () => '/api/eaas/v1/keys', { body: { name: 'x' } }, 404, 'E_ROUTE_NOT_FOUND'],
  ['the export of a key', () => `/api/eaas/v1/keys/${keyId}/export`, {}, 404, 'E_ROUTE_NOT_FOUND'],
  ['rewrap', () => `/api/eaas/v1/keys/${keyId}/rewrap`, { body: { wrapped_key: 'AA' } }, 404, 'E_ROUTE_NOT_FOUND'],
  ['server mode', () => '/api/eaas/v1/decrypt', {}, 404, 'E_ROUTE_NOT_FOUND'],
  ['minting API keys', () => '/api/eaas/v1/api-keys', {}, 404, 'E_ROUTE_NOT_FOUND'],
  ['the audit log', () => '/api/eaas/v1/audit', { method: 'GET' }, 404, 'E_ROUTE_NOT_FOUND'],
  ['the health of the service', () => '/api/eaas/health', { method: 'GET' }, 404, 'E_ROUTE_NOT_FOUND'],
  ['a path without the base', () => `/v1/keys/${keyId}/wrap`, wrapBody, 404, 'E_ROUTE_NOT_FOUND'],
  ['the base with more', () => `/api/eaas-2/v1/keys/${keyId}/wrap`, wrapBody, 404, 'E_ROUTE_NOT_FOUND'],
  ['another version', () => `/api/eaas/v2/keys/${keyId}/wrap`, wrapBody, 404, 'E_ROUTE_NOT_FOUND'],
  ['..%2f in a path', () => `/api/eaas/v1/keys/..%2f..%2fapi-keys/wrap`, wrapBody, 404, 'E_ROUTE_NOT_FOUND'],
  ['..%2f after the id', () => `/api/eaas/v1/keys/${keyId}%2f..%2fx/wrap`, wrapBody, 404, 'E_ROUTE_NOT_FOUND'],
  ['../ in a path', () => `/api/eaas/v1/keys/${keyId}/wrap/../export`, wrapBody, 404, 'E_ROUTE_NOT_FOUND'],
  ['%2e%2e in a path', () => `/api/eaas/v1/keys/${keyId}/%2e%2e/%2e%2e/audit`, wrapBody, 404, 'E_ROUTE_NOT_FOUND'],
  ['..\\ in a path', () => `/api/eaas/v1/keys/x\\..\\..\\audit`, wrapBody, 404, 'E_ROUTE_NOT_FOUND'],
  ['two slashes', () => `//api/eaas/v1/keys/${keyId}/wrap`, wrapBody, 404, 'E_ROUTE_NOT_FOUND'],
  ['an absolute target', () => `http://evil.example${wrapPath()}`, wrapBody, 400, 'E_MALFORMED_REQUEST'],
  ['a slash at the end', () => `${wrapPath()}/`, wrapBody, 404, 'E_ROUTE_NOT_FOUND'],
  ['a query', () => `${wrapPath()}?key_id=x`, wrapBody, 404, 'E_ROUTE_NOT_FOUND'],
  ['a NUL in a path', () => `/api/eaas/v1/keys/${keyId}%00/wrap`, wrapBody, 404, 'E_ROUTE_NOT_FOUND'],
  ['a key by its name', () => wrapPath('users'), wrapBody, 404, 'E_ROUTE_NOT_FOUND'],
  ['a key in upper case', () => wrapPath(keyId.toUpperCase()), wrapBody, 404, 'E_ROUTE_NOT_FOUND'],
  ['no session', wrapAt, withHeaders({ cookie: undefined }), 401, 'E_UNAUTHORIZED'],
  ['an unknown session', wrapAt, withHeaders({ cookie: 'sid=eve' }), 401, 'E_UNAUTHORIZED'],
  [
    'a bearer token instead',
    wrapAt,
    withHeaders({ cookie: undefined, authorization: 'Bearer x' }),
    401,
    'E_UNAUTHORIZED',
  ],
  ['another key', () => wrapPath(otherKey), wrapBody, 403, 'E_NOT_ALLOWED'],
  ['a key that is not there', () => wrapPath(randomUUID()), wrapBody, 403, 'E_NOT_ALLOWED'],
  [
    'an operation of another user',
    () => `/api/eaas/v1/keys/${keyId}/unwrap`,
    { headers: { cookie: 'sid=ben' }, body: { wrapped_key: 'AAAA' } },
    403,
    'E_NOT_ALLOWED',
  ],
  ['hash of another key', hashPath, () => ({ body: { value: 'v', key_id: otherKey } }), 403, 'E_NOT_ALLOWED'],
  ['a batch of another key', batchPath, () => batch({ op: 'wrap', key_id: otherKey, dek: DEK }), 403, 'E_NOT_ALLOWED'],
  [
    'a batch with rewrap',
    batchPath,
    () => batch({ op: 'rewrap', key_id: keyId, wrapped_key: 'A' }),
    403,
    'E_NOT_ALLOWED',
  ],
  [
    'a batch with decrypt among others',
    batchPath,
    () => batch({ op: 'wrap', key_id: keyId, dek: DEK }, { op: 'decrypt', key_id: keyId, ciphertext: '' }),
    403,
    'E_NOT_ALLOWED',
  ],
  ['a batch with constructor', batchPath, () => batch({ op: 'constructor', key_id: keyId }), 403, 'E_NOT_ALLOWED'],
  ['a batch with no op', batchPath, () => batch({ key_id: keyId, dek: DEK }), 400, 'E_VALIDATION'],
  ['a batch with no key', batchPath, () => batch({ op: 'wrap', dek: DEK }), 400, 'E_VALIDATION'],
  ['a batch with a path as key', batchPath, () => batch({ op: 'wrap', key_id: '../x', dek: DEK }), 400, 'E_VALIDATION'],
  ['a batch of null', batchPath, () => batch(null), 400, 'E_VALIDATION'],
  ['an empty batch', batchPath, () => batch(), 400, 'E_VALIDATION'],
  ['a batch of 1,001', batchPath, () => batch(...Array(1_001).fill({ op: 'hash' })), 400, 'E_VALIDATION'],
  ['operations that are no list', batchPath, { body: { operations: { length: 1 } } }, 400, 'E_VALIDATION'],
  ['a body of null', batchPath, { body: 'null' }, 400, 'E_VALIDATION'],
  ['a dek that is no text', wrapAt, { body: { dek: [DEK] } }, 400, 'E_VALIDATION'],
  ['an inherited dek', wrapAt, { body: `{"__proto__":{"dek":"${DEK}"}}` }, 400, 'E_VALIDATION'],
  ['broken JSON', wrapAt, { body: '{"dek":' }, 400, 'E_MALFORMED_REQUEST'],
  ['no body', wrapAt, { body: '' }, 400, 'E_MALFORMED_REQUEST'],
  ['a body that is not UTF-8', wrapAt, { body: Buffer.from([0x22, 0xff, 0x22]) }, 400, 'E_MALFORMED_REQUEST'],
  ['a form', wrapAt, withHeaders({ 'content-type': 'application/x-www-form-urlencoded' }), 415, 'E_MEDIA_TYPE'],
  ['text', wrapAt, withHeaders({ 'content-type': 'text/plain' }), 415, 'E_MEDIA_TYPE'],
  ['JSON as text', wrapAt, withHeaders({ 'content-type': 'text/plain; application/json' }), 415, 'E_MEDIA_TYPE'],
  ['no content type', wrapAt, withHeaders({ 'content-type': undefined }), 415, 'E_MEDIA_TYPE'],
  ['another charset', wrapAt, withHeaders({ 'content-type': 'application/json; charset=utf-16' }), 415, 'E_MEDIA_TYPE'],
  ['a page of another site', wrapAt, withHeaders({ 'sec-fetch-site': 'cross-site' }), 403, 'E_CROSS_SITE'],
  ['a page of a sister domain', wrapAt, withHeaders({ 'sec-fetch-site': 'same-site' }), 403, 'E_CROSS_SITE'],
  ['what no page sends', wrapAt, withHeaders({ 'sec-fetch-site': 'none' }), 403, 'E_CROSS_SITE'],
  ['two places at once', wrapAt, withHeaders({ 'sec-fetch-site': 'same-origin, cross-site' }), 403, 'E_CROSS_SITE'],
  ['no word of where from', wrapAt, withHeaders({ 'sec-fetch-site': undefined }), 403, 'E_CROSS_SITE'],
  [
    'another origin, of a browser that says no more',
    wrapAt,
    withHeaders({ 'sec-fetch-site': undefined, origin: 'https://evil.example' }),
    403,
    'E_CROSS_SITE',
  ],
  ['the origin null', wrapAt, withHeaders({ 'sec-fetch-site': undefined, origin: 'null' }), 403, 'E_CROSS_SITE'],
  [
    'another site without a session',
    wrapAt,
    withHeaders({ 'sec-fetch-site': 'cross-site', cookie: undefined }),
    403,
    'E_CROSS_SITE',
  ],
]

describe('a broker refuses', () => {
  it.each(REFUSED)('%s', async (_, path, asking, status, code) => {
    const { body, headers, ...answer } = await ask(path(), typeof asking === 'function' ? asking() : asking)
    expect([answer.status, body?.code]).toEqual([status, code])
    expect(body).toEqual({
      type: 'about:blank',
      title: expect.any(String),
      status,
      detail: expect.any(String),
      code,
    })
    expect(headers['content-type']).toBe('application/problem+json')
    expect(answer.text).not.toContain(API_KEY)
    expect(answer.text).not.toContain(DEK)
    expect(service.requests).toEqual([])
  })

  it('a body over the limit, told by its length or not', async () => {
    broker = make({ maxBodyBytes: 100 })
    const body = JSON.stringify({ dek: 'A'.repeat(200) })
    expect(await ask(wrapPath(), { body })).toMatchObject({ status: 413, body: { code: 'E_BODY_TOO_LARGE' } })
    const chunked = { 'content-length': undefined, 'transfer-encoding': 'chunked' }
    expect(await ask(wrapPath(), { body, headers: chunked })).toMatchObject({ status: 413 })
    expect(service.requests).toEqual([])
  })

  it('an endless body, without waiting for its end', async () => {
    broker = make({ maxBodyBytes: 1_000 })
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    const head = `POST ${wrapPath()} HTTP/1.1\r\nHost: x\r\nCookie: sid=ada\r\nSec-Fetch-Site: same-origin\r\n`
    socket.write(`${head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`)
    const more = setInterval(() => socket.write(`1000\r\n${'x'.repeat(0x1000)}\r\n`), 1)
    socket.on('error', () => clearInterval(more)) // the server may close while we write
    let answer = ''
    for await (const chunk of socket.setEncoding('utf8')) {
      answer += chunk
      if (answer.includes('E_BODY_TOO_LARGE')) break
    }
    clearInterval(more)
    socket.destroy()
    expect(answer).toMatch(/^HTTP\/1\.1 413 /)
    expect(answer).toMatch(/connection: close/i)
  })

  it('more calls than a user may make in a minute, and counts each operation of a batch', async () => {
    broker = make({ limits: { callsPerMinute: 5 } })
    const hash = { op: 'hash', key_id: keyId, value: 'v' }
    expect((await ask(batchPath(), batch(hash, hash, hash))).status).toBe(200)
    expect(await ask(batchPath(), batch(hash, hash, hash))).toMatchObject({ status: 429 })
    expect((await ask(hashPath(), { body: { value: 'v', key_id: keyId } })).status).toBe(200) // one was left
    const refused = await ask(hashPath(), { body: { value: 'v', key_id: keyId } })
    expect(refused).toMatchObject({ status: 429, body: { code: 'E_TOO_MANY_CALLS', title: 'Too Many Requests' } })
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0)
    const other = await ask(hashPath(), { headers: { cookie: 'sid=ben' }, body: { value: 'v', key_id: keyId } })
    expect(other.status).toBe(200)
  })

  it('users whose id would break out of its header, by writing it otherwise', async () => {
    const ids = ['ada\r\nauthorization: Bearer x', 'a,b', 'two words', 'é', '100%', '\0', '😀']
    for (const id of ids) {
      broker = make({ authenticate: () => ({ id, mayRead: true }) })
      expect((await ask(wrapPath(), wrapBody)).status).toBe(200)
    }
    const names = service.requests.map(({ headers }) => String(headers['eaas-on-behalf-of']))
    expect(names).toEqual([
      'ada%0D%0Aauthorization:%20Bearer%20x',
      'a%2Cb',
      'two%20words',
      '%C3%A9',
      '100%25',
      '%00',
      '%F0%9F%98%80',
    ])
    expect(names.map(decodeURIComponent)).toEqual(ids)
    expect(service.requests.every(({ headers }) => headers.authorization === `Bearer ${API_KEY}`)).toBe(true)
  })

  it.each([
    ['empty', ''],
    ['too long', 'x'.repeat(256)],
    ['too long when encoded', 'é'.repeat(50)],
    ['ill-formed', '\ud800'],
    ['no text', 7],
  ])('a user whose id is %s, as a fault of the application', async (_, id) => {
    broker = make({ authenticate: () => ({ id: id as string, mayRead: true }) })
    expect(await ask(wrapPath(), wrapBody)).toMatchObject({ status: 500, body: { code: 'E_INTERNAL' } })
    expect(reported.splice(0)).toMatchObject([{ code: 'E_INVALID_INPUT', message: expect.stringContaining('id') }])
    expect(service.requests).toEqual([])
  })

  it.each([[true], [{}], ['ada']])('what is no user, as a fault of the application: %j', async (user) => {
    broker = make({ authenticate: () => user as never })
    const { status, body } = await ask(wrapPath(), wrapBody)
    expect([status, body]).toMatchObject([500, { code: 'E_INTERNAL', detail: 'unexpected error' }])
    const hint = expect.stringContaining('`authenticate`')
    expect(reported.splice(0)).toMatchObject([{ code: 'E_INVALID_INPUT', hint }])
    expect(service.requests).toEqual([])
  })

  it.each([
    ['authenticate throws', { authenticate: () => Promise.reject(new Error('SECRET database down')) }],
    ['allow throws', { allow: () => Promise.reject(new Error('SECRET')) }],
    ['the API key cannot be read', { apiKey: () => Promise.reject(new Error('SECRET vault sealed')) }],
    ['the API key is not one', { apiKey: () => 'SECRET\r\nx: y' }, 'E_INVALID_INPUT'],
    ['the API key is no text', { apiKey: () => null as never }, 'E_INVALID_INPUT'],
  ])('everything when %s, and tells the page nothing of it', async (_, options, code?: string) => {
    broker = make(options)
    const { status, text } = await ask(wrapPath(), wrapBody)
    expect(status).toBe(500)
    expect(text).not.toContain('SECRET')
    expect(reported.splice(0)).toMatchObject([code ? { code } : { message: expect.stringContaining('SECRET') }])
    expect(service.requests).toEqual([])
  })

  it.each([
    [
      'throws',
      () => {
        throw new Error('the log is full')
      },
    ],
    ['rejects', async () => Promise.reject(new Error('the log is full'))],
  ])('as ever when onError %s', async (_, onError) => {
    const unhandled = vi.fn()
    process.on('unhandledRejection', unhandled)
    broker = make({ onError, allow: () => Promise.reject(new Error('SECRET')) })
    expect(await ask(wrapPath(), wrapBody)).toMatchObject({ status: 500, body: { code: 'E_INTERNAL' } })
    await new Promise((resolve) => setImmediate(resolve))
    process.off('unhandledRejection', unhandled)
    expect(unhandled).not.toHaveBeenCalled()
  })

  it('what is allowed by anything but true', async () => {
    for (const verdict of [undefined, null, 1, 'yes', {}]) {
      broker = make({ allow: () => verdict as unknown as boolean })
      expect((await ask(wrapPath(), wrapBody)).status).toBe(403)
    }
  })
})

describe('a broker before a service that misbehaves', () => {
  const json = { 'content-type': 'application/json' }
  const problemType = { 'content-type': 'application/problem+json' }

  it.each([
    ['redirects', 302, { location: 'http://127.0.0.1:1/steal', ...json }, '{}'],
    ['redirects for good, with the body', 308, { location: '/v1/other', ...json }, '{}'],
    ['answers with a page', 200, { 'content-type': 'text/html' }, '<script>alert(1)</script>'],
    ['answers with a page of an error', 500, { 'content-type': 'text/html' }, 'internal host 10.0.0.7'],
    ['answers nothing', 204, {}, undefined],
    ['answers 201', 201, json, '{}'],
    ['knows the API key no more', 401, problemType, JSON.stringify(problem(401, 'U', 'E_UNAUTHORIZED').body)],
    ['lists other addresses', 403, problemType, '{"code":"E_IP_NOT_ALLOWED","detail":"ip_not_allowed: 10.0.0.7"}'],
    ['is of a suspended tenant', 403, problemType, '{"code":"E_TENANT_SUSPENDED","detail":"suspended 10.0.0.7"}'],
    ['misses a permission', 403, problemType, '{"code":"E_MISSING_PERMISSION","detail":"audit:on_behalf_of 10.0.0.7"}'],
    ['repeats the API key', 400, problemType, JSON.stringify({ detail: API_KEY })],
  ])('does not pass on what %s', async (_, status, headers, body) => {
    service.intercept = (_, response) => {
      response.writeHead(status, headers as Record<string, string>).end(body)
      return true
    }
    const answer = await ask(wrapPath(), wrapBody)
    expect(answer).toMatchObject({ status: 502, body: { code: 'E_BAD_GATEWAY', title: 'Bad Gateway' } })
    expect(answer.text).not.toMatch(/script|10\.0\.0\.7|eaas_sk/)
    expect(reported.splice(0)).toEqual([expect.any(UpstreamError)])
    expect(service.requests).toHaveLength(1) // nobody followed
  })

  it.each([
    ['too few results', '{"results":[]}'],
    ['no results', '{}'],
    ['null', 'null'],
    ['no JSON', 'DEK'],
  ])('does not mix %s into a batch', async (_, text) => {
    service.intercept = (_, response) => {
      response.writeHead(200, json).end(text)
      return true
    }
    const hash = (key_id: string) => ({ op: 'hash', key_id, value: 'v' })
    expect(await ask(batchPath(), batch(hash(keyId), hash(otherKey)))).toMatchObject({ status: 502 })
    expect(reported.splice(0)).toHaveLength(1)
  })

  it('says 503 when it breaks off, is down, or is silent', async () => {
    service.intercept = (_, response) => {
      response.socket?.destroy()
      return true
    }
    expect(await ask(wrapPath(), wrapBody)).toMatchObject({ status: 503, body: { code: 'E_UNAVAILABLE' } })
    service.intercept = () => true
    broker = make({ timeoutMs: 50 })
    expect(await ask(wrapPath(), wrapBody)).toMatchObject({ status: 503 })
    broker = make({ baseUrl: 'http://127.0.0.1:1' })
    const down = await ask(wrapPath(), wrapBody)
    expect([down.status, down.text.includes('127.0.0.1')]).toEqual([503, false])
    expect(reported.splice(0)).toHaveLength(3)
  })

  it('does not pass on an answer without an end', async () => {
    service.intercept = (_, response) => {
      response.writeHead(200, json)
      const more = () => {
        while (response.write('x'.repeat(65_536)));
        response.once('drain', more)
      }
      more()
      return true
    }
    expect(await ask(wrapPath(), wrapBody)).toMatchObject({ status: 502 })
    expect(reported.splice(0)).toHaveLength(1)
  })

  it('drops a request id that is none', async () => {
    service.intercept = (_, response) => {
      response.writeHead(200, { ...json, 'x-request-id': 'x'.repeat(129) }).end('{}')
      return true
    }
    expect((await ask(wrapPath(), wrapBody)).headers).not.toHaveProperty('x-request-id')
  })
})

describe('pages of other origins', () => {
  const origin = 'https://app.example.org'
  beforeEach(() => {
    broker = make({ origins: [origin] })
  })

  it('that are named may call, with their cookies', async () => {
    const preflight = await ask(wrapPath(), { method: 'OPTIONS', body: '', headers: { origin, cookie: undefined } })
    expect(preflight.status).toBe(204)
    expect(preflight.headers).toMatchObject({
      'access-control-allow-origin': origin,
      'access-control-allow-credentials': 'true',
      'access-control-allow-methods': 'POST',
      'access-control-allow-headers': 'content-type',
      vary: 'Origin',
    })
    const headers = { origin, 'sec-fetch-site': 'cross-site' }
    const { status, headers: answered } = await ask(wrapPath(), { ...wrapBody, headers })
    expect([status, answered['access-control-allow-origin']]).toEqual([200, origin])
    const refused = await ask(wrapPath(otherKey), { ...wrapBody, headers })
    expect([refused.status, refused.headers['access-control-allow-origin']]).toEqual([403, origin])
  })

  it.each(['https://app.example.org.evil.example', 'http://app.example.org', 'https://APP.example.org', 'null', '*'])(
    'that are not named may not: %s',
    async (other) => {
      const headers = { origin: other, 'sec-fetch-site': 'cross-site' }
      const preflight = await ask(wrapPath(), { method: 'OPTIONS', body: '', headers })
      expect([preflight.status, preflight.headers['access-control-allow-origin']]).toEqual([405, undefined])
      const { status, headers: answered } = await ask(wrapPath(), { ...wrapBody, headers })
      expect([status, answered['access-control-allow-origin']]).toEqual([403, undefined])
      expect(service.requests).toEqual([])
    },
  )

  it('are the same origin by their host where the browser says no more', async () => {
    const own = { 'sec-fetch-site': undefined, origin: url }
    expect((await ask(wrapPath(), { ...wrapBody, headers: own })).status).toBe(200)
    expect((await ask(wrapPath(), { ...wrapBody, headers: { ...own, host: 'other' } })).status).toBe(403)
  })
})

describe('the options of a broker', () => {
  it.each<[string, Record<string, unknown>]>([
    ['baseUrl', { baseUrl: '/api' }],
    ['baseUrl', { baseUrl: 'https://user:pass@host' }],
    ['apiKey', { apiKey: 7 }],
    ['authenticate', { authenticate: undefined }],
    ['allow', { allow: undefined }],
    ['allow', { allow: { decrypt: [] } }],
    ['allow', { allow: { wrap: ['users'] } }],
    ['allow', { allow: { wrap: 7 } }],
    ['allow', { allow: { wrap: null } }],
    ['basePath', { basePath: '/api/' }],
    ['basePath', { basePath: 'api' }],
    ['basePath', { basePath: '/a/../b' }],
    ['origins', { origins: ['https://app.example.org/'] }],
    ['origins', { origins: ['*'] }],
    ['origins', { origins: 7 }],
    ['fetch', { fetch: 'fetch' }],
    ['onError', { onError: 'console' }],
    ['maxBodyBytes', { maxBodyBytes: 0 }],
    ['callsPerMinute', { limits: { callsPerMinute: 0 } }],
    ['timeoutMs', { timeoutMs: 0.5 }],
  ])('are checked: %s', (name, options) => {
    expect(() => make(options)).toThrow(
      expect.objectContaining({ code: 'E_INVALID_INPUT', message: expect.stringContaining(name) }),
    )
  })
})

describe('a broker at the top of a module', () => {
  it.each([
    ['baseUrl', { baseUrl: undefined }],
    ['baseUrl', { baseUrl: '' }],
    ['apiKey', { apiKey: undefined }],
  ])('is made where the environment is missing, and reports it at the first request: %s', async (name, options) => {
    const errors: unknown[] = []
    const incomplete = make({ ...options, onError: (error) => errors.push(error) })
    broker = incomplete
    const { status, text } = await ask(wrapPath(), wrapBody)
    expect([status, text.includes(name)]).toEqual([500, false])
    expect(errors).toMatchObject([{ code: 'E_INVALID_INPUT', message: expect.stringContaining(`${name} is missing`) }])
    expect(service.requests).toEqual([])
  })
})

describe('the name of a user', () => {
  it('stands for one id only', () => {
    const ids = ['%2C', ',', '%252C', ' ', '+', '%20', 'é', 'e\u0301']
    expect(new Set(ids.map(encodeUserId)).size).toBe(ids.length)
    expect(encodeUserId('user-4711@example.org')).toBe('user-4711@example.org')
  })
})
