// What a broker refuses, before the service hears of it.
import { randomUUID } from 'node:crypto'
import { connect } from 'node:net'
import { describe, expect, it, vi } from 'vitest'
import {
  type Ask,
  ask,
  batch,
  batchPath,
  DEK,
  hashPath,
  keyId,
  otherKey,
  reported,
  serveBroker,
  service,
  url,
  useBroker,
  wrapBody,
  wrapPath,
} from '../test-support/broker.js'
import { API_KEY } from '../test-support/service.js'

useBroker()

type Refused = [name: string, path: () => string, ask: Ask | (() => Ask), status: number, code: string]

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
  ['a member twice', wrapAt, { body: `{"dek":"${DEK}","de\\u006b":"${DEK}"}` }, 400, 'E_MALFORMED_REQUEST'],
  [
    'a member of an item twice',
    batchPath,
    { body: `{"operations":[{"op":"wrap","key_id":"${keyId}","key_id":"${otherKey}","dek":"${DEK}"}]}` },
    400,
    'E_MALFORMED_REQUEST',
  ],
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
    serveBroker({ maxBodyBytes: 100 })
    const body = JSON.stringify({ dek: 'A'.repeat(200) })
    expect(await ask(wrapPath(), { body })).toMatchObject({ status: 413, body: { code: 'E_BODY_TOO_LARGE' } })
    const chunked = { 'content-length': undefined, 'transfer-encoding': 'chunked' }
    expect(await ask(wrapPath(), { body, headers: chunked })).toMatchObject({ status: 413 })
    expect(service.requests).toEqual([])
  })

  it('an endless body, without waiting for its end', async () => {
    serveBroker({ maxBodyBytes: 1_000 })
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
    serveBroker({ limits: { callsPerMinute: 5 } })
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
      serveBroker({ authenticate: () => ({ id, mayRead: true }) })
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
    serveBroker({ authenticate: () => ({ id: id as string, mayRead: true }) })
    expect(await ask(wrapPath(), wrapBody)).toMatchObject({ status: 500, body: { code: 'E_INTERNAL' } })
    expect(reported.splice(0)).toMatchObject([{ code: 'E_INVALID_INPUT', message: expect.stringContaining('id') }])
    expect(service.requests).toEqual([])
  })

  it.each([[true], [{}], ['ada']])('what is no user, as a fault of the application: %j', async (user) => {
    serveBroker({ authenticate: () => user as never })
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
    serveBroker(options)
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
    serveBroker({ onError, allow: () => Promise.reject(new Error('SECRET')) })
    expect(await ask(wrapPath(), wrapBody)).toMatchObject({ status: 500, body: { code: 'E_INTERNAL' } })
    await new Promise((resolve) => setImmediate(resolve))
    process.off('unhandledRejection', unhandled)
    expect(unhandled).not.toHaveBeenCalled()
  })

  it('what is allowed by anything but true', async () => {
    for (const verdict of [undefined, null, 1, 'yes', {}]) {
      serveBroker({ allow: () => verdict as unknown as boolean })
      expect((await ask(wrapPath(), wrapBody)).status).toBe(403)
    }
  })
})
