// What an error tells whoever has to find its cause: who called, what was aborted and why, what fetch threw.
import { inspect } from 'node:util'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { createBroker } from '../../../packages/sdk/src/broker.js'
import {
  type ApiError,
  type Client,
  createClient,
  type EaasError,
  type Fetch,
  text,
} from '../../../packages/sdk/src/index.js'
import { failure, keyId, useClients } from '../../../packages/sdk/src/test-support/clients.js'
import { API_KEY, problem, send } from '../../../packages/sdk/src/test-support/service.js'
import { createTestService } from '../../../packages/sdk/src/testing.js'

const { service, connect } = useClients()

/** Another path to the same answer, so that it is met where the data is and not where it was altered. */
const flipped = (base64: string) => {
  const bytes = Buffer.from(base64, 'base64')
  bytes[20] = (bytes[20] ?? 0) ^ 1
  return bytes.toString('base64')
}

describe('the stack of an error', () => {
  const calls: Record<string, (eaas: Client) => Promise<unknown>> = {
    encrypt: (eaas) => eaas.encrypt('x', { keyId }),
    encryptJson: (eaas) => eaas.encryptJson(1, { keyId }),
    'encrypt with a DEK of its own': (eaas) => eaas.encrypt('x', { keyId, dek: 'call' }),
    hash: (eaas) => eaas.hash('x', { keyId }),
    encryptMany: (eaas) => eaas.encryptMany([{ a: 'x' }], { keyId, fields: ['a'] }),
    'model.encrypt': (eaas) =>
      eaas.model({ name: 'users', keyId, bind: false, fields: { a: text() } }).encrypt({ a: 'x' }),
    'keys.get': (eaas) => eaas.keys.get(keyId),
    tenant: (eaas) => eaas.tenant(),
  }

  it.each(Object.entries(calls))('of %s leads to each of several callers who wait for one request', async (_, run) => {
    service.intercept = (_, response) => {
      send(response, problem(403, 'Forbidden', 'E_MISSING_PERMISSION'))
      return true
    }
    const eaas = connect()
    async function readInvoice() {
      return await run(eaas)
    }
    async function readCustomer() {
      return await run(eaas)
    }
    const [invoice, customer] = await Promise.all([failure(readInvoice()), failure(readCustomer())])
    expect(invoice.stack).toMatch(/^ApiError: POST|^ApiError: GET/)
    expect(invoice.stack).toContain('readInvoice')
    expect(invoice.stack).not.toContain('readCustomer')
    expect(customer.stack).toContain('readCustomer')
    expect(customer).toMatchObject({ code: 'E_API', httpStatus: 403 })
    expect(customer).toBeInstanceOf(Error)
  })

  it('of decrypt leads to the caller', async () => {
    const envelope = await connect().encrypt('x', { keyId })
    const eaas = connect()
    async function readInvoice() {
      return await eaas.decryptText({ ...envelope, wrapped_key: flipped(envelope.wrapped_key) })
    }
    const error = await failure(Promise.all([readInvoice(), eaas.hash('x', { keyId })]))
    expect(error.stack).toContain('readInvoice')
  })
})

describe('an error as JSON', () => {
  it('has its message, and no stack', async () => {
    const error = await failure(connect().encrypt('x', { keyId: 'users' }))
    expect(JSON.parse(JSON.stringify(error))).toEqual({
      name: 'InvalidInputError',
      code: 'E_INVALID_INPUT',
      message: error.message,
      hint: error.hint,
      retryable: false,
    })
    expect(inspect(error).split(error.message)).toHaveLength(2) // once
  })
})

describe('problem', () => {
  it('has the known codes in its type, and takes others', () => {
    expectTypeOf<Extract<ApiError['problem'], 'E_STATE' | 'E_NOT_ALLOWED'>>().toEqualTypeOf<
      'E_STATE' | 'E_NOT_ALLOWED'
    >()
    expectTypeOf<'E_OF_TOMORROW'>().toExtend<ApiError['problem']>()
  })
})

