import { randomUUID } from 'node:crypto'
import { MAX_LISTED_API_KEYS } from '@eaas/protocol'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Client, createClient } from '../index.js'
import { failure, useService } from '../test-support/clients.js'
import { API_KEY, auditEntry, problem, send, TENANT_ID } from '../test-support/service.js'
import createApiKeys from './api-keys.js'
import type { EntriesOptions } from './audit.js'

const service = useService()
let eaas: Client

beforeEach(() => {
  eaas = createClient({ baseUrl: service.url, apiKey: API_KEY })
})
afterEach(() => eaas.close())

describe('keys', () => {
  it('a key that was created is found again, and rotating it gives version 2', async () => {
    const key = await eaas.keys.create({ name: 'users' })
    expect(key).toMatchObject({ name: 'users', id: key.key_id, current_version: 1, key_version: 1, status: 'active' })
    expect(await eaas.keys.get(key.id)).toMatchObject({ id: key.id, versions: [{ version: 1, status: 'active' }] })
    expect((await eaas.keys.rotate(key.id)).key_version).toBe(2)
    const { keys, count } = await eaas.keys.list()
    expect(keys.map(({ id }) => id)).toContain(key.id)
    expect(keys.length).toBe(count)
  })

  it('sends a body with its type, or neither', async () => {
    const { id } = await eaas.keys.create({ name: 'headers' })
    await eaas.keys.rotate(id)
    const [create, rotate] = service.requests
    expect(create?.headers).toMatchObject({ 'content-type': 'application/json', authorization: `Bearer ${API_KEY}` })
    expect(create?.body).toBe('{"name":"headers"}')
    expect(rotate?.headers['content-type']).toBeUndefined()
    expect(rotate?.headers.cookie).toBeUndefined()
    expect(rotate?.body).toBe('')
  })

  it('a name that is taken is an API error of status 409 with its request id', async () => {
    await eaas.keys.create({ name: 'twice' })
    await expect(eaas.keys.create({ name: 'twice' })).rejects.toMatchObject({
      code: 'E_API',
      httpStatus: 409,
      title: 'Conflict',
      problem: 'E_NAME_TAKEN',
      requestId: 'req-1',
      retryable: false,
    })
  })

  it('ensure creates a key once, and then finds it with one request', async () => {
    const key = await eaas.keys.ensure({ name: 'ensured' })
    expect(key).toMatchObject({ name: 'ensured', current_version: 1, status: 'active' })
    service.requests.length = 0
    expect(await eaas.keys.ensure({ name: 'ensured' })).toEqual(key)
    expect(service.requests.map(({ method, url }) => `${method} ${url}`)).toEqual(['GET /v1/keys?name=ensured'])
  })

  it('ensure gives all who call at once the same key, though each found none', async () => {
    const waiting: (() => void)[] = []
    const together: typeof fetch = async (input, init) => {
      const response = await globalThis.fetch(input, init)
      if (init?.method !== 'GET' || waiting.length === 3) return response
      await new Promise<void>((resolve) => {
        waiting.push(resolve)
        if (waiting.length === 3) for (const go of waiting) go()
      })
      return response
    }
    const clients = Array.from({ length: 3 }, () =>
      createClient({ baseUrl: service.url, apiKey: API_KEY, fetch: together }),
    )
    const keys = await Promise.all(clients.map(({ keys }) => keys.ensure({ name: 'raced' })))
    expect(new Set(keys.map(({ id }) => id)).size).toBe(1)
    expect(service.requests.filter(({ method }) => method === 'POST').length).toBe(3)
    for (const client of clients) client.close()
  })

  it('ensure passes on the refusal when the name is taken and no key of it is shown', async () => {
    service.intercept = ({ method }, response) => {
      send(
        response,
        method === 'GET' ? { status: 200, body: { keys: [], count: 0 } } : problem(409, 'Conflict', 'E_NAME_TAKEN'),
      )
      return true
    }
    await expect(eaas.keys.ensure({ name: 'users' })).rejects.toMatchObject({ code: 'E_API', problem: 'E_NAME_TAKEN' })
    expect(service.requests.length).toBe(3)
  })

  it('an unknown key is an API error of status 404', async () => {
    const unknown = '00000000-0000-4000-8000-000000000000'
    await expect(eaas.keys.get(unknown)).rejects.toMatchObject({
      code: 'E_API',
      httpStatus: 404,
      problem: 'E_NOT_FOUND',
    })
  })

  it.each(['', 'x'.repeat(256), '\ud800', 'a\0', undefined, 5])(
    'refuses the name %j before any network',
    async (name) => {
      await expect(eaas.keys.create({ name: name as string })).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
      await expect(eaas.keys.ensure({ name: name as string })).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
      expect(service.requests).toEqual([])
    },
  )

  it('has a call for each thing that can happen to a key, by its own method and path', async () => {
    const { id } = await eaas.keys.create({ name: 'life' })
    service.requests.length = 0
    expect((await eaas.keys.setRotation(id, 90)).rotation?.interval_days).toBe(90)
    await eaas.keys.setRotation(id, null)
    expect(await eaas.keys.disable(id)).toBeUndefined()
    expect((await eaas.keys.enable(id)).status).toBe('active')
    expect((await eaas.keys.destroy(id, 'life')).status).toBe('pending_destruction')
    expect((await eaas.keys.cancelDestruction(id)).id).toBe(id)
    expect(await eaas.keys.export(id)).toMatchObject({ key_id: id, versions: [{ version: 1 }] })
    expect(service.requests.map(({ method, url, body }) => `${method} ${url.replace(id, 'ID')} ${body}`)).toEqual([
      'PATCH /v1/keys/ID/rotation {"interval_days":90}',
      'PATCH /v1/keys/ID/rotation {"interval_days":null}',
      'DELETE /v1/keys/ID ',
      'POST /v1/keys/ID/enable ',
      'POST /v1/keys/ID/destroy {"confirm":"life"}',
      'POST /v1/keys/ID/destroy/cancel ',
      'POST /v1/keys/ID/export ',
    ])
  })

  it.each([0, -1, 1.5, 3_651, '90', undefined])('refuses an interval of %j days before any network', async (days) => {
    const call = eaas.keys.setRotation('00000000-0000-4000-8000-000000000000', days as number)
    await expect(call).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    expect(service.requests).toEqual([])
  })

  it('counts a name in characters, not in code units', async () => {
    await eaas.keys.create({ name: '🔑'.repeat(255) })
  })

  it('passes filters on', async () => {
    await eaas.keys.list({ status: 'active', name: 'a&b c', limit: 5, offset: 10 })
    expect(service.requests[0]?.url).toBe('/v1/keys?status=active&name=a%26b+c&limit=5&offset=10')
  })

  it.each([{ limit: 0 }, { limit: 1.5 }, { limit: Number.NaN }, { offset: -1 }])(
    'refuses the page %j',
    async (page) => {
      await expect(eaas.keys.list(page)).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
      await expect(eaas.audit.list(page)).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
      expect(service.requests).toEqual([])
    },
  )
})

