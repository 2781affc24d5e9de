// What a service that lies, stalls or floods can do to a call: nothing but make it fail.
import { inspect } from 'node:util'
import { gzipSync } from 'node:zlib'
import { describe, expect, it, vi } from 'vitest'
import { text } from '../index.js'
import { failure } from '../test-support/clients.js'
import { calls, connect, keyId, service, stored, useEveryCall } from '../test-support/every-call.js'
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
    ['a gzip bomb', () => body(gzipSync(Buffer.alloc(20 * 1024 * 1024, 32)), { ...json, 'content-encoding': 'gzip' })],
    ['gzip that is none', () => body('{}', { ...json, 'content-encoding': 'gzip' }), 'E_NETWORK'],
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
      message: 'could not decrypt: altered, moved, or encrypted under another key',
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

  const refusing = (detail: string) => {
    const { body: document } = problem(400, 'Bad Request', 'E_VALIDATION', detail)
    return body(JSON.stringify(document), { 'content-type': 'application/problem+json' }, 400)
  }

  it.each<[{ illness: string } | { name: string; since: string }, string, string]>([
    [{ illness: 'HIV: since 12:34:56' }, 'HIV: since 12:34:56', '[removed]'],
    [{ illness: 'HIV' }, '"HIV"', '"[removed]"'],
    [{ name: 'née:4:x', since: '10:30' }, 'née:4:x since 10:30', '[removed] since [removed]'],
  ])('cannot put a value of %j into an error', async (query, shown, expected) => {
    service.intercept = refusing(`patients: ${shown}`)
    const fields = { illness: text({ index: 'illness_index' }), name: text(), since: text() }
    const indexes = { both: { fields: ['name', 'since'] } } as const
    const patients = connect().model({ name: 'patients', keyId, bind: false, warn: false, fields, indexes })
    expect(await failure(patients.index(query as never))).toMatchObject({ detail: `patients: ${expected}` })
  })

  it.each(['HIV', 'O-', '7', 'm', '王'])('cannot put %s into an error, short as it is', async (value) => {
    service.intercept = refusing(`refused: ${value}, "${value}": value=${value}; room 77, HIV2, mm`)
    const error = await failure(connect().hash(value, { keyId }))
    const detail = 'refused: [removed], "[removed]": value=[removed]; room 77, HIV2, mm'
    expect(error).toMatchObject({ detail })
  })

  it('cannot put anything but visible text of a fair length into an error by a name that it makes up', async () => {
    const name = `\u001b[31m\r\nerror: fake ${'x'.repeat(100_000)}`
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
