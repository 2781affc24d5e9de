// The purge that a server carries out by itself, and what it says of it.
import { expect, it, onTestFinished, vi } from 'vitest'
import { buildApp } from '../../../packages/server/src/app.js'
import { createMetrics } from '../../../packages/server/src/observe/metrics.js'
import { createPurge, purgeTenant, purgeTenants } from '../../../packages/server/src/operate/jobs/purge-tenants.js'
import type { ScheduleOptions } from '../../../packages/server/src/schedule.js'
import { startScheduleOf, UNLOGGED, UNMEASURED } from '../../support/service/schedule.js'
import { ALL, clock, expectVerifies, OLD, PRESENT, RESTATED, START, service, tenant_id, useLog } from './scene.js'

useLog()

it('a scheduled purge takes what is too old, and tells the log and the metrics of the tenant that failed', async () => {
  clock.now = START
  const { tenant: whole } = await service.createTenant() // all that it has is old, a larger share than is purged
  clock.now = PRESENT
  const written: { details: unknown; message: unknown }[] = []
  const write = (details: unknown, message: unknown) => void written.push({ details, message })
  const metrics = createMetrics()
  const runs: number[] = []
  const schedule = startScheduleOf(service, {
    config: { auditRetentionMonths: 12, checkpointFile: undefined },
    measures: {
      ...UNMEASURED,
      purgeRan(failed) {
        metrics.purgeRan(failed)
        runs.push(failed)
      },
    },
    log: { info: write, error: write, fatal: write } as unknown as ScheduleOptions['log'],
  })
  await expect.poll(() => runs).toEqual([1])
  await schedule.stop()
  const app = buildApp({
    services: service.services,
    findDurability: async () => 'synchronous',
    logger: false,
    metrics,
  })
  const health = await app.inject({ url: '/health' })
  expect([health.statusCode, health.json()]).toMatchObject([
    200,
    { status: 'degraded', database: 'purge', detail: expect.stringMatching(/of a tenant.*eaas purge --dry-run/) },
  ])
  expect((await app.inject({ url: '/metrics' })).body).toMatch(/^eaas_audit_purge_failed_tenants 1$/m)
  metrics.purgeRan(0)
  expect((await app.inject({ url: '/health' })).json()).toMatchObject({ status: 'healthy', database: 'up' })
  await app.close()
  expect(written).toHaveLength(2)
  expect(written).toContainEqual({
    message: 'purged audit entries',
    details: expect.objectContaining({ tenant_id, entries: OLD, purged_through: OLD }),
  })
  expect(written).toContainEqual({
    message: 'purging the audit log failed',
    details: { tenant_id: whole.tenant_id, err: expect.objectContaining({ code: 'E_STATE' }) },
  })
  await expectVerifies({ total: ALL - OLD + RESTATED + 1, purged: OLD })
})

it('what an operator resumes is no longer reported within seconds, and what is still kept is', async () => {
  clock.now = START
  const [first, second] = [await service.createTenant(), await service.createTenant()]
  clock.now = PRESENT
  const metrics = createMetrics()
  const schedule = startScheduleOf(service, {
    config: { auditRetentionMonths: 12, checkpointFile: undefined },
    measures: { ...UNMEASURED, purgeRan: metrics.purgeRan, purgeLeft: metrics.purgeLeft },
  })
  const resume = ({ tenant }: typeof first) =>
    purgeTenant(service.services, tenant.tenant_id, { retentionMonths: 12, resume: 'the retention is right' })
  const SECONDS = { timeout: 15_000 }
  await expect.poll(metrics.unpurged, SECONDS).toBe(2)
  await resume(first)
  await expect.poll(metrics.unpurged, SECONDS).toBe(1)
  await resume(second)
  await expect.poll(metrics.unpurged, SECONDS).toBe(0)
  await schedule.stop()
}, 60_000)