describe('audit', () => {
  it('lists entries', async () => {
    const { logs, total } = await eaas.audit.list()
    expect(total).toBe(1)
    expect(logs[0]).toMatchObject({ id: 1, action: 'key.create', actor: 'system', metadata: { a: [1] } })
  })

  it('passes filters on; a Date becomes RFC 3339, and an offset keeps its plus sign', async () => {
    const key_id = '00000000-0000-4000-8000-000000000000'
    const date_from = new Date(0)
    await eaas.audit.list({ key_id, action: 'key.wrap', date_from, date_to: '2026-01-01T00:00:00+02:00', limit: 10 })
    const query = new URLSearchParams(service.requests[0]?.url.split('?')[1])
    expect(Object.fromEntries(query)).toEqual({
      key_id,
      action: 'key.wrap',
      date_from: '1970-01-01T00:00:00.000Z',
      date_to: '2026-01-01T00:00:00+02:00',
      limit: '10',
    })
  })

  it.each([
    ['a name for a key id', { key_id: 'users' }],
    ['an unknown action', { action: 'key.wish' as 'key.wrap' }],
    ['an invalid Date', { date_from: new Date(Number.NaN) }],
  ])('refuses %s before any network', async (_, options) => {
    await expect(eaas.audit.list(options)).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    expect(service.requests).toEqual([])
  })

  it('verifies', async () => {
    expect(await eaas.audit.verify()).toMatchObject({ valid: true, total_entries: 1, verified_entries: 1 })
  })
})

const range = (first: number, last: number) =>
  Array.from({ length: Math.abs(last - first) + 1 }, (_, at) => first + (last < first ? -at : at))