describe('an aborted call', () => {
  it('keeps the reason, wherever it was waiting', async () => {
    const reason = new Error('the user left')
    const eaas = connect()
    const done = AbortSignal.abort(reason)
    expect((await failure(eaas.encrypt('x', { keyId, signal: done }))).cause).toBe(reason)
    expect((await failure(eaas.keys.list({ signal: done }))).cause).toBe(reason)
    service.intercept = () => true // never answers
    for (const run of [
      (signal: AbortSignal) => eaas.encrypt('x', { keyId, signal }),
      (signal: AbortSignal) => eaas.encrypt('x', { keyId, signal, dek: 'call' }),
      (signal: AbortSignal) => eaas.hash('x', { keyId, signal }),
      (signal: AbortSignal) => eaas.keys.list({ signal }),
      (signal: AbortSignal) => eaas.encryptMany([{ a: 'x' }], { keyId, signal, fields: ['a'] }),
    ]) {
      const controller = new AbortController()
      const error = failure(run(controller.signal))
      setTimeout(() => controller.abort(reason), 20)
      expect(await error).toMatchObject({ code: 'E_ABORTED' })
      expect((await error).cause).toBe(reason)
    }
  })
})

describe('what was tampered with', () => {
  it('has one code, whoever noticed: the engine, the service, or a model', async () => {
    const testing = createTestService({ envelopeOnly: false })
    const eaas = createClient(testing)
    const { id } = await eaas.keys.create({ name: 'users' })
    const { id: other } = await eaas.keys.create({ name: 'others' })
    const stored = await eaas.encrypt('called twice', { keyId: id, envelope: 1 })
    const model = createClient(testing).model({ name: 'users', keyId: id, bind: false, fields: { a: text() } })
    const unknown = '00000000-0000-4000-8000-000000000000'
    for (const change of [
      { ciphertext: flipped(stored.ciphertext) },
      { iv: Buffer.alloc(12).toString('base64') },
      { wrapped_key: flipped(stored.wrapped_key) },
      { wrapped_key: 'AAAA' },
      { key_id: other },
      { key_id: unknown },
    ]) {
      const altered = { ...stored, ...change }
      const errors: [string, EaasError][] = [
        ['decrypt', await failure(createClient(testing).decrypt(altered))],
        ['decryptMany', await failure(createClient(testing).decryptMany([{ a: altered }], { fields: ['a'] }))],
        ['model', await failure(model.decrypt({ a: altered }))],
        ['server mode', await failure(eaas.server.decrypt(altered))],
      ]
      for (const [where, { code }] of errors) expect([where, change, code]).toEqual([where, change, 'E_DECRYPTION'])
      expect(errors[1]?.[1]).toMatchObject({ place: { index: 0, field: 'a' } })
    }
    expect(await failure(createClient(testing).rewrap({ ...stored, wrapped_key: 'AAAA' }))).toMatchObject({
      code: 'E_DECRYPTION',
      cause: { code: 'E_API', problem: 'E_WRAPPED_KEY' },
    })
  })
})

