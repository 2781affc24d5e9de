// What each API key opens and hashes, against what is usual for it, and the entry once that has doubled.
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createDoubledUsageJob } from '../../packages/server/src/operate/jobs/note-doubled-usage.js'
import { purgeTenant } from '../../packages/server/src/operate/jobs/purge-tenants.js'
import { dek } from '../support/audit/audit-scene.js'
import { backend } from '../support/database/database.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

const DAY_MS = 86_400_000
const START = Date.parse('2026-05-01T12:00:00.000Z')
/** A data directory of the embedded database has one process. */
const onSeveral = it.skipIf(backend() === 'embedded')

let now = START
let service: Service
let owner: Caller
let key_id: string
let wrapped_key: string

beforeAll(async () => {
  service = await startService({ now: () => now })
})
afterAll(() => service?.close())
beforeEach(async () => {
  now += 60 * DAY_MS
  owner = await service.createTenant({ envelope_only: false })
  key_id = (await owner.call('POST', '/v1/keys', { name: 'customers/k' })).body.id
  wrapped_key = (await owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek: dek() })).body.wrapped_key
})

type Named = Caller & { id: string }

async function newCaller(fields: object = {}): Promise<Named> {
  const { status, body } = await owner.call('POST', '/v1/api-keys', {
    name: 'b',
    permissions: ['decrypt', 'encrypt', 'audit:read'],
    ...fields,
  })
  expect(status).toBe(201)
  return { ...service.caller(body.secret), id: body.id }
}

async function batch(caller: Caller, op: 'unwrap' | 'hash', count: number): Promise<void> {
  const item = op === 'hash' ? { op, key_id, value: 'x' } : { op, key_id, wrapped_key }
  const { body } = await caller.call('POST', '/v1/batch', { operations: Array.from({ length: count }, () => item) })
  expect(body.results.every(({ status }: { status: number }) => status === 200)).toBe(true)
}

const usageOf = async (caller: Caller, query = '') => (await caller.call('GET', `/v1/usage${query}`)).body.by_api_key

/** Opens so many values on each of some days in a row, and begins another day. */
async function open(caller: Caller, counts: readonly number[]): Promise<void> {
  for (const count of counts) {
    if (count > 0) await batch(caller, 'unwrap', count)
    now += DAY_MS
  }
}

const doubled = async () => (await owner.call('GET', '/v1/audit?action=usage.doubled')).body.logs
const metadataOf = (logs: readonly { metadata: object }[]) => logs.map(({ metadata }) => metadata)