describe('audit entries', () => {
  beforeEach(() => {
    service.auditEntries = 250
  })
  afterEach(() => {
    service.auditEntries = 1
  })

  it('come one after the other, oldest first from an id, a page at a time', async () => {
    const ids: number[] = []
    for await (const entry of eaas.audit.entries({ order: 'asc', after_id: 30 })) ids.push(entry.id)
    expect(ids).toEqual(Array.from({ length: 220 }, (_, at) => at + 31))
    expect(service.requests.map(({ url }) => new URLSearchParams(url.split('?')[1]).get('after_id'))).toEqual([
      '30',
      '130',
      '230',
    ])
  })

  it('come newest first by default, none twice while others are added, and no request is made before it is needed', async () => {
    const ids: number[] = []
    for await (const entry of eaas.audit.entries()) {
      if (ids.length === 0) expect(service.requests.length).toBe(1)
      if (ids.push(entry.id) === 50) service.auditEntries += 7
    }
    expect(ids).toEqual(Array.from({ length: 250 }, (_, at) => 250 - at))
  })

  it('go on newest first where more than a page is added meanwhile', async () => {
    const ids: number[] = []
    for await (const entry of eaas.audit.entries()) if (ids.push(entry.id) % 100 === 0) service.auditEntries += 120
    expect(ids).toEqual(range(250, 1))
  })

  it.each<[string, EntriesOptions, number[]]>([
    ['the same page again, newest first', {}, range(250, 151)],
    ['the same page again, oldest first', { order: 'asc' }, range(1, 100)],
    ['the last one that was seen', { order: 'asc', after_id: 30 }, range(30, 40)],
    ['one many times', {}, Array(100).fill(5)],
    ['those of the other order', { order: 'asc' }, range(40, 31)],
    ['a newer one after an older one', {}, [9, 7, 8]],
  ])(
    'refuse %s',
    async (_, options, ids) => {
      service.intercept = (_, response) => {
        const body = { logs: ids.map(auditEntry), count: ids.length, total: 1_000, limit: 100, offset: 0 }
        send(response, { status: 200, body })
        return true
      }
      const read = async () => {
        for await (const { id } of eaas.audit.entries(options)) expect(ids).toContain(id)
      }
      await expect(read()).rejects.toMatchObject({
        code: 'E_PROTOCOL',
        message: expect.stringContaining('/v1/audit: '),
      })
    },
    2_000,
  )

  it('refuse a wrong filter before any network', async () => {
    const entries = eaas.audit.entries({ order: 'up' as 'asc' })
    await expect(entries.next()).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    await expect(eaas.audit.list({ after_id: -1 })).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    expect(service.requests).toEqual([])
  })
})

describe('API keys', () => {
  const id = TENANT_ID

  it('are created, listed, changed and revoked, and only the creation shows a secret', async () => {
    const created = await eaas.apiKeys.create({ name: 'ci', permissions: ['encrypt'], expires_at: new Date(0) })
    expect(created.secret).toBe('eaas_sk_SHOWN')
    expect(JSON.parse(service.requests[0]?.body ?? '')).toEqual({
      name: 'ci',
      permissions: ['encrypt'],
      expires_at: '1970-01-01T00:00:00.000Z',
    })
    expect((await eaas.apiKeys.list()).api_keys[0]).not.toHaveProperty('secret')
    await eaas.apiKeys.update(id, { allowed_ips: ['10.0.0.0/8'] })
    await eaas.apiKeys.revoke(id)
    expect(service.requests.slice(1).map(({ method, url, body }) => `${method} ${url} ${body}`)).toEqual([
      'GET /v1/api-keys ',
      `PATCH /v1/api-keys/${id} {"allowed_ips":["10.0.0.0/8"]}`,
      `DELETE /v1/api-keys/${id} `,
    ])
  })

  /** Has the service answer with pages of these, from the offset that `offsetOf` reads of a request. */
  const givePages = (rows: number, offsetOf: (query: URLSearchParams) => number) => {
    const created_at = new Date(0).toISOString()
    const record = { name: 'x', prefix: 'eaas_sk_ab', permissions: ['wrap'], status: 'revoked', created_at }
    const all = Array.from({ length: rows }, () => ({ id: randomUUID(), ...record }))
    service.intercept = ({ url }, response) => {
      const offset = offsetOf(new URL(url, service.url).searchParams)
      const api_keys = all.slice(offset, offset + MAX_LISTED_API_KEYS)
      send(response, { status: 200, body: { api_keys, count: api_keys.length } })
      return true
    }
    return all.map(({ id }) => id)
  }

  it('are all listed, each once, page after page until one is short', async () => {
    const ids = givePages(MAX_LISTED_API_KEYS + 1, (query) => Number(query.get('offset')))
    const { api_keys, count } = await eaas.apiKeys.list()
    expect(api_keys.map(({ id }) => id)).toEqual(ids)
    expect(count).toBe(ids.length)
    expect(service.requests.map(({ url }) => url)).toEqual(['/v1/api-keys', '/v1/api-keys?offset=10000'])
  })

  it('are not listed in part where the service gives the same page again', async () => {
    givePages(MAX_LISTED_API_KEYS, () => 0)
    await expect(eaas.apiKeys.list()).rejects.toMatchObject({ code: 'E_PROTOCOL', retryable: false })
    expect(service.requests).toHaveLength(2)
  })

  it('are not listed for ever where each page of the service has others', async () => {
    let [pages, number] = [0, 0]
    const http = async () => {
      pages += 1
      return { api_keys: Array.from({ length: MAX_LISTED_API_KEYS }, () => ({ id: `${number++}` })) }
    }
    const error = await failure(createApiKeys(http as never).list())
    expect([error.code, pages]).toEqual(['E_PROTOCOL', 100])
  })

  it('keep what an update leaves out, and clear what it sets to null', async () => {
    await eaas.apiKeys.update(id, { expires_at: null, allowed_ips: null })
    expect(service.requests[0]?.body).toBe('{"expires_at":null,"allowed_ips":null}')
  })

  it('refuse a name, an id or a time that cannot be one before any network', async () => {
    const calls = [
      eaas.apiKeys.create({ name: '', permissions: [] }),
      eaas.apiKeys.create({ name: 'x', permissions: 'encrypt' as never }),
      eaas.apiKeys.update('../keys', {}),
      eaas.apiKeys.update(id, { name: '' }),
      eaas.apiKeys.update(id, { expires_at: new Date(Number.NaN) }),
      eaas.apiKeys.update(id, { expires_at: Date.parse('2026-13-45') as never }),
      eaas.apiKeys.create({ name: 'x', permissions: [], allowed_ips: [] }),
      eaas.apiKeys.revoke('users'),
    ]
    for (const call of calls) await expect(call).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    expect(service.requests).toEqual([])
  })
})

