// GET /metrics: what changes each metric, and what the metrics never reveal.
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildApp } from '../../packages/server/src/app.js'
import type { Durability } from '../../packages/server/src/core/store/writability.js'
import { createMetrics } from '../../packages/server/src/observe/metrics.js'
import { freshDatabase } from '../support/database/database.js'
import { startEaas } from '../support/service/eaas-process.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

let service: Service
let owner: Caller
let key_id: string

beforeAll(async () => {
  service = await startService()
  owner = await service.createTenant()
  key_id = (await owner.call('POST', '/v1/keys', { name: 'metrics' })).body.key_id
})
afterAll(() => service.close())

async function scrape(url = service.url): Promise<string> {
  const response = await fetch(`${url}/metrics`)
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/)
  return response.text()
}

/** Reads the value of a series by its full name with labels; 0 if it does not exist yet. */
function value(text: string, series: string): number {
  const line = text.split('\n').find((line) => line.startsWith(`${series} `))
  return line === undefined ? 0 : Number(line.slice(series.length + 1))
}

describe('metrics', () => {
  it('count each request by method, route and status, and time it by route', async () => {
    const read = { series: 'eaas_http_requests_total{method="GET",route="/v1/keys/:id",status="200"}' }
    const missing = { series: 'eaas_http_requests_total{method="GET",route="/v1/keys/:id",status="404"}' }
    const timed = 'eaas_http_request_duration_seconds_count{route="/v1/keys/:id"}'
    const before = await scrape()
    await owner.call('GET', `/v1/keys/${key_id}`)
    await owner.call('GET', `/v1/keys/${key_id}`)
    await owner.call('GET', '/v1/keys/no-such-key')
    const after = await scrape()
    expect(value(after, read.series) - value(before, read.series)).toBe(2)
    expect(value(after, missing.series) - value(before, missing.series)).toBe(1)
    expect(value(after, timed) - value(before, timed)).toBe(3)
  })

  it('count each committed entry by action, once, and the batches that they were committed in', async () => {
    const wraps = 'eaas_audit_entries_total{action="key.wrap"}'
    const before = await scrape()
    const dek = Buffer.alloc(32, 1).toString('base64')
    const operations = Array.from({ length: 5 }, () => ({ op: 'wrap', key_id, dek }))
    await owner.call('POST', '/v1/batch', { operations })
    await owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek })
    await owner.call('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key: 'AAAA' }) // refused: no entry
    const after = await scrape()
    const grown = (series: string) => value(after, series) - value(before, series)
    expect(grown(wraps)).toBe(6)
    expect(grown('eaas_audit_entries_total{action="key.unwrap"}')).toBe(0)
    expect(grown('eaas_audit_batch_entries_count')).toBe(2)
    expect(grown('eaas_audit_batch_entries_sum')).toBe(6)
    expect(grown('eaas_audit_commit_seconds_count')).toBe(2)
    expect(grown('eaas_audit_commit_seconds_sum')).toBeGreaterThan(0)
  })

  it('show the version that runs', async () => {
    const { version } = JSON.parse(
      await readFile(new URL('../../packages/server/package.json', import.meta.url), 'utf8'),
    )
    expect(await scrape()).toContain(`eaas_build_info{version="${version}"} 1`)
  })

  it('show that nothing waits, and no tenant is alarmed about', async () => {
    const text = await scrape()
    expect(text).toMatch(/^eaas_audit_queue_entries 0$/m)
    expect(text).toMatch(/^eaas_audit_alarmed_tenants 0$/m)
  })

  it('show a tenant that is no longer served', async () => {
    const victim = await service.createTenant()
    await victim.call('GET', '/v1/tenant')
    await service.services.sql`delete from heads where tenant_id = ${victim.tenant.tenant_id}`
    expect((await victim.call('GET', '/v1/tenant')).status).toBe(500)
    expect(await scrape()).toMatch(/^eaas_audit_alarmed_tenants 1$/m)
  })

  it('show how old checkpoints are and what became of the purge, and nothing before there was either', async () => {
    const metrics = createMetrics()
    const { services } = service
    const app = buildApp({ services, findDurability: async () => 'asynchronous', logger: false, metrics })
    const shown = async () =>
      (await app.inject({ url: '/metrics' })).body
        .split('\n')
        .filter((line) => /^eaas_(audit_(checkpoint|purge|verification)|dur)/.test(line))
    try {
      expect(await shown()).toEqual(['eaas_durability_synchronous 0'])
      metrics.checkpointsWritten()
      metrics.purgeRan(2)
      metrics.verificationRan(3, { isComplete: true })
      expect(await shown()).toEqual([
        expect.stringMatching(/^eaas_audit_checkpoint_age_seconds \d/),
        expect.stringMatching(/^eaas_audit_purge_age_seconds \d/),
        'eaas_audit_purge_failed_tenants 2',
        expect.stringMatching(/^eaas_audit_verification_age_seconds \d/),
        'eaas_audit_verification_failed_logs 3',
        'eaas_durability_synchronous 0',
      ])
    } finally {
      await app.close()
    }
  })

  it('say nothing of the durability that the database has not named yet, and neither does /health', async () => {
    let findDurability = (): Promise<Durability> => Promise.reject(new Error('no database'))
    const app = buildApp({ services: service.services, findDurability: () => findDurability(), logger: false })
    const shown = async () => [
      (await app.inject({ url: '/health' })).json().durability,
      /^eaas_durability_synchronous .*$/m.exec((await app.inject({ url: '/metrics' })).body)?.[0],
    ]
    try {
      expect(await shown()).toEqual(['unknown', undefined])
      findDurability = async () => 'asynchronous'
      expect(await shown()).toEqual(['asynchronous', 'eaas_durability_synchronous 0'])
      findDurability = () => Promise.reject(new Error('no database'))
      expect(await shown()).toEqual(['asynchronous', 'eaas_durability_synchronous 0'])
    } finally {
      await app.close()
    }
  })

  it('show how many tenants the last anchor left out, and nothing while another server writes the anchors', async () => {
    const { registry, anchored } = createMetrics()
    const shown = async () => (await registry.metrics()).match(/^eaas_audit_unanchored_tenants .*$/m)?.[0]
    expect(await shown()).toBeUndefined()
    anchored(2)
    expect(await shown()).toBe('eaas_audit_unanchored_tenants 2')
    anchored(0)
    expect(await shown()).toBe('eaas_audit_unanchored_tenants 0')
    anchored(undefined)
    expect(await shown()).toBeUndefined()
    expect(await registry.metrics()).toMatch(/^eaas_audit_anchor_age_seconds \d/m)
  })

  it('count the ages of configured jobs from the start, so that an alert fires for a job that never succeeds', async () => {
    const eaas = await startEaas({
      database: await freshDatabase('metrics'),
      environment: {
        EAAS_CHECKPOINT_FILE: '/dev/full',
        EAAS_AUDIT_RETENTION_MONTHS: '12',
        EAAS_AUDIT_VERIFY_HOURS: '24',
      },
    })
    try {
      const ages = (await scrape(eaas.url)).match(/^eaas_audit_\w+_age_seconds [\d.]+$/gm)
      expect(ages?.map((line) => line.split(' ')[0])).toEqual([
        'eaas_audit_anchor_age_seconds',
        'eaas_audit_checkpoint_age_seconds',
        'eaas_audit_purge_age_seconds',
        'eaas_audit_verification_age_seconds',
        'eaas_audit_watch_age_seconds',
      ])
    } finally {
      await eaas.stop()
    }
    const registry = createMetrics({ anchors: true, checkpoints: true, purges: true, verifications: true }).registry
    const shown = (await registry.metrics())
      .split('\n')
      .filter((line) => /^eaas_audit_(anchor|unanchored|checkpoint|purge|verif)/.test(line))
    expect(shown).toEqual([
      expect.stringMatching(/^eaas_audit_anchor_age_seconds \d/),
      expect.stringMatching(/^eaas_audit_checkpoint_age_seconds \d/),
      expect.stringMatching(/^eaas_audit_purge_age_seconds \d/),
      expect.stringMatching(/^eaas_audit_verification_age_seconds \d/),
    ])
  })

  it('hold the metrics of the process', async () => {
    expect(await scrape()).toMatch(/^process_cpu_user_seconds_total [\d.]+$/m)
  })

  it('count hashes and refused wrapped keys, which have no entry', async () => {
    const series = (kind: string) => `eaas_unrecorded_calls_total{kind="${kind}"}`
    const before = await scrape()
    expect(before).toContain(`${series('decryption_refused')} 0`) // there before the first call, for alerts on its rate
    const operations = Array.from({ length: 7 }, (_, at) => ({ op: 'hash', key_id, value: `${at}` }))
    await owner.call('POST', '/v1/batch', { operations })
    await owner.call('POST', '/v1/hash', { key_id, value: 'x' })
    await owner.call('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key: 'AAAA' })
    const after = await scrape()
    const grown = (kind: string) => value(after, series(kind)) - value(before, series(kind))
    expect([grown('hash'), grown('wrapped_key_refused'), grown('decryption_refused')]).toEqual([8, 1, 0])
  })

  it('hold no id of a tenant, a key or an API key, and no path that a caller made up', async () => {
    await owner.call('GET', `/v1/keys/${key_id}`)
    await owner.call('GET', `/made-up/${key_id}`)
    const text = await scrape()
    for (const secret of [owner.tenant.tenant_id, key_id, owner.tenant.api_key.id, owner.secret, 'made-up']) {
      expect(text).not.toContain(secret)
    }
    expect(text).not.toMatch(/[0-9a-f]{8}-[0-9a-f]{4}-/)
    expect(text).toContain('route="unmatched",status="404"')
  })

  it('are of one application each: two in a process do not collide', async () => {
    const { services } = service
    const second = buildApp({ services, findDurability: async () => 'synchronous', logger: false })
    try {
      await second.inject({ url: '/openapi.json' })
      const { body } = await second.inject({ url: '/metrics' })
      expect(value(body, 'eaas_http_requests_total{method="GET",route="/openapi.json",status="200"}')).toBe(1)
      expect(body).not.toContain('/v1/keys')
      expect(body).toMatch(/^process_cpu_user_seconds_total /m)
    } finally {
      await second.close()
    }
  })
})
