// A server whose clock differs from the database's writes nothing: it dates no entry and makes no change.
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { performAsSystem } from '../../packages/server/src/core/runner/perform.js'
import { anchorNow } from '../../packages/server/src/guard/anchor-heads.js'
import { createScheduledVerification } from '../../packages/server/src/operate/jobs/verify-all.js'
import { updateTenant } from '../../packages/server/src/operators/tenants.js'
import { startScheduleOf, UNMEASURED } from '../support/service/schedule.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

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

  it.each([
    ['ahead', 365 * DAY_MS],
    ['behind', -365 * DAY_MS],
  ])(
    'dates nothing a year %s by it: neither the last use of an API key nor a call that is only counted',
    async (_, skew) => {
      skewMs = skew
      expect((await owner.call('POST', '/v1/hash', { key_id, value: 'x' })).status).toBe(200)
      const { unrecordedCalls } = service.services
      await Promise.all([service.services.apiKeyUses.flush(), unrecordedCalls.flush()])
      skewMs = 0
      const { last_used_at } = (await owner.call('GET', '/v1/api-keys')).body.api_keys[0]
      expect(Math.abs(Date.parse(last_used_at) - Date.now())).toBeLessThan(5 * MINUTE_MS)
      const rows = await service.services
        .sql`select distinct extract(year from day)::integer as year from unrecorded_calls`
      const years = [-1, 0, 1].map((days) => new Date(Date.now() + days * DAY_MS).getUTCFullYear())
      for (const { year } of rows) expect(years).toContain(year)
    },
  )

  it('refuses an API key that has expired, although its clock is behind, and serves one that has not, once it is right', async () => {
    const expires_at = new Date(Date.now() + 1_500).toISOString()
    const { secret } = (
      await owner.call('POST', '/v1/api-keys', { name: 'short', permissions: ['keys:read'], expires_at })
    ).body
    const list = async () => (await service.caller(secret).call('GET', '/v1/keys')).status
    expect(await list()).toBe(200)
    await sleep(1_600)
    skewMs = -365 * DAY_MS
    expect(await list()).toBe(401)
  })

  it('replaces a last use that is implausibly far in the future by the next one', async () => {
    const { sql, apiKeyUses } = service.services
    await sql`update api_keys set last_used_at = ${new Date(Date.now() + 365 * DAY_MS).toISOString()}`
    expect((await owner.call('GET', '/v1/keys')).status).toBe(200)
    await apiKeyUses.flush()
    const { last_used_at } = (await owner.call('GET', '/v1/api-keys')).body.api_keys[0]
    expect(Date.parse(last_used_at)).toBeLessThanOrEqual(Date.now())
  })

  it('anchors and verifies once it is right again, although the last anchor and the last verification are dated a year ahead', async () => {
    const right = { ...service, services: { ...service.services, now: () => Date.now() - 365 * DAY_MS } }
    await anchorNow(service.services, { evenIfSame: true })
    expect((await wrap()).status).toBe(200)
    const anchored: (number | undefined)[] = []
    const measures = { ...UNMEASURED, anchored: (left: number | undefined) => void anchored.push(left) }
    const schedule = startScheduleOf(right, { config: { checkpointFile: undefined }, measures })
    await expect.poll(() => anchored[0]).toBe(0)
    await schedule.stop()
    const verify = createScheduledVerification(right.services, { hours: 24 })
    expect(await verify(new AbortController().signal)).toMatchObject({ invalid: [], unverified: [] })
  })

  it('goes on when it is two minutes ahead or behind', async () => {
    for (const skew of [2 * MINUTE_MS, -2 * MINUTE_MS]) {
      skewMs = skew
      expect((await wrap()).status).toBe(200)
    }
  })

  it('creates no installation, so that its log does not begin with a time that is wrong', async () => {
    const environment = { EAAS_MAX_CLOCK_SKEW_SECONDS: '300' }
    await expect(startService({ now: () => Date.now() + 365 * DAY_MS, environment })).rejects.toThrow('clock')
  })
})
