// Rotation by policy, and destruction. The server does each exactly once, with any number of processes and after any downtime.
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { destroyKey, destroyKeyIfDue } from '../../packages/server/src/core/api/key-destruction.js'
import { rotateKeyIfDue } from '../../packages/server/src/core/api/key-rotation.js'
import { doDueWork } from '../../packages/server/src/core/jobs/due-work.js'
import type { Services } from '../../packages/server/src/core/runner/operation.js'
import { performAsSystem } from '../../packages/server/src/core/runner/perform.js'
import { type DueKey, listDueKeys } from '../../packages/server/src/core/store/keys.js'
import { resumeTenant, suspendTenant } from '../../packages/server/src/operators/tenants.js'
import { copyTables, restoreTables, startAnew } from '../support/audit/audit-scene.js'
import { backend } from '../support/database/database.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

const DAY_MS = 86_400_000
const isoTime = (time: number) => new Date(time).toISOString()

let now = Date.now()
let service: Service
const others: Service[] = []

beforeAll(async () => {
  service = await startService({ now: () => now })
  await copyTables(service.services.sql as never, 'empty')
})
afterEach(async () => {
  for (const other of others.splice(0)) await other.close()
})
afterAll(() => service?.close())

/** Starts services on a database without tenants, and makes one; the first service is the same one in each test, with new caches. */
async function start(count = 1): Promise<{ services: Services; all: Service[]; owner: Caller }> {
  await restoreTables(service.services.sql as never, 'empty')
  startAnew(service)
  const { database } = service
  for (let number = 1; number < count; number++) others.push(await startService({ database, now: () => now }))
  return { services: service.services, all: [service, ...others], owner: await service.createTenant() }
}

describe('what is due', () => {
  it('waits while the tenant is suspended, and is done when it is resumed', async () => {
    const { services, owner } = await start()
    const { tenant_id } = owner.tenant
    const rotated = (await owner.call('POST', '/v1/keys', { name: 'rotated' })).body.id
    await owner.call('PATCH', `/v1/keys/${rotated}/rotation`, { interval_days: 1 })
    const doomed = (await owner.call('POST', '/v1/keys', { name: 'doomed' })).body.id
    await owner.call('DELETE', `/v1/keys/${doomed}`)
    await owner.call('POST', `/v1/keys/${doomed}/destroy`, { confirm: 'doomed' })
    await performAsSystem(services, tenant_id, suspendTenant({}))
    now += 8 * DAY_MS
    expect(await listDueKeys(services.sql, isoTime(now), { after: undefined, limit: 10 })).toEqual([])
    expect(await performAsSystem(services, tenant_id, rotateKeyIfDue({ key_id: rotated }))).toBeUndefined()
    expect(await performAsSystem(services, tenant_id, destroyKeyIfDue({ key_id: doomed }))).toBeUndefined()
    await performAsSystem(services, tenant_id, resumeTenant({}))
    expect(await doDueWork(services)).toBe(2)
  })

  it.each([
    ['this clock', { ahead: true }],
    ["the database's clock", { ahead: false }],
  ])('is so by both clocks: %s is eight days ahead', async (_, { ahead }) => {
    const { services, owner } = await start()
    const { id } = (await owner.call('POST', '/v1/keys', { name: 'k' })).body
    await owner.call('DELETE', `/v1/keys/${id}`)
    const { destroy_at } = (await owner.call('POST', `/v1/keys/${id}/destroy`, { confirm: 'k' })).body
    expect(destroy_at).toBe(isoTime(now + 7 * DAY_MS))
    const rotating = (await owner.call('POST', '/v1/keys', { name: 'rotating' })).body.id
    await owner.call('PATCH', `/v1/keys/${rotating}/rotation`, { interval_days: 7 })
    const [right, wrong] = [() => now, () => now + 8 * DAY_MS]
    const wrongly: Services = {
      ...services,
      now: ahead ? wrong : right,
      databaseNow: async () => (ahead ? right() : wrong()),
    }
    expect(await doDueWork(wrongly)).toBe(0)
    await performAsSystem(wrongly, owner.tenant.tenant_id, destroyKeyIfDue({ key_id: id }))
    expect((await owner.call('GET', `/v1/keys/${id}`)).body.status).toBe('pending_destruction')
    now += 7 * DAY_MS
    expect(await doDueWork(wrongly)).toBe(2)
    expect((await owner.call('GET', `/v1/keys/${id}`)).body.status).toBe('destroyed')
  })

  it('as a destruction is so a waiting period after the later clock', async () => {
    const { services, owner } = await start()
    const late: Services = { ...services, now: () => now - 8 * DAY_MS }
    const { id } = (await owner.call('POST', '/v1/keys', { name: 'k' })).body
    await owner.call('DELETE', `/v1/keys/${id}`)
    const operation = destroyKey({ key_id: id, confirm: 'k' })
    const scheduled = await performAsSystem(late, owner.tenant.tenant_id, operation)
    expect(scheduled.destroy_at).toBe(isoTime(now + 7 * DAY_MS))
  })
})

