import { inspect } from 'node:util'
import { type Envelope, encodeBase64 } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import type { Client } from '../index.js'
import { CLIENT_PARTS, type PartsOwner } from '../records/client-parts.js'
import { keyId, useClients } from '../test-support/clients.js'
import { API_KEY, type Intercept, problem, type Recorded, send } from '../test-support/service.js'

const { service, connect } = useClients()

/** Envelopes of so many DEKs; forgets the requests that made them. */
async function sealEach(count: number): Promise<Envelope[]> {
  const eaas = connect({ deks: { maxMessages: 1 } })
  const envelopes: Envelope[] = []
  for (let at = 0; at < count; at++) envelopes.push(await eaas.encrypt(`value ${at}`, { keyId }))
  service.requests.length = 0
  return envelopes
}

const operations = () => service.requests.map(({ operation }) => operation)

describe('calls of one turn', () => {
  it('are one request: 1,000 decryptions over 300 DEKs', async () => {
    const envelopes = await sealEach(300)
    const many = Array.from({ length: 1_000 }, (_, at) => envelopes[at % 300] as Envelope)
    const eaas = connect()
    const texts = await Promise.all(many.map((envelope) => eaas.decryptText(envelope)))
    expect(texts).toEqual(many.map((_, at) => `value ${at % 300}`))
    expect(operations()).toEqual(['batch'])
    expect(service.count('unwrap')).toBe(300)
  })

  it('are one request when they are of different kinds, and each gets its own answer', async () => {
    const [envelope] = (await sealEach(1)) as [Envelope]
    const other = service.createKey()
    const eaas = connect()
    const [text, hash, , sealed] = await Promise.all([
      eaas.decryptText(envelope),
      eaas.hash('a', { keyId }),
      eaas.hash('a', { keyId: other }),
      eaas.encrypt('b', { keyId: other }),
    ])
    expect(operations()).toEqual(['batch'])
    expect(text).toBe('value 0')
    expect(hash).toBe(await eaas.hash('a', { keyId }))
    expect(await connect().decryptText(sealed)).toBe('b')
  })

  it('go to their own routes when they are alone', async () => {
    const [envelope] = (await sealEach(1)) as [Envelope]
    const eaas = connect()
    await eaas.decrypt(envelope)
    await eaas.hash('a', { keyId })
    await eaas.encrypt('a', { keyId })
    await eaas.rewrap(envelope)
    expect(operations()).toEqual(['unwrap', 'hash', 'wrap', 'rewrap'])
  })

  it('index 1,000 distinct values with one request, 1,001 with two', async () => {
    const eaas = connect()
    const list = Array.from({ length: 1_001 }, (_, at) => ({ a: `value ${at}` }))
    const options = { keyId, fields: ['a'], index: { a: 'a_index' } } as const
    await eaas.encryptMany(list.slice(1), options)
    expect(operations()).toEqual(['batch', 'wrap'])
    const rows = await eaas.encryptMany(list, options)
    expect(service.requests.slice(2).map(({ operations }) => operations.length)).toEqual(
      expect.arrayContaining([1_000]),
    )
    expect(service.requests.length).toBe(4)
    expect(rows[1_000]?.a_index).toBe(await eaas.hash('value 1000', { keyId }))
  })

  it('are split so that no batch has more blinded values than the service takes', async () => {
    const { records } = await (connect() as Client & PartsOwner)[CLIENT_PARTS]()
    service.intercept = ({ operations }, response) => {
      const results = operations.map(() => ({ status: 500, body: {} }))
      send(response, { status: 200, body: { results } })
      return true
    }
    const elements = Array.from({ length: 100 }, () => encodeBase64(new Uint8Array(32)))
    const operation = { op: 'blindHash', name: 'blind_hash', key_id: keyId, units: 25_600, body: { elements } } as const
    await Promise.allSettled(Array.from({ length: 12 }, () => records.batcher.run(operation)))
    expect(service.requests.map(({ operations }) => operations.length)).toEqual([10, 2])
    expect(service.requests[0]?.operations[0]).toMatchObject({
      op: 'blind_hash',
      key_id: keyId,
      elements,
    })
  })

  it('are split so that no batch is longer than a proxy lets through', async () => {
    const eaas = connect()
    const values = Array.from({ length: 60 }, (_, at) => `${at}€`.padEnd(20_000, '€'))
    const hashes = await Promise.all(values.map((value) => eaas.hash(value, { keyId })))
    expect(new Set(hashes).size).toBe(60)
    expect(service.requests.length).toBeGreaterThan(1)
    for (const { body } of service.requests) expect(Buffer.byteLength(body)).toBeLessThan(1024 * 1024)
  })

  it('send a value that is longer than a batch by itself', async () => {
    const eaas = connect()
    const long = 'x'.repeat(300_000)
    await Promise.all([eaas.hash('a', { keyId }), eaas.hash(long, { keyId }), eaas.hash('b', { keyId })])
    expect(operations().sort()).toEqual(['hash', 'hash', 'hash'])
  })

  it('without a cache are an unwrap each, and so an audit entry each, in one request', async () => {
    const [envelope] = (await sealEach(1)) as [Envelope]
    const eaas = connect({ deks: { cache: false } })
    await Promise.all(Array.from({ length: 50 }, () => eaas.decrypt(envelope)))
    expect(operations()).toEqual(['batch'])
    expect(service.count('unwrap')).toBe(50)
  })
})

