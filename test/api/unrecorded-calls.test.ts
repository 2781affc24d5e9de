// Calls that write no entry and are counted instead: hashes, and calls of an API key that were refused.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { doDueWork } from '../../packages/server/src/core/jobs/due-work.js'
import { createUnrecordedCalls } from '../../packages/server/src/core/runner/noted-calls.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

const ip_address = '127.0.0.1'
const START = Date.parse('2026-05-31T23:59:00.000Z')

let now = START
let service: Service

beforeAll(async () => {
  service = await startService({ now: () => now, environment: { EAAS_TRUST_PROXY: '127.0.0.1' } })
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
    expect(counts).toContainEqual({ day, api_key_id: body.id, kind: 'hash', ip_address, count: 3 })
    expect(counts).toContainEqual({ day, api_key_id, kind: 'wrapped_key_refused', ip_address, count: 3 })
    expect(counts).toContainEqual({ day, api_key_id, kind: 'hash', ip_address, count: 1 })
    expect(await countsOf(owner, '2026-06')).toEqual([
      { day: '2026-06-01', api_key_id, kind: 'hash', ip_address, count: 1 },
    ])
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
      { day: '2026-05-31', api_key_id, kind: 'hash', ip_address, count: 500 },
      { day: '2026-05-31', api_key_id, kind: 'wrapped_key_refused', ip_address, count: 400 },
    ])
  })

  it('of 1,000 operations that an API key may not make leave one row', async () => {
    now = START
    const { owner, key_id } = await tenantWithKey()
    const { body } = await owner.call('POST', '/v1/api-keys', { name: 'x', permissions: ['encrypt'] })
    const operations = Array.from({ length: 1_000 }, () => ({ op: 'unwrap', key_id, wrapped_key: 'AAAA' }))
    expect((await service.caller(body.secret).call('POST', '/v1/batch', { operations })).status).toBe(200)
    expect(await countsOf(owner)).toEqual([
      { day: '2026-05-31', api_key_id: body.id, kind: 'permission_refused', ip_address, count: 1_000 },
    ])
  })

  it('are counted by their reason, alone and in a batch', async () => {
    now = START
    const owner = await service.createTenant({ envelope_only: false })
    const keyOf = async (name: string) => (await owner.call('POST', '/v1/keys', { name })).body.key_id as string
    const [active, disabled, destroyed] = await Promise.all(['a', 'b', 'c'].map(keyOf))
    await owner.call('DELETE', `/v1/keys/${disabled}`)
    await owner.call('DELETE', `/v1/keys/${destroyed}`)
    expect((await owner.call('POST', `/v1/keys/${destroyed}/destroy`, { confirm: 'c' })).status).toBe(200)
    now += 8 * 86_400_000
    const lacking = (await owner.call('POST', '/v1/api-keys', { name: 'x', permissions: ['audit:read'] })).body
    expect(await doDueWork(service.services)).toBe(1)
    const dek = Buffer.alloc(32, 1).toString('base64')
    const hash = (key_id: unknown) => ({ op: 'hash', path: '/v1/hash', body: { key_id, value: 'x' } })
    const wrap = (key_id: unknown) => ({ op: 'wrap', path: `/v1/keys/${key_id}/wrap`, body: { key_id, dek } })
    const cases: { kind: string; status: number; op: string; path: string; body: object; caller?: typeof lacking }[] = [
      { kind: 'state_refused', status: 409, ...wrap(disabled) },
      { kind: 'destroyed_key_refused', status: 409, ...wrap(destroyed) },
      { kind: 'unknown_id_refused', status: 404, ...hash(crypto.randomUUID()) },
      { kind: 'invalid_refused', status: 400, ...wrap(active), body: { key_id: active, dek: 'AAAA' } },
      { kind: 'permission_refused', status: 403, ...hash(active), caller: lacking },
    ]
    for (const { kind, status, op, path, body, caller } of cases) {
      const { call } = caller ? service.caller(caller.secret) : owner
      expect([kind, (await call('POST', path, body)).status]).toEqual([kind, status])
      const operations = Array.from({ length: 3 }, () => ({ op, ...body }))
      const { results } = (await call('POST', '/v1/batch', { operations })).body
      expect([kind, results.map((one: { status: number }) => one.status)]).toEqual([kind, [status, status, status]])
    }
    const counts = await countsOf(owner, '2026-06')
    expect(counts).toHaveLength(cases.length)
    for (const { kind, caller } of cases) {
      const api_key_id = caller?.id ?? owner.tenant.api_key.id
      expect(counts).toContainEqual({ day: '2026-06-08', api_key_id, kind, ip_address, count: 4 })
    }
  })

  it('are those of an API key that is no longer valid, or used from elsewhere, and none of a guessed one', async () => {
    now = START
    const { owner, key_id } = await tenantWithKey()
    const create = async (more: object) => (await owner.call('POST', '/v1/api-keys', { name: 'x', ...more })).body
    const revoked = await create({ permissions: ['hash'] })
    await owner.call('DELETE', `/v1/api-keys/${revoked.id}`)
    const bound = await create({ permissions: ['hash'], allowed_ips: ['10.0.0.1'] })
    const hash = (secret: string) => service.caller(secret).call('POST', '/v1/hash', { key_id, value: 'x' })
    expect((await hash(revoked.secret)).status).toBe(401)
    expect((await hash(bound.secret)).status).toBe(403)
    const guessed = owner.secret.slice(0, -1) + (owner.secret.endsWith('A') ? 'B' : 'A')
    expect((await hash(guessed)).status).toBe(401)
    expect((await hash('no API key')).status).toBe(401)
    const counts = await countsOf(owner)
    expect(counts).toHaveLength(2)
    const day = '2026-05-31'
    expect(counts).toContainEqual({ day, api_key_id: revoked.id, kind: 'api_key_refused', ip_address, count: 1 })
    expect(counts).toContainEqual({ day, api_key_id: bound.id, kind: 'address_refused', ip_address, count: 1 })
  })

  it('are counted by address, up to 32 a day of an API key, and together beyond that', async () => {
    now = START
    const { owner, key_id, api_key_id } = await tenantWithKey()
    const from = (address: string) =>
      owner.call('POST', '/v1/hash', { key_id, value: 'x' }, { 'x-forwarded-for': address })
    for (let host = 1; host <= 40; host++) await from(`10.0.0.${host}`)
    await from('10.0.0.1')
    const counts: { ip_address: string | null; count: number }[] = await countsOf(owner)
    expect(counts).toHaveLength(33)
    const shown = { day: '2026-05-31', api_key_id, kind: 'hash' }
    expect(counts.slice(0, 2)).toEqual([
      { ...shown, ip_address: null, count: 8 },
      { ...shown, ip_address: '10.0.0.1', count: 2 },
    ])
    now += 60_000 // the next day
    await from('10.0.0.40')
    expect(await countsOf(owner, '2026-06')).toMatchObject([{ ip_address: '10.0.0.40', count: 1 }])
  })

  it('that could not be written are kept, and added to what others wrote', async () => {
    const { owner, api_key_id } = await tenantWithKey()
    const { sql } = service.services
    let isDown = true
    const onceDown = new Proxy(sql, {
      apply: (...args) => (isDown ? Promise.reject(new Error('down')) : Reflect.apply(...args)),
    })
    const [here, there] = [createUnrecordedCalls(onceDown), createUnrecordedCalls(sql)]
    const caller = { tenant_id: owner.tenant.tenant_id, api_key_id, ip_address }
    for (const counts of [here, here, there]) counts.count('hash', caller, START)
    await expect(here.flush()).rejects.toThrow('down')
    await there.flush()
    here.count('hash', caller, START)
    isDown = false
    await here.flush()
    await here.flush() // nothing is written twice
    expect(await countsOf(owner)).toEqual([{ day: '2026-05-31', api_key_id, kind: 'hash', ip_address, count: 4 }])
  })

  it('of more API keys than one statement takes are all written', async () => {
    const { owner } = await tenantWithKey()
    const { tenant_id } = owner.tenant
    const counts = createUnrecordedCalls(service.services.sql)
    for (let at = 0; at < 2_500; at++) {
      counts.count('hash', { tenant_id, api_key_id: crypto.randomUUID(), ip_address }, START)
    }
    await counts.flush()
    const [{ calls }] = await service.services.sql<[{ calls: number }]>`
      select sum(calls)::bigint as calls from unrecorded_calls where tenant_id = ${tenant_id}`
    expect(calls).toBe(2_500)
    expect(await countsOf(owner)).toHaveLength(1_000)
  })
})
