// What makes a purge delete nothing: a clock that cannot be right, too large a share of the log.
import { join } from 'node:path'
import { INSTALLATION_ID } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import { performAsSystem } from '../../../packages/server/src/core/runner/perform.js'
import { recordAlone } from '../../../packages/server/src/guard/installation-log.js'
import { purgeTenant, purgeTenants } from '../../../packages/server/src/operate/jobs/purge-tenants.js'
import { purgeAudit, verifyOnce } from '../../../packages/server/src/operate/operations/purge-audit.js'
import { restateRights } from '../../../packages/server/src/operate/operations/restate-rights.js'
import { type Caller, startService } from '../../support/service/service.js'
import {
  ALL,
  clock,
  DAY_MS,
  folder,
  HOUR_MS,
  monthsBack,
  OLD,
  owner,
  PRESENT,
  purge,
  RESTATED,
  RETENTION,
  restate,
  START,
  service,
  stored,
  tenant_id,
  useLog,
} from './scene.js'

useLog()

describe('a row with an id below 1, dated just before the cut-off', () => {
  const insert = () => service.services.sql`
    insert into audit_log select tenant_id, -7, action, key_id, key_version, actor, ip_address, metadata, ${monthsBack(PRESENT - HOUR_MS)}, hash, mac
    from audit_log where tenant_id = ${tenant_id} and id = ${OLD}`

  it('hides no entry from a purge, which is refused until the row is gone', async () => {
    await insert()
    const before = await stored()
    await expect(purge()).rejects.toMatchObject({
      code: 'E_STATE',
      message: expect.stringContaining('entry_before_first, entry -7'),
    })
    expect(await stored()).toEqual(before)
    await service.services.sql`delete from audit_log where tenant_id = ${tenant_id} and id < 1`
    expect(await purge()).toMatchObject({ purged_through: OLD, entries: OLD })
  })

  it('is not deleted by a purge that has nothing to do, and hides no entry from a list', async () => {
    await insert()
    await purge({ retentionMonths: 60 })
    expect((await stored()).rows[0]).toBe(-7)
    const until = monthsBack(PRESENT)
    const { body } = await owner.call('GET', `/v1/audit?date_to=${until}&limit=100`)
    expect([body.total, body.logs.length]).toEqual([OLD, OLD])
  })
})