/** Has a page ask a broker for a hash: the status that it gets, and what is in the application's log. */
async function hashByBroker(value: string, fetch: Fetch): Promise<{ status: number; seen: unknown[] }> {
  const seen: unknown[] = []
  const broker = createBroker({
    baseUrl: 'https://eaas.test',
    apiKey: API_KEY,
    authenticate: () => ({ id: 'ada' }),
    allow: { hash: [keyId] },
    onError: (error) => seen.push(error),
    fetch,
  })
  const headers = { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' }
  const body = JSON.stringify({ key_id: keyId, value })
  const { status } = await broker(new Request('https://app.test/api/eaas/v1/hash', { method: 'POST', headers, body }))
  return { status, seen }
}

describe('an answer that repeats what was sent', () => {
  const value = '12 Rue Chaptal "SECRET"\nParis, Île-de-France'
  const json = JSON.stringify({ value }).slice(10, -2)
  const spellings = [value, json, encodeURIComponent(value)]

  it.each(spellings)('shows no value in its error, spelt as %j', async (spelling) => {
    const problemOf = (text: string) => {
      const { title, detail } = { title: `t ${text}`, detail: `d {"v":"${text}"}` }
      return { type: 'about:blank', title, status: 400, detail, code: 'E_VALIDATION' }
    }
    const answer = (body: object, contentType: string, status: number) =>
      new Response(JSON.stringify(body), { status, headers: { 'content-type': contentType } })
    const problemType = 'application/problem+json'
    const batch = {
      results: [
        { status: 400, body: problemOf(spelling) },
        { status: 400, body: problemOf(spelling) },
      ],
    }
    for (const [count, response] of [
      [1, () => answer(problemOf(spelling), problemType, 400)],
      [1, () => answer({}, `text/html; ${encodeURIComponent(value)}`, 400)],
      [2, () => answer(batch, 'application/json', 200)],
    ] as const) {
      const eaas = createClient({ baseUrl: 'https://eaas.test', apiKey: API_KEY, fetch: async () => response() })
      const calls = Array.from({ length: count }, () => failure(eaas.hash(value, { keyId })))
      for (const error of await Promise.all(calls)) {
        expect(error.code).toMatch(/^E_API$|^E_PROTOCOL$/)
        expect(inspect(error, { depth: 9, showHidden: true })).not.toMatch(/Chaptal|SECRET|Paris|le-de-France/)
      }
    }
  })

  it.each([
    ['halves of characters', (text: string) => [...text].join('\ud800')],
    ['other halves of characters', (text: string) => [...text].join('\udc00')],
    ['a control character for each blank', (text: string) => text.replaceAll(' ', '\u0001')],
    ['another control character for each', (text: string) => text.replaceAll('\n', '\r')],
  ])('shows no secret that comes of %s when the text is made printable', async (_, spell) => {
    const secrets = [API_KEY, value, value.replaceAll('\n', ' ')]
    const fetch: Fetch = async (_, { body }) => {
      const sent = Array.from(
        body?.matchAll(/"(?:dek|value)":("(?:[^"\\]|\\.)*")/g) ?? [],
        ([, text = '']) => JSON.parse(text) as string,
      )
      secrets.push(...sent)
      const title = spell(API_KEY)
      const refusal = { type: 't', title, status: 400, detail: sent.map(spell).join(' '), code: title }
      const results = sent.map(() => ({ status: 400, body: refusal }))
      return sent.length === 1
        ? new Response(JSON.stringify(refusal), {
            status: 400,
            headers: { 'content-type': 'application/problem+json' },
          })
        : new Response(JSON.stringify({ results }), { headers: { 'content-type': 'application/json' } })
    }
    const eaas = createClient({ baseUrl: 'https://eaas.test', apiKey: API_KEY, fetch })
    const hash = () => failure(eaas.hash(value, { keyId }))
    const encrypt = () => failure(eaas.encrypt('x', { keyId }))
    for (const error of [await hash(), await encrypt(), ...(await Promise.all([hash(), encrypt()]))]) {
      expect(error.code).toBe('E_API')
      for (const secret of secrets) expect(inspect(error, { depth: 9 }) + error.message).not.toContain(secret)
    }
    expect(secrets).toHaveLength(7)
  })

  it("shows neither API key nor value in a broker's log", async () => {
    const { status, seen } = await hashByBroker(value, async (_, { headers }) => {
      const echo = `text/html; a=${headers.authorization}; b=${encodeURIComponent(value)}`
      return new Response('', { headers: { 'content-type': echo } })
    })
    expect(status).toBe(502)
    expect(seen).toHaveLength(1)
    expect(inspect(seen, { depth: 9, showHidden: true })).not.toMatch(new RegExp(`Chaptal|${API_KEY}`, 'i'))
  })
})

describe('what a fetch throws', () => {
  const clientOf = (fetch: Fetch) => createClient({ baseUrl: 'https://eaas.test', apiKey: API_KEY, fetch, retries: 0 })

  it('is the cause, and the very error where it holds no secret', async () => {
    const thrown = Object.assign(new Error('the proxy is closed', { cause: new Error('ECONNREFUSED') }), {
      code: 'E_PROXY',
    })
    const error = await failure(clientOf(() => Promise.reject(thrown)).keys.list())
    expect(error).toMatchObject({ code: 'E_NETWORK' })
    expect(error.cause).toBe(thrown)
    const sync = await failure(
      clientOf(() => {
        throw thrown
      }).keys.list(),
    )
    expect(sync.cause).toBe(thrown)
  })

  it('is copied without its secrets where it holds the request, the API key or a value', async () => {
    for (const value of ['the SECRET value', 'a "SECRET"\nvalue']) {
      const error = await failure(
        clientOf((url, init) => {
          const request = { url, init }
          const inner = Object.assign(new Error(`sent ${String(init?.body)}`), { request })
          throw Object.assign(new TypeError(`Bearer ${API_KEY} to ${url}`, { cause: inner }), {
            request,
            code: 'E_PROXY',
          })
        }).hash(value, { keyId }),
      )
      expect(error.cause).toMatchObject({
        name: 'TypeError',
        message: 'Bearer [removed] to https://eaas.test/v1/hash',
        code: 'E_PROXY',
        cause: { message: expect.stringContaining('[removed]') },
      })
      expect(inspect(error, { depth: 9, showHidden: true })).not.toMatch(new RegExp(`SECRET|${API_KEY}`))
    }
  })

  it('is copied where a getter or a method of its class gives the request', async () => {
    class GetterError extends Error {
      constructor(readonly code: string) {
        super('failed')
      }
      get config(): unknown {
        return { headers: { authorization: `Bearer ${API_KEY}` } }
      }
    }
    class MethodError extends Error {
      toJSON() {
        return { authorization: `Bearer ${API_KEY}` }
      }
    }
    class HarmlessError extends Error {
      override readonly name = 'HarmlessError'
      get isTemporary() {
        return true
      }
    }
    const causes = [new GetterError('E_PROXY'), new MethodError('failed')].flatMap((thrown) => [
      thrown,
      new Error('outer', { cause: thrown }),
    ])
    for (const thrown of causes) {
      const { cause } = await failure(clientOf(() => Promise.reject(thrown)).keys.list())
      expect(cause).not.toBe(thrown)
      expect(cause).toMatchObject({ message: thrown.message })
      expect(inspect(cause, { depth: 9, getters: true }) + JSON.stringify(cause)).not.toContain(API_KEY)
    }
    for (const thrown of [
      new HarmlessError('failed'),
      new DOMException('failed', 'NetworkError'),
      new TypeError('x'),
    ]) {
      expect((await failure(clientOf(() => Promise.reject(thrown)).keys.list())).cause).toBe(thrown)
    }
  })

  it('reaches the log of a broker without the API key and without data keys', async () => {
    const { status, seen } = await hashByBroker('a SECRET', (_, init) =>
      Promise.reject(Object.assign(new Error(`failed: ${init.body} ${API_KEY}`), { init })),
    )
    expect(status).toBe(503)
    expect(inspect(seen, { depth: 9, showHidden: true })).toMatch(/failed: .*\[removed\]/)
    expect(inspect(seen, { depth: 9, showHidden: true })).not.toMatch(new RegExp(`SECRET|${API_KEY}`))
  })
})

describe('a client in `using`', () => {
  it('is closed at the end of the block', async () => {
    let outer: Client
    {
      using eaas = createClient({ baseUrl: service.url, apiKey: API_KEY })
      outer = eaas
      await eaas.encrypt('x', { keyId })
    }
    expect(await failure(outer.encrypt('x', { keyId }))).toMatchObject({
      code: 'E_ABORTED',
      message: 'the client is closed',
    })
  })
})
