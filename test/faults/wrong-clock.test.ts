// A server whose clock differs from the database's writes nothing: it dates no entry and makes no change.
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { updateTenant } from '../../packages/server/src/operations/update-tenant.js'
import { performAsSystem } from '../../packages/server/src/runner/perform.js'
import { type Caller, type Service, startService } from '../support/service.js'

const MINUTE_MS = 60_000
const DAY_MS = 1_440 * MINUTE_MS
const dek = () => randomBytes(32).toString('base64')

let service: Service
let owner: Caller
let key_id: string
let skewMs = 0

beforeAll(async () => {
  const environment = { EAAS_MAX_CLOCK_SKEW_SECONDS: '300' }
  service = await startService({ now: () => Date.now() + skewMs, environment })
  owner = await service.createTenant({ envelope_only: false })
  key_id = (await owner.call('POST', '/v1/keys', { name: 'k' })).body.id
})
afterAll(() => service?.close())
beforeEach(() => {
  skewMs = 0
})

const wrap = () => owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek: dek() })
const encrypt = () => owner.call('POST', '/v1/encrypt', { key_id, plaintext: 'x' })
const create = () => owner.call('POST', '/v1/keys', { name: randomBytes(8).toString('hex') })
const newest = async () => (await owner.call('GET', '/v1/audit?limit=1')).body.logs[0]
const health = async () => {
  const { status, body } = await owner.call('GET', '/health')
  return [status, body.status, body.database, body.detail]
}
const metrics = async () => (await owner.call('GET', '/metrics')).body as string

describe('a server whose clock is wrong', () => {
  it.each([
    ['ten days ahead', 10 * DAY_MS],
    ['six minutes ahead', 6 * MINUTE_MS],
    ['six minutes behind', -6 * MINUTE_MS],
    ['a year behind', -365 * DAY_MS],
  ])('writes nothing when it is %s, says so, and goes on once it is right', async (_, skew) => {
    expect((await wrap()).status).toBe(200)
    const before = await newest()
    skewMs = skew
    for (const call of [wrap, encrypt, create]) {
      const { status, body } = await call()
      expect([status, body.code, body.dek, body.wrapped_key]).toEqual([
        500,
        'E_AUDIT_NOT_WRITTEN',
        undefined,
        undefined,
      ])
    }
    expect(service.alarms[0]).toMatchObject({ message: expect.stringMatching(/clock.*so nothing is written/) })
    expect(await metrics()).toMatch(/^eaas_clock_wrong 1$/m)
    await expect(service.createTenant()).rejects.toThrow('clock')
    expect((await health()).slice(0, 3)).toEqual([503, 'degraded', 'clock'])
    skewMs = 0
    expect((await health()).slice(0, 3)).toEqual([200, 'healthy', 'up'])
    expect(await newest()).toEqual(before)
    expect((await wrap()).status).toBe(200)
    expect(await metrics()).toMatch(/^eaas_clock_wrong 0$/m)
    const { created_at } = await newest()
    expect(Math.abs(Date.parse(created_at) - Date.now())).toBeLessThan(5 * MINUTE_MS)
    expect((await owner.call('GET', '/v1/audit/verify')).body.valid).toBe(true)
  })

  it('writes nothing under a quota either, where calls are counted under a lock', async () => {
    await performAsSystem(service.services, owner.tenant.tenant_id, updateTenant({ monthly_encrypt_quota: 1_000 }))
    expect((await encrypt()).status).toBe(200)
    skewMs = 40 * DAY_MS
    expect((await encrypt()).status).toBe(500)
    skewMs = 0
    expect((await encrypt()).status).toBe(200)
  })

  it('says so at /health and in the metrics without any call, and is ready again without one', async () => {
    skewMs = -6 * MINUTE_MS
    expect(await health()).toEqual([503, 'degraded', 'clock', expect.stringMatching(/clock.*so nothing is written/)])
    expect(await metrics()).toMatch(/^eaas_clock_wrong 1$/m)
    expect(await metrics()).toMatch(/^eaas_degraded 1$/m)
    skewMs = 0
    expect(await health()).toEqual([200, 'healthy', 'up', undefined])
    expect(await metrics()).toMatch(/^eaas_clock_wrong 0$/m)
    expect(await metrics()).toMatch(/^eaas_degraded 0$/m)
  })

  it('goes on when it is two minutes ahead or behind', async () => {
    for (const skew of [2 * MINUTE_MS, -2 * MINUTE_MS]) {
      skewMs = skew
      expect((await wrap()).status).toBe(200)
    }
  })
})