describe('one that fails in a batch', () => {
  it('does not spoil the others, and names its own call', async () => {
    const [first, second] = (await sealEach(2)) as [Envelope, Envelope]
    const eaas = connect()
    const foreign = { ...second, key_id: '00000000-0000-4000-8000-000000000000' }
    const results = await Promise.allSettled([eaas.decryptText(first), eaas.decryptText(foreign)])
    expect(results[0]).toEqual({ status: 'fulfilled', value: 'value 0' })
    const cause = { code: 'E_API', httpStatus: 404, requestId: 'req-1' }
    expect(results[1]).toMatchObject({ reason: { code: 'E_DECRYPTION', cause } })
    expect((results[1] as PromiseRejectedResult).reason.cause.message).toContain(`/v1/keys/${foreign.key_id}/unwrap`)
    expect(operations()).toEqual(['batch'])
  })

  it('is left out of the request when it was aborted before, and only it fails when it is aborted after', async () => {
    const eaas = connect()
    const early = new AbortController()
    const calls = [
      eaas.hash('a', { keyId, signal: early.signal }),
      eaas.hash('b', { keyId }),
      eaas.hash('c', { keyId }),
    ]
    early.abort()
    const [a, b, c] = await Promise.allSettled(calls)
    expect(a).toMatchObject({ reason: { code: 'E_ABORTED' } })
    expect([b?.status, c?.status]).toEqual(['fulfilled', 'fulfilled'])
    expect(service.requests[0]?.operations.map(({ value }) => value)).toEqual(['b', 'c'])

    const late = new AbortController()
    service.intercept = () => {
      late.abort()
      return false
    }
    const [d, e] = await Promise.allSettled([eaas.hash('d', { keyId, signal: late.signal }), eaas.hash('e', { keyId })])
    expect(d).toMatchObject({ reason: { code: 'E_ABORTED' } })
    expect(e.status).toBe('fulfilled')
  })

  it('shows no secret: neither the API key nor what it sent', async () => {
    service.intercept = (request, response) => {
      const results = request.operations.map(({ value }) =>
        problem(400, `Bad ${value}`, 'E_VALIDATION', `${request.headers.authorization} ${request.body}`),
      )
      send(response, { status: 200, body: { results } })
      return true
    }
    const eaas = connect()
    for (const result of await Promise.allSettled(
      ['SECRET', 'SECRET2', 'a SECRET2LONGER'].map((value) => eaas.hash(value, { keyId })),
    )) {
      expect(result).toMatchObject({ status: 'rejected', reason: { code: 'E_API', httpStatus: 400 } })
      expect(inspect(result, { depth: 9, showHidden: true })).not.toMatch(new RegExp(`SECRET|LONGER|\\]2|${API_KEY}`))
    }
  })
})

