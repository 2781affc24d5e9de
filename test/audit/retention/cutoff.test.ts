// How the retention in months becomes the time before which a purge deletes.
import { beforeEach, describe, expect, it } from 'vitest'
import { performAsSystem } from '../../../packages/server/src/core/runner/perform.js'
import { purgeTenant } from '../../../packages/server/src/operate/jobs/purge-tenants.js'
import { purgeAudit } from '../../../packages/server/src/operate/operations/purge-audit.js'
import {
  clock,
  DAY_MS,
  HOUR_MS,
  history,
  makeLog,
  monthsBack,
  OLD,
  PRESENT,
  purge,
  RETENTION,
  service,
  tenant_id,
  useService,
} from './scene.js'

useService()

describe('the cut-off of a purge', () => {
  it.each([
    // now, months, cut-off: the same day and time of day, or the last day of a shorter month
    ['2026-08-11T09:30:00.123Z', 1, '2026-07-11T09:30:00.123Z'],
    ['2026-03-31T12:00:00.000Z', 1, '2026-02-28T12:00:00.000Z'],
    ['2026-03-28T12:00:00.000Z', 1, '2026-02-28T12:00:00.000Z'],
    ['2024-03-31T12:00:00.000Z', 1, '2024-02-29T12:00:00.000Z'],
    ['2025-02-28T23:59:59.999Z', 12, '2024-02-28T23:59:59.999Z'],
    ['2024-02-29T00:00:00.000Z', 12, '2023-02-28T00:00:00.000Z'],
    ['2026-01-31T00:00:00.000Z', 2, '2025-11-30T00:00:00.000Z'],
    ['2026-01-01T00:00:00.000Z', 1, '2025-12-01T00:00:00.000Z'],
    ['2026-12-31T23:59:59.999Z', 60, '2021-12-31T23:59:59.999Z'],
    ['2026-05-31T00:00:00.000Z', 1_200, '1926-05-31T00:00:00.000Z'],
  ])('at %s, %i months back, is %s', async (time, retentionMonths, cutoff) => {
    const other = await startTenantAt(Date.parse(time) - 1)
    clock.now = Date.parse(time)
    expect(await cutoffOf(other, retentionMonths)).toBe(cutoff)
  })

  it('never deletes an entry before its months are over, whatever the day of the month', async () => {
    const tenant = await startTenantAt(PRESENT)
    for (let day = 0; day < 800; day += 1) {
      const written = Date.parse('2023-12-15T18:00:00.000Z') + day * DAY_MS
      const months = 1 + (day % 3)
      const least = new Date(written)
      least.setUTCMonth(least.getUTCMonth() + months, 1)
      const days = new Date(Date.UTC(least.getUTCFullYear(), least.getUTCMonth() + 1, 0)).getUTCDate()
      least.setUTCDate(Math.min(new Date(written).getUTCDate(), days))
      clock.now = least.getTime() - 1
      const cutoff = Date.parse(await cutoffOf(tenant, months))
      expect([new Date(written).toISOString(), cutoff <= written]).toEqual([new Date(written).toISOString(), true])
    }
  })
})

describe('the cut-off of a purge of a log', () => {
  beforeEach(makeLog)

  it('keeps an entry that is exactly as old as the retention, and deletes it a millisecond later', async () => {
    const at = Date.parse(history[OLD - 1]?.created_at ?? '')
    clock.now = new Date(at).setUTCFullYear(new Date(at).getUTCFullYear() + 1)
    expect(await purge({ dryRun: true })).toMatchObject({ purged_through: OLD - 1 })
    clock.now += 1
    expect(await purge({ dryRun: true })).toMatchObject({ purged_through: OLD })
  })

  it('counts from the earlier of two clocks that differ by less than an hour', async () => {
    for (const apart of [HOUR_MS / 2, -HOUR_MS / 2]) {
      const apartServices = { ...service.services, databaseNow: async () => clock.now + apart }
      const plan = await purgeTenant(apartServices, tenant_id, { ...RETENTION, dryRun: true })
      expect(plan.cutoff).toBe(monthsBack(Math.min(clock.now, clock.now + apart)))
    }
  })
})

async function startTenantAt(time: number): Promise<string> {
  clock.now = time
  return (await service.createTenant()).tenant.tenant_id
}

async function cutoffOf(tenant: string, retentionMonths: number): Promise<string> {
  const plan = purgeAudit({ retentionMonths, maxShare: 1, dryRun: true })
  return (await performAsSystem(service.services, tenant, plan)).cutoff
}