it('what a purge left counts until the database has nothing of it that is due', async () => {
  clock.now = START
  const { tenant } = await service.createTenant()
  clock.now = PRESENT
  const { services } = service
  let left = 0
  const note = (tenants: number) => {
    left = tenants
  }
  const { purge, look } = createPurge({
    config: { auditRetentionMonths: 12, auditArchiveDir: undefined },
    services,
    measures: { purgeRan: note, purgeLeft: note },
    log: UNLOGGED,
  })
  await purge({ signal: new AbortController().signal, fail: (error) => expect.unreachable(String(error)) })
  expect(left).toBe(1)
  await look()
  expect(left).toBe(1)
  // Marked, but a trigger keeps the rows.
  onTestFinished(async () => void (await services.sql.unsafe('drop function if exists keep cascade')))
  await services.sql.unsafe(`create function keep() returns trigger language plpgsql as 'begin return null; end'`)
  await services.sql.unsafe('create trigger keep before delete on audit_log for each row execute function keep()')
  const purging = { retentionMonths: 12, resume: 'the retention is right' }
  await expect(purgeTenant(services, tenant.tenant_id, purging)).rejects.toThrow('something keeps')
  await look()
  expect(left).toBe(1)
  await services.sql.unsafe('drop function keep cascade')
  await purgeTenant(services, tenant.tenant_id, purging)
  await look()
  expect(left).toBe(0)
})

it('a purge that could not read a log is repeated within minutes, and nothing is said to be too old', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const metrics = createMetrics()
  const runs: number[] = []
  let isDown = true
  const { services } = service
  const verifyLog: typeof services.verifyLog = async (options) => {
    if (isDown) throw Object.assign(new Error('sorry, too many clients already'), { code: '53300' })
    return services.verifyLog(options)
  }
  const schedule = startScheduleOf(
    { ...service, services: { ...services, verifyLog } },
    {
      config: { auditRetentionMonths: 1_000, checkpointFile: undefined },
      measures: {
        ...UNMEASURED,
        purgeLeft: metrics.purgeLeft,
        jobRan: metrics.jobRan,
        purgeRan(refused) {
          metrics.purgeRan(refused)
          runs.push(refused)
        },
      },
    },
  )
  const app = buildApp({ services, findDurability: async () => 'synchronous', logger: false, metrics })
  const health = async () => (await app.inject({ url: '/health' })).json()
  await expect.poll(() => [...metrics.failedJobs().keys()]).toEqual(['purging old entries'])
  expect(await health()).toMatchObject({
    database: 'job',
    detail: expect.stringMatching(/: purging old entries \(53300\)/),
  })
  isDown = false
  vi.advanceTimersByTime(60_000)
  await expect.poll(() => runs).toEqual([0])
  expect(await health()).toMatchObject({ status: 'healthy' })
  await schedule.stop()
  await app.close()
})

it('a purge that an edited row prevents is said to have failed, and repeated soon after the row is repaired', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const { sql } = service.services
  const metrics = createMetrics()
  const runs: number[] = []
  const edit = () => sql`update tenants set envelope_only = not envelope_only where tenant_id = ${tenant_id}`
  await edit()
  const schedule = startScheduleOf(service, {
    config: { auditRetentionMonths: 1_000, checkpointFile: undefined },
    measures: { ...UNMEASURED, ...metrics, purgeRan: (refused) => runs.push(refused) },
  })
  const sources = { services: service.services, findDurability: async () => 'synchronous' as const }
  const app = buildApp({ ...sources, logger: false, metrics })
  const health = async () => (await app.inject({ url: '/health' })).json()
  await expect.poll(() => [...metrics.failedJobs().keys()]).toEqual(['purging old entries'])
  expect(await health()).toMatchObject({
    database: 'job',
    detail: expect.stringMatching(/this failed: purging old entries.*tried again within minutes/),
  })
  await edit()
  vi.advanceTimersByTime(60_000)
  await expect.poll(() => runs).toEqual([0])
  expect(await health()).toMatchObject({ status: 'healthy' })
  await schedule.stop()
  await app.close()
})

it('a purge of every log goes on with no other tenant once the server stops', async () => {
  clock.now = START
  for (let more = 0; more < 2; more++) await service.createTenant() // each is refused, and so told of
  clock.now = PRESENT
  const stopping = new AbortController()
  const told: string[] = []
  const tell = (tenant: string) => {
    told.push(tenant)
    stopping.abort()
  }
  const { signal } = stopping
  await purgeTenants(service.services, { retentionMonths: 12, signal, onPurged: tell, onRefused: tell, onFailed: tell })
  expect(told).toHaveLength(1)
})