describe('a rotation policy', () => {
  it('is carried out once when it is due, by the system, and then again an interval later', async () => {
    const { services, owner } = await start()
    const { id } = (await owner.call('POST', '/v1/keys', { name: 'k' })).body
    const set = (await owner.call('PATCH', `/v1/keys/${id}/rotation`, { interval_days: 2 })).body
    expect(set.rotation).toEqual({ interval_days: 2, next_rotation_at: new Date(now + 2 * DAY_MS).toISOString() })
    now += 2 * DAY_MS - 1
    expect(await doDueWork(services)).toBe(0)
    now += 1
    expect(await doDueWork(services)).toBe(1)
    expect(await doDueWork(services)).toBe(0)
    const rotated = (await owner.call('GET', `/v1/keys/${id}`)).body
    expect([rotated.current_version, rotated.rotation.next_rotation_at]).toEqual([
      2,
      new Date(now + 2 * DAY_MS).toISOString(),
    ])
    const [entry] = (await owner.call('GET', '/v1/audit?limit=1')).body.logs
    expect(entry).toMatchObject({ action: 'key.rotate', key_id: id, key_version: 2, actor: 'system', ip_address: null })
  })

  it('that was missed for a long time is made up for by one rotation', async () => {
    const { services, owner } = await start()
    const { id } = (await owner.call('POST', '/v1/keys', { name: 'k' })).body
    await owner.call('PATCH', `/v1/keys/${id}/rotation`, { interval_days: 1 })
    now += 100 * DAY_MS
    expect([await doDueWork(services), await doDueWork(services)]).toEqual([1, 0])
    expect((await owner.call('GET', `/v1/keys/${id}`)).body.current_version).toBe(2)
  })

  it('rests while the key is disabled, and ends with null', async () => {
    const { services, owner } = await start()
    const { id } = (await owner.call('POST', '/v1/keys', { name: 'k' })).body
    await owner.call('PATCH', `/v1/keys/${id}/rotation`, { interval_days: 1 })
    await owner.call('DELETE', `/v1/keys/${id}`)
    now += 2 * DAY_MS
    expect(await doDueWork(services)).toBe(0)
    await owner.call('POST', `/v1/keys/${id}/enable`)
    expect(await doDueWork(services)).toBe(1)
    expect((await owner.call('PATCH', `/v1/keys/${id}/rotation`, { interval_days: null })).body.rotation).toBeNull()
    now += 5 * DAY_MS
    expect(await doDueWork(services)).toBe(0)
  })

  it('is carried out however many keys fail before it', async () => {
    const { services, owner } = await start()
    const other = await service.createTenant()
    const { sql } = services
    const { id } = (await owner.call('POST', '/v1/keys', { name: 'k' })).body
    await owner.call('PATCH', `/v1/keys/${id}/rotation`, { interval_days: 1 })
    await other.call('POST', '/v1/keys', { name: 'k' })
    // All of one time, so that pages end between keys of one time; as nobody but the server may write them, each fails.
    await sql`
      insert into keys (tenant_id, key_id, name, algorithm, status, current_version, rotation_interval_days,
                        next_rotation_at, created_at, updated_at, entry_id, mac)
      select tenant_id, gen_random_uuid(), 'copy ' || n, algorithm, status, 1, 1, created_at, created_at, updated_at, entry_id, mac
      from keys, generate_series(1, 1100) n where tenant_id = ${other.tenant.tenant_id}`
    now += DAY_MS
    const failed = new Set<string>()
    const onError = (_: unknown, key_id: string) => void failed.add(key_id)
    expect([await doDueWork(services, { onError }), failed.size]).toEqual([1, 1_100])
    expect((await owner.call('GET', `/v1/keys/${id}`)).body.current_version).toBe(2)
  })

  it('waits for the next start when the server stops', async () => {
    const { services, owner } = await start()
    const { id } = (await owner.call('POST', '/v1/keys', { name: 'k' })).body
    await owner.call('PATCH', `/v1/keys/${id}/rotation`, { interval_days: 1 })
    now += DAY_MS
    expect(await doDueWork(services, { signal: AbortSignal.abort() })).toBe(0)
    expect(await doDueWork(services)).toBe(1)
  })

  it('is found without reading the keys that have none', async () => {
    const { services, owner } = await start()
    const { sql } = services
    await owner.call('POST', '/v1/keys', { name: 'k' })
    await sql`
      insert into keys (tenant_id, key_id, name, algorithm, status, current_version, created_at, updated_at, entry_id, mac)
      select tenant_id, gen_random_uuid(), 'copy ' || n, algorithm, status, 1, created_at, updated_at, entry_id, mac
      from keys, generate_series(1, 5000) n`
    await sql`analyze keys`
    const explained = (strings: TemplateStringsArray, ...values: never[]) => {
      const [first = '', ...rest] = strings
      const texts = [first.includes('select') ? `explain ${first}` : first, ...rest]
      return sql(Object.assign(texts, { raw: texts }), ...values)
    }
    const after: DueKey = {
      tenant_id: owner.tenant.tenant_id,
      key_id: randomUUID(),
      status: 'active',
      due_at: isoTime(now),
    }
    for (const from of [undefined, after]) {
      const plan = await listDueKeys(explained as never, isoTime(now), { after: from, limit: 500 })
      expect(JSON.stringify(plan)).toMatch(/(Index|Index Only|Bitmap Index) Scan (using|on) keys_due/)
    }
  })

  // The embedded database belongs to one process.
  it.runIf(backend() === 'postgres')('is carried out once by four processes that all see it due', async () => {
    const { all, owner } = await start(4)
    const ids: string[] = []
    for (let n = 0; n < 10; n++) ids.push((await owner.call('POST', '/v1/keys', { name: `k${n}` })).body.id)
    for (const id of ids) await owner.call('PATCH', `/v1/keys/${id}/rotation`, { interval_days: 1 })
    now += DAY_MS
    const changed = await Promise.all(all.map(({ services }) => doDueWork(services)))
    expect(changed.reduce((sum, count) => sum + count, 0)).toBe(ids.length)
    for (const id of ids) expect((await owner.call('GET', `/v1/keys/${id}`)).body.current_version).toBe(2)
    expect((await owner.call('GET', '/v1/audit/verify')).body.valid).toBe(true)
  })
})

describe('an interval', () => {
  let owner: Caller
  beforeAll(async () => {
    owner = (await start()).owner
  })

  it.each([0, 3_651, 1.5, '30', undefined, true])('of %j days is refused', async (interval_days) => {
    const { id } = (await owner.call('POST', '/v1/keys', { name: `k ${interval_days}` })).body
    expect((await owner.call('PATCH', `/v1/keys/${id}/rotation`, { interval_days })).status).toBe(400)
  })
})
