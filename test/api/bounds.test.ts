// The most that one caller may have and send: limits that keep a tenant from taking the server's time from the others.
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Caller, type Service, startService } from '../support/service/service.js'

const MIB = 1_048_576
const realParse = JSON.parse
const realStringify = JSON.stringify

let service: Service
/** How far the service's clock is ahead, in milliseconds. */
let ahead = 0
let owner: Caller

beforeAll(async () => {
  service = await startService({ now: () => Date.now() + ahead })
  owner = await service.createTenant()
})
afterAll(() => service?.close())

/** Sends only the beginning of a body whose declared length is 1 MiB; returns the answer that comes before the rest is sent. */
const sendPart = (path: string, part: string) => sendRaw(path, `content-length: ${MIB}\r\n\r\n${part}`)

/** Sends a request from the length of its body on; returns the beginning of the answer. */
function sendRaw(path: string, rest: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(service.url)
    const socket = connect(Number(port), hostname)
    const headers = `host: x\r\nauthorization: Bearer ${owner.secret}\r\ncontent-type: application/json\r\n`
    socket.write(`POST ${path} HTTP/1.1\r\n${headers}${rest}`)
    socket.once('data', (answer) => {
      socket.destroy()
      resolve(answer.toString())
    })
    socket.once('error', reject)
  })
}

describe('a body', () => {
  it.each([
    ['deeper than 32', '['.repeat(40), 'nested deeper than 32'],
    ['of more than 20,000 values', `{"operations":[${'{},'.repeat(10_001)}`, 'more than 20000 values'],
  ])('%s is refused before it has arrived', async (_, part, detail) => {
    const answer = await sendPart('/v1/batch', part)
    expect(answer).toMatch(/^HTTP\/1.1 400 /)
    expect(answer).toContain(detail)
  })

  it.each([
    ['permissions', 101, 7],
    ['permissions', 15_000, { a: 1 }],
    ['permissions', 15_000, 'encrypt'],
    ['allowed_ips', 257, '10.0.0.1'],
    ['allowed_ips', 19_000, null],
  ])('with too many %s is refused by their number, whatever they are: %d of %j', async (field, count, item) => {
    const body = { name: 'x', permissions: [], [field]: Array.from({ length: count }, () => item) }
    for (const [method, path] of [
      ['POST', '/v1/api-keys'],
      ['PATCH', `/v1/api-keys/${owner.tenant.api_key.id}`],
    ] as const) {
      const answer = await owner.call(method, path, body)
      const isLonger = count * (typeof item === 'object' && item !== null ? 2 : 1) > 20_000
      expect([answer.status, answer.body.detail]).toEqual([
        400,
        isLonger
          ? expect.stringContaining('20000 values')
          : expect.stringMatching(new RegExp(`^${field}: .* got ${count}$`)),
      ])
    }
  })

  it.each([
    [16_000, 200, '{"results":[{"status":200'],
    [17_000, 400, 'more than 16384 pieces'],
  ])('of %d chunks of a byte, with a call in them, is answered with %d', async (count, status, answer) => {
    const key_id = (await owner.call('POST', '/v1/keys', { name: `in ${count} chunks` })).body.id
    const body = JSON.stringify({ operations: [{ op: 'hash', key_id, value: 'x' }] }).padEnd(count)
    const chunked = [...body].map((byte) => `1\r\n${byte}\r\n`).join('')
    const answered = await sendRaw('/v1/batch', `transfer-encoding: chunked\r\n\r\n${chunked}0\r\n\r\n`)
    expect(answered).toContain(`HTTP/1.1 ${status} `)
    expect(answered).toContain(answer)
  })

  it.each([130_000, 300_000])('of %d wrong items is a 400, never a 500', async (count) => {
    const operations = Array.from({ length: count }, () => 7)
    const answer = await owner.call('POST', '/v1/batch', { operations })
    expect([answer.status, answer.body.code]).toEqual([400, 'E_MALFORMED_REQUEST'])
  })

  it.each([
    [1_000, 8_000],
    [40, 65_536],
  ])(
    'of %d calls of %d characters is neither parsed nor answered in one piece: other calls run in between',
    async (count, length) => {
      const tenant = await service.createTenant({ envelope_only: false })
      const key_id = (await tenant.call('POST', '/v1/keys', { name: 'k' })).body.id
      const plaintext = 'x'.repeat(length)
      const body = JSON.stringify({
        operations: Array.from({ length: count }, () => ({ op: 'encrypt', key_id, plaintext })),
      })
      const lengths: number[] = []
      const parse = vi.spyOn(JSON, 'parse')
      const stringify = vi.spyOn(JSON, 'stringify')
      parse.mockImplementation((...args) => {
        lengths.push(args[0].length)
        return realParse(...args)
      })
      stringify.mockImplementation((...args: Parameters<typeof JSON.stringify>) => {
        const text = realStringify(...args)
        lengths.push(text?.length ?? 0)
        return text
      })
      const answer = await fetch(`${service.url}/v1/batch`, {
        method: 'POST',
        headers: { authorization: `Bearer ${tenant.secret}`, 'content-type': 'application/json' },
        body,
      }).then(async (answered) => ({ status: answered.status, headers: answered.headers, text: await answered.text() }))
      parse.mockRestore()
      stringify.mockRestore()
      expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/json; charset=utf-8'])
      expect(answer.headers.get('content-length')).toBe(String(answer.text.length))
      const { results } = JSON.parse(answer.text)
      expect(results).toHaveLength(count)
      expect(new Set(results.map(({ status }: { status: number }) => status))).toEqual(new Set([200]))
      expect(Math.max(...lengths)).toBeLessThan(MIB / 4)
    },
  )

  it('may list 256 addresses', async () => {
    const allowed_ips = Array.from({ length: 256 }, (_, at) => `10.0.${at}.0/24`)
    const { status, body } = await owner.call('POST', '/v1/api-keys', { name: 'x', permissions: [], allowed_ips })
    expect([status, body.allowed_ips]).toEqual([201, allowed_ips])
  })
})

