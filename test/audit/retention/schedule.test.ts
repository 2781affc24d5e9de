// The purge that a server carries out by itself, and what it says of it.
import { expect, it } from 'vitest'
import { purgeTenants } from '../../../packages/server/src/jobs/purge-tenants.js'
import type { ScheduleOptions } from '../../../packages/server/src/jobs/schedule.js'
import { startScheduleOf, UNMEASURED } from '../../support/schedule.js'
import { ALL, clock, expectVerifies, OLD, PRESENT, RESTATED, START, service, tenant_id, useLog } from './scene.js'

useLog()

it('a scheduled purge takes what is too old, and tells the log and the metrics of the tenant that failed', async () => {
  clock.now = START
  const { tenant: whole } = await service.createTenant() // all that it has is old, a larger share than is purged
  clock.now = PRESENT
  const written: { details: unknown; message: unknown }[] = []
  const write = (details: unknown, message: unknown) => void written.push({ details, message })
  const runs: number[] = []
  const schedule = startScheduleOf(service, {
    config: { auditRetentionMonths: 12, checkpointFile: undefined },
    measures: { ...UNMEASURED, purgeRan: (failed) => void runs.push(failed) },
    log: { info: write, error: write, fatal: write } as unknown as ScheduleOptions['log'],
  })
  await expect.poll(() => runs).toEqual([1])
  await schedule.stop()
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
  await purgeTenants(service.services, { retentionMonths: 12, signal, onPurged: tell, onRefused: tell })
  expect(told).toHaveLength(1)
})