describe('the tenant', () => {
  it('is read, and so is what it used', async () => {
    expect((await eaas.tenant()).tenant_id).toBe(TENANT_ID)
    expect((await eaas.usage()).operations).toEqual({ 'key.wrap': 3 })
    await eaas.usage('2026-10')
    expect(service.requests.map(({ url }) => url)).toEqual(['/v1/tenant', '/v1/usage', '/v1/usage?month=2026-10'])
    await expect(eaas.usage('2026-13')).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
  })
})

describe('health', () => {
  it('is an answer, also when the service is degraded', async () => {
    expect((await eaas.health()).status).toBe('healthy')
    service.intercept = (_, response) => {
      const body = { status: 'degraded', database: 'down', cache: 'up', hsm: 'none', durability: 'synchronous' }
      response.writeHead(503, { 'content-type': 'application/json' }).end(JSON.stringify(body))
      return true
    }
    expect((await eaas.health()).status).toBe('degraded')
    service.intercept = undefined
    expect(service.requests.map(({ url }) => url)).toEqual(['/health', '/health'])
  })

  it('is an error of the service when a problem comes in its place', async () => {
    service.intercept = (_, response) => {
      send(response, problem(503, 'Service Unavailable', 'E_UNAVAILABLE'))
      return true
    }
    await expect(eaas.health()).rejects.toMatchObject({ code: 'E_API', problem: 'E_UNAVAILABLE', retryable: true })
  })
})

describe('server mode', () => {
  it('seals and opens on the service, and the client opens its bundles itself, and the reverse', async () => {
    const { id: keyId } = await eaas.keys.create({ name: 'server' })
    const bundle = await eaas.server.encrypt('Ž\0🔐', { keyId })
    expect(bundle).not.toHaveProperty('envelope_version')
    expect(await eaas.server.decryptText(bundle)).toBe('Ž\0🔐')
    for (const none of [undefined, null, 'x']) {
      for (const call of [eaas.server.decrypt(none as never), eaas.server.decryptText(none as never)]) {
        expect(await failure(call)).toMatchObject({
          code: 'E_INVALID_INPUT',
          message: expect.stringMatching(/^not an envelope/),
        })
      }
    }
    expect(await eaas.decryptText(bundle)).toBe('Ž\0🔐')
    const envelope = await eaas.encrypt(new Uint8Array([0, 255]), { keyId, envelope: 1 })
    expect(await eaas.server.decrypt(envelope)).toEqual(new Uint8Array([0, 255]))
    const ofV2 = await eaas.encrypt('x', { keyId })
    service.requests.length = 0
    expect(await failure(eaas.server.decrypt(ofV2))).toMatchObject({
      code: 'E_INVALID_INPUT',
      message: expect.stringContaining('server mode opens format v1'),
    })
    expect(service.requests).toEqual([])
  })

  it('refuses more than 64 KiB before any network', async () => {
    const keyId = '00000000-0000-4000-8000-000000000000'
    await expect(eaas.server.encrypt('x'.repeat(65_537), { keyId })).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    expect(service.requests).toEqual([])
  })
})