describe('a connection', () => {
  it('on which more calls are sent than are answered is closed', async () => {
    const { hostname, port } = new URL(service.url)
    const socket = connect(Number(port), hostname)
    const head = `GET /v1/keys HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${owner.secret.slice(0, -1)}_\r\n\r\n`
    let answers = 0
    socket.on('data', (bytes) => {
      answers += bytes.toString().split('HTTP/1.1 401').length - 1
    })
    socket.on('error', () => undefined) // reset, while it still writes
    socket.write(head.repeat(2_000))
    await new Promise((resolve) => socket.once('close', resolve))
    expect(answers).toBeLessThan(200)
    expect((await owner.call('GET', '/v1/keys')).status).toBe(200)
  })
})

describe('a tenant', () => {
  it('has 10,000 keys at most', async () => {
    const tenant = await service.createTenant()
    const { body } = await tenant.call('POST', '/v1/keys', { name: 'k' })
    await service.services.sql`
      insert into keys (tenant_id, key_id, name, algorithm, status, current_version, created_at, updated_at, entry_id, mac)
      select tenant_id, gen_random_uuid(), name || n, algorithm, 'destroyed', 1, created_at, updated_at, entry_id, mac
      from keys, generate_series(1, 9998) as n where key_id = ${body.id}`
    expect((await tenant.call('POST', '/v1/keys', { name: 'the last one' })).status).toBe(201)
    const refused = await tenant.call('POST', '/v1/keys', { name: 'one more' })
    expect([refused.status, refused.body.code]).toEqual([409, 'E_LIMIT'])
    expect(refused.body.detail).toContain('10000 keys')
    expect((await tenant.call('POST', `/v1/keys/${body.id}/rotate`)).status).toBe(200)
  })

  it('has 1,000 API keys at most that are neither revoked nor expired', async () => {
    const tenant = await service.createTenant()
    const create = () => tenant.call('POST', '/v1/api-keys', { name: 'x', permissions: [] })
    const { body } = await create()
    await service.services.sql`
      insert into api_keys (tenant_id, api_key_id, digest, name, prefix, permissions, allowed_ips, created_at, entry_id, mac)
      select tenant_id, gen_random_uuid(), digest || n, name, prefix, permissions, allowed_ips, created_at, entry_id, mac
      from api_keys, generate_series(1, 998) as n where api_key_id = ${body.id}`
    const refused = await create()
    expect([refused.status, refused.body.code]).toEqual([409, 'E_LIMIT'])
    expect((await tenant.call('DELETE', `/v1/api-keys/${body.id}`)).status).toBe(204)
    expect((await create()).status).toBe(201)
    expect((await create()).status).toBe(409)
    const neighbour = await service.createTenant()
    expect((await neighbour.call('POST', '/v1/api-keys', { name: 'x', permissions: [] })).status).toBe(201)
  })

  it('has any number of API keys that have expired, of which none is resumed beyond the 1,000', async () => {
    const tenant = await service.createTenant()
    const create = (more = {}) => tenant.call('POST', '/v1/api-keys', { name: 'x', permissions: [], ...more })
    const { body } = await create({ expires_at: new Date(Date.now() + 60_000).toISOString() })
    const copies = (count: number, expiry: string | null) => service.services.sql`
      insert into api_keys (tenant_id, api_key_id, digest, name, prefix, permissions, allowed_ips, created_at, entry_id, mac, expires_at)
      select tenant_id, gen_random_uuid(), gen_random_uuid(), name, prefix, permissions, allowed_ips, created_at, entry_id, mac, ${expiry}
      from api_keys, generate_series(1, ${count}::int) as n where api_key_id = ${body.id}`
    await copies(1_500, '2026-01-01T00:00:00.000Z')
    await copies(997, null) // with the tenant's first one and the one that will have expired, 999
    expect((await create()).status).toBe(201)
    expect((await create()).status).toBe(409)
    ahead += 120_000
    const resume = (expires_at: string | null) => tenant.call('PATCH', `/v1/api-keys/${body.id}`, { expires_at })
    expect((await tenant.call('PATCH', `/v1/api-keys/${body.id}`, { name: 'renamed' })).status).toBe(200)
    const { body: last } = await create() // which the expired one made room for
    for (const expiry of [null, new Date(Date.now() + 3_600_000).toISOString()]) {
      const { status, body: refused } = await resume(expiry)
      expect([status, refused.code]).toEqual([409, 'E_LIMIT'])
    }
    expect((await tenant.call('DELETE', `/v1/api-keys/${last.id}`)).status).toBe(204)
    expect((await resume(null)).status).toBe(200)
    expect((await create()).status).toBe(409)
  })

  it('lists its API keys and its keys in pages', async () => {
    const tenant = await service.createTenant()
    for (const name of ['a', 'b', 'c']) {
      await tenant.call('POST', '/v1/api-keys', { name, permissions: [] })
      await tenant.call('POST', '/v1/keys', { name })
    }
    const page = async (path: string, field: string) => {
      const { status, body } = await tenant.call('GET', path)
      return [status, body.count, body[field]?.map(({ name }: { name: string }) => name)]
    }
    expect(await page('/v1/api-keys', 'api_keys')).toEqual([200, 4, ['first key', 'a', 'b', 'c']])
    expect(await page('/v1/api-keys?limit=2&offset=1', 'api_keys')).toEqual([200, 2, ['a', 'b']])
    expect(await page('/v1/api-keys?limit=99999999999999999999&offset=3', 'api_keys')).toEqual([200, 1, ['c']])
    expect(await page('/v1/api-keys?limit=0', 'api_keys')).toEqual([400, undefined, undefined])
    expect(await page('/v1/keys?limit=2&offset=1', 'keys')).toEqual([200, 2, ['b', 'c']])
  })
})
