// Calls that write no entry and are counted instead: hashes, and values that were refused because they are not authentic.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createUnrecordedCalls } from '../../packages/server/src/runner/unrecorded-calls.js'
import { type Caller, type Service, startService } from '../support/service.js'

const START = Date.parse('2026-05-31T23:59:00.000Z')

let now = START
let service: Service

beforeAll(async () => {
  service = await startService({ now: () => now })
})
afterAll(() => service.close())

async function tenantWithKey(): Promise<{ owner: Caller; key_id: string; api_key_id: string }> {
  const owner = await service.createTenant()
  const { key_id } = (await owner.call('POST', '/v1/keys', { name: 'counted' })).body
  return { owner, key_id, api_key_id: owner.tenant.api_key.id }
}

async function countsOf(owner: Caller, month = '2026-05') {
  return (await owner.call('GET', `/v1/usage?month=${month}`)).body.unrecorded
}

describe('calls without an entry', () => {
  it('are counted by API key and day, and told to their tenant alone', async () => {
    now = START
    const { owner, key_id, api_key_id } = await tenantWithKey()
    const stranger = await service.createTenant()
    const { body } = await owner.call('POST', '/v1/api-keys', { name: 'search', permissions: ['hash'] })
    const searching = service.caller(body.secret)
    for (const value of ['a', 'b', 'c']) await searching.call('POST', '/v1/hash', { key_id, value })
    await owner.call('POST', '/v1/hash', { key_id, value: 'a' })
    for (const call of ['unwrap', 'unwrap', 'rewrap']) {
      expect((await owner.call('POST', `/v1/keys/${key_id}/${call}`, { wrapped_key: 'AAAA' })).status).toBe(403)
    }
    now += 60_000
    await owner.call('POST', '/v1/hash', { key_id, value: 'a' })
    const day = '2026-05-31'
    const counts = await countsOf(owner)
    expect(counts.filter((one: { count: number }) => one.count > 1)).toHaveLength(2)
    expect(counts.map(({ count }: { count: number }) => count)).toEqual([3, 3, 1]) // the largest first
    expect(counts).toContainEqual({ day, api_key_id: body.id, kind: 'hash', count: 3 })
    expect(counts).toContainEqual({ day, api_key_id, kind: 'wrapped_key_refused', count: 3 })
    expect(counts).toContainEqual({ day, api_key_id, kind: 'hash', count: 1 })
    expect(await countsOf(owner, '2026-06')).toEqual([{ day: '2026-06-01', api_key_id, kind: 'hash', count: 1 }])
    expect([await countsOf(stranger), await countsOf(stranger, '2026-06')]).toEqual([[], []])
  })

  it('are counted one by one in a batch', async () => {
    now = START
    const { owner, key_id, api_key_id } = await tenantWithKey()
    const hashes = Array.from({ length: 500 }, (_, at) => ({ op: 'hash', key_id, value: `${at}` }))
    const guesses = Array.from({ length: 400 }, () => ({ op: 'unwrap', key_id, wrapped_key: 'AAAA' }))
    const wrap = { op: 'wrap', key_id, dek: Buffer.alloc(32, 1).toString('base64') }
    await owner.call('POST', '/v1/batch', { operations: [...hashes, wrap, ...guesses] })
    expect(await countsOf(owner)).toEqual([
      { day: '2026-05-31', api_key_id, kind: 'hash', count: 500 },
      { day: '2026-05-31', api_key_id, kind: 'wrapped_key_refused', count: 400 },
    ])
  })

  it('are not those that were refused for another reason', async () => {
    now = START
    const { owner, key_id } = await tenantWithKey()
    const { body } = await owner.call('POST', '/v1/api-keys', { name: 'x', permissions: ['keys:read'] })
    const hash = (caller: Caller, id = key_id) => caller.call('POST', '/v1/hash', { key_id: id, value: 'x' })
    expect((await hash(service.caller(body.secret))).status).toBe(403)
    expect((await hash(service.caller(`${owner.secret}x`))).status).toBe(401)
    expect((await hash(owner, crypto.randomUUID())).status).toBe(404)
    expect((await owner.call('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key: '?' })).status).toBe(400)
    await owner.call('DELETE', `/v1/keys/${key_id}`)
    expect((await hash(owner)).status).toBe(409)
    expect(await countsOf(owner)).toEqual([])
  })

  it('that could not be written are kept, and added to what others wrote', async () => {
    const { owner, api_key_id } = await tenantWithKey()
    const { sql } = service.services
    let isDown = true
    const onceDown = new Proxy(sql, {
      apply: (...args) => (isDown ? Promise.reject(new Error('down')) : Reflect.apply(...args)),
    })
    const [here, there] = [createUnrecordedCalls(onceDown), createUnrecordedCalls(sql)]
    const apiKey = { tenant_id: owner.tenant.tenant_id, api_key_id }
    for (const counts of [here, here, there]) counts.count('hash', apiKey, START)
    await expect(here.flush()).rejects.toThrow('down')
    await there.flush()
    here.count('hash', apiKey, START)
    isDown = false
    await here.flush()
    await here.flush() // nothing is written twice
    expect(await countsOf(owner)).toEqual([{ day: '2026-05-31', api_key_id, kind: 'hash', count: 4 }])
  })

  it('of more API keys than one statement takes are all written', async () => {
    const { owner } = await tenantWithKey()
    const { tenant_id } = owner.tenant
    const counts = createUnrecordedCalls(service.services.sql)
    for (let at = 0; at < 2_500; at++) counts.count('hash', { tenant_id, api_key_id: crypto.randomUUID() }, START)
    await counts.flush()
    const [{ calls }] = await service.services.sql<[{ calls: number }]>`
      select sum(calls)::bigint as calls from unrecorded_calls where tenant_id = ${tenant_id}`
    expect(calls).toBe(2_500)
    expect(await countsOf(owner)).toHaveLength(1_000)
  })
})