describe('the usage by API key', () => {
  it('counts what each opened and hashed today, single and in batches, by every call that opens or gives a secret', async () => {
    const one = await newCaller()
    const other = await newCaller()
    await batch(one, 'unwrap', 3)
    await one.call('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key })
    await one.call('POST', `/v1/keys/${key_id}/rewrap`, { wrapped_key })
    const { body } = await one.call('POST', '/v1/encrypt', { key_id, plaintext: 'x' })
    await one.call('POST', '/v1/decrypt', body)
    await one.call('POST', `/v1/keys/${key_id}/index-secret`, { name: 'customers' })
    await one.call('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key: 'AAAA' }) // refused: nothing was opened
    await batch(other, 'unwrap', 2)
    await batch(other, 'hash', 4)
    expect(await usageOf(owner)).toEqual([
      { api_key_id: one.id, kind: 'unwrap', today: 6, median: null },
      { api_key_id: other.id, kind: 'hash', today: 4, median: null },
      { api_key_id: other.id, kind: 'unwrap', today: 2, median: null },
    ])
    expect((await owner.call('GET', '/v1/audit?action=key.unwrap&limit=1')).body.total).toBe(6)
  })

  it('tells the median of the days on which there was any, of the last 30 and whatever the month', async () => {
    const caller = await newCaller()
    await open(caller, [90, 2, 0, 0, 4, 6])
    expect(await usageOf(owner)).toEqual([{ api_key_id: caller.id, kind: 'unwrap', today: 0, median: 4 }])
    now += 24 * DAY_MS
    expect(await usageOf(owner)).toMatchObject([{ median: 4 }]) // 90 was 30 days ago
    now += DAY_MS
    expect(await usageOf(owner, '?month=2020-01')).toMatchObject([{ median: 4 }])
    now += DAY_MS
    expect(await usageOf(owner)).toMatchObject([{ median: 4 }])
  })

  it("is that of the caller's tenant alone", async () => {
    await batch(await newCaller(), 'unwrap', 2)
    const stranger = await service.createTenant()
    expect(await usageOf(stranger)).toEqual([])
  })

  it('is that of the whole tenant, as the log: for a report by an API key that is limited to no keys, too', async () => {
    const reporter = await newCaller({ permissions: ['audit:read'], keys: [] })
    for (const caller of [await newCaller(), await newCaller({ keys: [key_id] })]) await batch(caller, 'unwrap', 2)
    expect(await usageOf(reporter)).toHaveLength(2)
    expect(await usageOf(reporter)).toEqual(await usageOf(owner))
  })

  it('stays when a purge takes the entries, and the totals count what is left', async () => {
    const caller = await newCaller()
    const month = new Date(now).toISOString().slice(0, 7)
    await open(caller, [3])
    now += 33 * DAY_MS
    await batch(caller, 'unwrap', 2)
    await purgeTenant(service.services, owner.tenant.tenant_id, { retentionMonths: 1, maxShare: 1 })
    const { body } = await owner.call('GET', '/v1/audit?action=key.unwrap')
    expect([body.total, body.count]).toEqual([2, 2])
    expect((await owner.call('GET', `/v1/usage?month=${month}`)).body.operations['key.unwrap']).toBe(3)
    now -= 5 * DAY_MS
    expect(await usageOf(owner)).toMatchObject([{ today: 0, median: 3 }])
  })
})

describe('an API key that opens more than twice its median', () => {
  it('is on record once a day, with what it did, and the log verifies', async () => {
    const job = createDoubledUsageJob(service.services)
    const found: unknown[] = []
    const run = () => job({ onDoubled: ({ api_key_id, today }) => found.push([api_key_id, today]) })
    const caller = await newCaller()
    await open(caller, [50, 60, 50])
    await batch(caller, 'unwrap', 100)
    await run()
    expect(await doubled()).toEqual([]) // twice is not more than twice
    await batch(caller, 'unwrap', 1)
    for (let round = 0; round < 2; round++) await run()
    const day = new Date(now).toISOString().slice(0, 10)
    const metadata = { api_key_id: caller.id, count: 101, day, median: 50, operation: 'unwrap' }
    expect(metadataOf(await doubled())).toEqual([metadata])
    expect((await doubled())[0]).toMatchObject({ actor: 'system', ip_address: null, key_id: null })
    await createDoubledUsageJob(service.services)() // a process that started since
    expect(found).toEqual([[caller.id, 101]])
    now += DAY_MS
    await batch(caller, 'unwrap', 200)
    await run()
    expect(metadataOf(await doubled())).toEqual([
      { ...metadata, count: 200, day: new Date(now).toISOString().slice(0, 10) },
      metadata,
    ])
    expect((await owner.call('GET', '/v1/audit/verify')).body.valid).toBe(true)
  })

  it('is on record where it did so after the last run of that day, and once', async () => {
    const caller = await newCaller()
    await open(caller, [50, 60, 50])
    const day = new Date(now).toISOString().slice(0, 10)
    now = Date.parse(`${day}T23:59:30.000Z`)
    await batch(caller, 'unwrap', 500)
    now += 60_000
    for (let round = 0; round < 2; round++) await createDoubledUsageJob(service.services)()
    expect(metadataOf(await doubled())).toEqual([
      { api_key_id: caller.id, count: 500, day, median: 50, operation: 'unwrap' },
    ])
  })

  it('is on record for hashes apart', async () => {
    const caller = await newCaller()
    await batch(caller, 'hash', 1)
    await open(caller, [1])
    await batch(caller, 'hash', 120)
    await batch(caller, 'unwrap', 120)
    await service.services.unrecordedCalls.flush()
    await createDoubledUsageJob(service.services)()
    expect(
      (await doubled()).map(({ metadata }: { metadata: { operation: string } }) => metadata.operation).sort(),
    ).toEqual(['hash', 'unwrap'])
  })

  it('is not, without a usual or with fewer than 100 values', async () => {
    const [fresh, small] = [await newCaller(), await newCaller()]
    await open(small, [1])
    await batch(small, 'unwrap', 99)
    await batch(fresh, 'unwrap', 500)
    await createDoubledUsageJob(service.services)()
    expect(await doubled()).toEqual([])
  })

  onSeveral('is on record once, however many processes look at once', async () => {
    const callers = await Promise.all(Array.from({ length: 5 }, () => newCaller()))
    for (const caller of callers) await batch(caller, 'unwrap', 1)
    now += DAY_MS
    for (const caller of callers) await batch(caller, 'unwrap', 150)
    const other = await startService({ database: service.database, now: () => now })
    // Both processes have looked before either can write.
    let jobs: Promise<void>[] = []
    await service.services.sql.begin(async (sql) => {
      await sql`select from heads where tenant_id = ${owner.tenant.tenant_id} for update`
      jobs = [service, other].map(({ services }) => createDoubledUsageJob(services)())
      await sleep(300)
    })
    await Promise.all(jobs)
    expect(await doubled()).toHaveLength(callers.length)
    await other.close()
  })

  it('which cannot be recorded does not keep others from it', async () => {
    const callers = [await newCaller(), await newCaller()]
    for (const caller of callers) await batch(caller, 'unwrap', 1)
    now += DAY_MS
    for (const [at, caller] of callers.entries()) await batch(caller, 'unwrap', 300 - at)
    const failed: string[] = []
    const { services } = service
    let fails = 1
    const append: typeof services.committer.append = (one) =>
      fails-- > 0 ? Promise.reject(new Error('down')) : services.committer.append(one)
    const job = createDoubledUsageJob({ ...services, committer: { ...services.committer, append } })
    await job({ onError: (_, { api_key_id = '' }) => failed.push(api_key_id) })
    expect([failed, metadataOf(await doubled())]).toEqual([[callers[0]?.id], [expect.objectContaining({ count: 299 })]])
    await job()
    expect(await doubled()).toHaveLength(2)
  })

  it('is on record although the counts of another tenant cannot be read', async () => {
    const caller = await newCaller()
    await open(caller, [50])
    await batch(caller, 'unwrap', 300)
    const { sql } = service.services
    const { tenant_id } = (await service.createTenant()).tenant
    const day = new Date(now).toISOString().slice(0, 10)
    // Their sum is more than a bigint holds.
    for (const key_version of [1, 2])
      await sql`
        insert into audit_counts (tenant_id, day, action, key_id, key_version, api_key_id, entries)
        values (${tenant_id}, ${day}, 'key.unwrap', ${key_id}, ${key_version}, ${caller.id}, 9000000000000000000)`
    const failed: unknown[] = []
    await createDoubledUsageJob(service.services)({ onError: (_, of) => failed.push(of) })
    await sql`delete from audit_counts where tenant_id = ${tenant_id}`
    expect([failed, metadataOf(await doubled())]).toEqual([[{ tenant_id }], [expect.objectContaining({ count: 300 })]])
  })
})
