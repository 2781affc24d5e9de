import { inspect } from 'node:util'
import { type Envelope, encodeBase64 } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import { type Client, text } from '../index.js'
import { CLIENT_PARTS, type PartsOwner } from '../records/client-parts.js'
import { failure, keyId, useClients } from '../test-support/clients.js'
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

/** Of no key: what the service proves is never reached. */
const PUBLIC_KEY = Buffer.alloc(32, 1).toString('base64')
/** Resolves once no call is sent any more, not even one that nobody waits for. */
async function untilQuiet(): Promise<void> {
  for (let sent = -1; sent !== service.requests.length; ) {
    sent = service.requests.length
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
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

  describe.each([
    ['there is none', 404, 'E_ROUTE_NOT_FOUND'],
    ['something in front lets none through', 413, 'E_BODY_TOO_LARGE'],
  ])('as single calls, where %s', (_, status, code) => {
    /** Refuses each batch, and so each single call. */
    const refuse = (single: number, problemCode: string, meanwhile?: () => void) => {
      const refuseBatch = answering(status, code)
      service.intercept = (request, response) => {
        if (refuseBatch(request, response)) return true
        meanwhile?.()
        send(response, problem(single, 'As asked', problemCode))
        return true
      }
    }
    const values = (count: number) => Array.from({ length: count }, (_, at) => `${at + 1_000}`)
    const singles = () => operations().filter((operation) => operation !== 'batch').length
    const emails = (eaas: Client, by: 'service' | 'oblivious') =>
      eaas.model({
        ...{ name: 'users', keyId, bind: false, index: { by, ...(by === 'oblivious' && { publicKey: PUBLIC_KEY }) } },
        fields: { email: text({ index: 'email_index' }) },
      })

    it.each([
      [401, 'E_UNAUTHORIZED'],
      [403, 'E_MISSING_PERMISSION'],
      [404, 'E_NOT_FOUND'],
      [404, 'E_ROUTE_NOT_FOUND'],
      [409, 'E_KEY_DESTROYED'],
      [413, 'E_BODY_TOO_LARGE'],
      [429, 'E_BUDGET'],
      [500, 'E_TAMPERED'],
      [503, 'E_UNAVAILABLE'],
    ])('ends with the first refusal that holds for all: %d %s', async (single, problemCode) => {
      refuse(single, problemCode)
      const eaas = connect({ retries: 0 })
      const results = await Promise.allSettled(values(100).map((value) => eaas.hash(value, { keyId })))
      for (const result of results) expect(result).toMatchObject({ reason: { code: 'E_API', problem: problemCode } })
      expect(singles()).toBeLessThanOrEqual(12) // those that were in flight
    })

    it('goes on after a refusal of one value, of its key, or of its kind', async () => {
      const missing = crypto.randomUUID()
      const refuseBatch = answering(status, code)
      service.intercept = (request, response) => {
        if (refuseBatch(request, response)) return true
        const wrong = request.operation === 'indexSecret' || request.body.includes('wrong')
        if (wrong) send(response, problem(request.operation === 'hash' ? 400 : 403, 'As asked', 'E_VALIDATION'))
        return wrong
      }
      const eaas = connect()
      const { records } = await (eaas as Client & PartsOwner)[CLIENT_PARTS]()
      const all = await Promise.allSettled([
        records.batcher.indexSecret('users', keyId),
        records.batcher.indexSecret('users', keyId),
        eaas.hash('wrong', { keyId }),
        ...values(10).map((value) => eaas.hash(value, { keyId: missing })),
        ...values(20).map((value) => eaas.hash(value, { keyId })),
      ])
      expect(all.map((result) => result.status)).toEqual([
        ...Array.from({ length: 13 }, () => 'rejected'),
        ...Array.from({ length: 20 }, () => 'fulfilled'),
      ])
    })

    it.each([
      ['service', 400, 'E_VALIDATION'],
      ['service', 413, 'E_BODY_TOO_LARGE'],
      ['oblivious', 400, 'E_VALIDATION'],
      ['oblivious', 413, 'E_BODY_TOO_LARGE'],
    ] as const)('ends once the caller has its error, or has aborted: by %s, %d', async (by, single, problemCode) => {
      let [isOver, late] = [false, 0]
      const fetch: typeof globalThis.fetch = (...call) => {
        if (isOver) late++
        return globalThis.fetch(...call)
      }
      refuse(single, problemCode)
      const rows = values(160).map((email) => ({ email }))
      const model = emails(connect({ fetch }), by)
      expect(await failure(model.encryptMany(rows))).toMatchObject({ code: 'E_API', httpStatus: single })
      isOver = true
      await untilQuiet()
      expect(late).toBe(0)
      expect(singles()).toBeLessThanOrEqual(12)
      service.requests.length = 0
      isOver = false
      const aborting = new AbortController()
      refuse(single, problemCode, () => {
        aborting.abort()
        isOver = true
      })
      const { signal } = aborting
      const searching = emails(connect({ fetch }), by)
      const searches = rows.map((row) => searching.index(row, { signal }))
      for (const result of await Promise.allSettled(searches))
        expect(result).toMatchObject({ reason: { code: 'E_ABORTED' } })
      await untilQuiet()
      expect(late).toBe(0)
      expect(singles()).toBeLessThanOrEqual(12)
    })
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