describe('a purge is refused', () => {
  it('if the clock is over a year ahead of the newest entry of all tenants', async () => {
    let clock = START
    const alone = await startService({ now: () => clock })
    try {
      const [first, second] = [await alone.createTenant(), await alone.createTenant()]
      const attempt = (caller: Caller) => purgeTenant(alone.services, caller.tenant.tenant_id, RETENTION)
      const rows = async () =>
        (
          await alone.services.sql`
        select tenant_id, id from audit_log where tenant_id <> ${INSTALLATION_ID}`
        ).length
      for (const ahead of [366 * DAY_MS + 1, 3_650 * DAY_MS, 36_500 * DAY_MS]) {
        clock = START + ahead
        const refusal = { code: 'E_STATE', message: expect.stringContaining('shows that the clock is right') }
        await expect(attempt(first)).rejects.toMatchObject(refusal)
      }
      expect(await rows()).toBe(2)
      clock = START + 10 * DAY_MS
      await second.call('POST', '/v1/keys', { name: 'newest' })
      clock = START + 376 * DAY_MS
      expect(await attempt(first)).toMatchObject({ purged_through: 1, entries: 1 })
    } finally {
      await alone.close()
    }
  })

  it('not because no tenant called for a year, if a server wrote into its own log meanwhile', async () => {
    let clock = START
    const alone = await startService({ now: () => clock })
    try {
      const { tenant_id: quiet } = (await alone.createTenant()).tenant
      clock = START + 400 * DAY_MS
      await recordAlone(alone.services, [{ action: 'installation.start', metadata: {} }])
      const attempt = () => purgeTenant(alone.services, quiet, RETENTION)
      for (const days of [0, 27.9]) {
        clock = START + (400 + days) * DAY_MS
        await expect(attempt()).rejects.toMatchObject({ code: 'E_STATE', message: expect.stringContaining('clock') })
      }
      clock = START + 428 * DAY_MS + 1
      expect(await attempt()).toMatchObject({ entries: 1 })
    } finally {
      await alone.close()
    }
  })

  it('if the clock jumped ahead, until the server has written entries by it for four weeks', async () => {
    let clock = START
    const alone = await startService({ now: () => clock })
    try {
      const caller = await alone.createTenant()
      const attempt = () => purgeTenant(alone.services, caller.tenant.tenant_id, { ...RETENTION, retentionMonths: 24 })
      for (let month = 0; month < 5; month++) {
        clock += 30 * DAY_MS
        await caller.call('POST', '/v1/keys', { name: `month ${month}` })
      }
      const leapt = clock + 730 * DAY_MS
      for (const days of [0, 1, 27.9]) {
        clock = leapt + days * DAY_MS
        await caller.call('POST', '/v1/keys', { name: `day ${days}` })
        await expect(attempt()).rejects.toMatchObject({ code: 'E_STATE', message: expect.stringContaining('clock') })
      }
      clock = leapt + 28 * DAY_MS + 1
      expect(await attempt()).toMatchObject({ entries: 6 })
    } finally {
      await alone.close()
    }
  })

  it("if the clock differs from the database's by hours, in either direction", async () => {
    const before = await stored()
    for (const apart of [730 * DAY_MS, 2 * HOUR_MS, -2 * HOUR_MS, -730 * DAY_MS]) {
      const apartServices = { ...service.services, databaseNow: async () => clock.now + apart }
      await expect(purgeTenant(apartServices, tenant_id, RETENTION)).rejects.toMatchObject({
        code: 'E_STATE',
        message: expect.stringContaining("by the database's"),
      })
    }
    expect(await stored()).toEqual(before)
  })

  it('if it would delete more than the allowed share', async () => {
    const before = await stored()
    for (const maxShare of [0, 0.1, (OLD - 0.5) / ALL]) {
      await expect(purge({ maxShare })).rejects.toMatchObject({
        code: 'E_STATE',
        message: expect.stringContaining('share'),
      })
    }
    expect(await stored()).toEqual(before)
    expect(await purge({ maxShare: OLD / ALL })).toMatchObject({ entries: OLD })
  })

  it('if it would take the last entry about a row that grants rights', async () => {
    const before = await stored()
    const purging = performAsSystem(service.services, tenant_id, purgeAudit(RETENTION))
    await expect(purging).rejects.toThrow('the purge would take the last entry about 4 rows')
    expect(await stored()).toEqual(before)
  })

  it('if an entry was shown with an older time while it was planned, although the log verifies', async () => {
    const { sql } = service.services
    const [entry] = await sql`select created_at from audit_log where tenant_id = ${tenant_id} and id = ${ALL - 1}`
    const show = (time: string) =>
      sql`update audit_log set created_at = ${time} where tenant_id = ${tenant_id} and id = ${ALL - 1}`
    const verify = verifyOnce()
    const honest: typeof verify = async (...given) => {
      await show(entry?.created_at)
      const valid = await verify(...given)
      return valid
    }
    await restate()
    await performAsSystem(service.services, tenant_id, restateRights({ through_id: ALL }))
    await show(new Date(Date.parse(monthsBack(PRESENT)) - 1_000).toISOString())
    const purging = performAsSystem(service.services, tenant_id, purgeAudit({ ...RETENTION, verify: honest }))
    await expect(purging).rejects.toThrow(`nothing is purged: entry ${ALL - 1} `)
  })

  it('if another entry is there than the one that was verified', async () => {
    const honest = verifyOnce()
    const noted = new Map([[OLD, new Uint8Array(32)]])
    const verify: typeof honest = async (...given) => ({ ...(await honest(...given)), noted })
    await restate()
    const purging = performAsSystem(service.services, tenant_id, purgeAudit({ ...RETENTION, verify }))
    await expect(purging).rejects.toThrow(`entry_altered, entry ${OLD}`)
    expect(await stored()).toMatchObject({ marks: [] })
  })

  it('if it would delete more than the allowed share of what an earlier purge took nothing of', async () => {
    await purge()
    clock.now = PRESENT + 300 * DAY_MS
    const { entries } = await purge({ dryRun: true })
    const left = ALL + RESTATED + 1 - OLD // with the entries of the first purge
    expect(entries / left).toBeGreaterThan(0.5)
    await expect(purge({ maxShare: (entries - 0.5) / left })).rejects.toMatchObject({
      message: expect.stringContaining(`${entries} of ${left} entries`),
    })
    expect(await purge({ maxShare: entries / left })).toMatchObject({ entries })
  })

  it.each([
    ['and nothing is archived', undefined],
    ['and the entries are archived first', 'forged'],
  ])('if somebody deleted entries under a mark of their own, which stays to be found, %s', async (_, name) => {
    const { sql } = service.services
    const archiveDir = name && join(folder, name)
    await sql`
      insert into purge_marks (tenant_id, purged_through, hash, entries, cutoff, created_at, previous_mac, mac)
      select tenant_id, id, hash, id, created_at, created_at, ${Buffer.alloc(32)}, mac from audit_log
      where tenant_id = ${tenant_id} and id = 5`
    await sql`delete from audit_log where tenant_id = ${tenant_id} and id <= 5`
    const before = await stored()
    for (const days of [0, 400]) {
      clock.now = PRESENT + days * DAY_MS
      await expect(purge({ archiveDir })).rejects.toMatchObject({
        code: 'E_STATE',
        message: expect.stringContaining('mark_forged'),
      })
    }
    expect(await stored()).toEqual(before)
    const { body } = await owner.call('GET', '/v1/audit/verify')
    expect(body).toMatchObject({ valid: false, reason: 'mark_forged', broken_at: 1 })
    for (const query of ['', '?after_id=5'])
      expect((await owner.call('GET', `/v1/audit/export${query}`)).status).toBe(500)
  })

  it('if somebody edited the mark of an earlier purge', async () => {
    await purge()
    await service.services.sql`update purge_marks set entries = entries + 1 where tenant_id = ${tenant_id}`
    clock.now = PRESENT + 300 * DAY_MS
    const before = await stored()
    await expect(purge()).rejects.toMatchObject({ message: expect.stringContaining('mark_forged') })
    expect(await stored()).toEqual(before)
  })

  it("for one tenant, and another tenant's log is still purged", async () => {
    const other = await service.createTenant()
    const purged: string[] = []
    const refused: string[] = []
    await service.services.sql`update audit_log set actor = 'x' where tenant_id = ${tenant_id} and id = ${OLD}`
    await purgeTenants(service.services, {
      ...RETENTION,
      onPurged: (id) => purged.push(id),
      onRefused: (id) => refused.push(id),
      onFailed: (id) => refused.push(id),
    })
    expect(refused).toContain(tenant_id)
    expect([...purged, ...refused]).not.toContain(other.tenant.tenant_id)
  })
})