describe('a batch', () => {
  const answering =
    (status: number, code = 'E_UNAVAILABLE'): Intercept =>
    ({ operation }, response) => {
      if (operation !== 'batch') return false
      send(response, problem(status, 'As asked', code))
      return true
    }
  const two = (eaas: Client) => Promise.allSettled([eaas.hash('a', { keyId }), eaas.hash('b', { keyId })])

  it.each([
    [503, true],
    [403, false],
  ])('fails for all that are in it after %d, tried again: %s', async (status, retryable) => {
    service.intercept = answering(status)
    for (const result of await two(connect())) {
      expect(result).toMatchObject({ reason: { code: 'E_API', httpStatus: status, retryable } })
    }
    expect(operations()).toHaveLength(retryable ? 3 : 1)
  })

  it.each([404, 405])(
    'becomes single calls when the service has no such route (%d), and is not tried again',
    async (status) => {
      service.intercept = answering(status, 'E_ROUTE_NOT_FOUND')
      const eaas = connect()
      expect((await two(eaas)).map((result) => result.status)).toEqual(['fulfilled', 'fulfilled'])
      expect(operations().sort()).toEqual(['batch', 'hash', 'hash'])
      service.requests.length = 0
      await two(eaas)
      expect(operations()).toEqual(['hash', 'hash'])
    },
  )

  it('is halved until it is let through when something in front of the service takes less (413)', async () => {
    service.intercept = ({ operations }, response) => {
      if (operations.length <= 3) return false
      response.writeHead(413, { 'content-type': 'text/html' }).end('<h1>413 Request Entity Too Large</h1>')
      return true
    }
    const eaas = connect()
    const hashes = await Promise.all(Array.from({ length: 10 }, (_, at) => eaas.hash(`${at}`, { keyId })))
    expect(hashes[7]).toBe(await eaas.hash('7', { keyId }))
    expect(new Set(hashes).size).toBe(10)
    service.requests.length = 0
    await Promise.all(Array.from({ length: 10 }, (_, at) => eaas.hash(`${at}`, { keyId })))
    expect(service.requests.every(({ operations }) => operations.length <= 3)).toBe(true) // learnt
  })

  it('is halved with no more than six requests at once, and no fewer', async () => {
    let [now, most] = [0, 0]
    const fetch: typeof globalThis.fetch = async (...call) => {
      now++
      most = Math.max(most, now)
      await new Promise((resolve) => setTimeout(resolve, 5))
      return globalThis.fetch(...call).finally(() => now--)
    }
    service.intercept = ({ operation }, response) => {
      if (operation !== 'batch') return false
      send(response, problem(413, 'Content Too Large', 'E_BODY_TOO_LARGE'))
      return true
    }
    const eaas = connect({ fetch })
    const hashes = await Promise.all(Array.from({ length: 64 }, (_, at) => eaas.hash(`${at}`, { keyId })))
    expect(new Set(hashes).size).toBe(64)
    expect(most).toBe(6)
  })

  const good = ({ operations }: Recorded) =>
    operations.map(() => ({ status: 200, body: { hash: 'a'.repeat(64), key_id: keyId } }))
  it.each<[string, (request: Recorded) => unknown]>([
    ['no results', () => ({})],
    [
      'bodies for another key',
      (request) => ({
        results: good(request).map(({ status, body }) => ({ status, body: { ...body, key_id: service.createKey() } })),
      }),
    ],
    [
      'problems of another status',
      (request) => ({ results: good(request).map(() => ({ ...problem(400, 'x', 'y'), status: 403 })) }),
    ],
  ])('is refused with %s', async (_, answer) => {
    service.intercept = (request, response) => {
      send(response, { status: 200, body: answer(request) })
      return true
    }
    for (const result of await two(connect())) expect(result).toMatchObject({ reason: { code: 'E_PROTOCOL' } })
  })
})
