// What a purge deletes and what it leaves; the log verifies before, during and after it.
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { listAudit } from '../../../packages/server/src/core/api/audit.js'
import { performAsSystem } from '../../../packages/server/src/core/runner/perform.js'
import { purgeTenant } from '../../../packages/server/src/operate/jobs/purge-tenants.js'
import { purgeAudit } from '../../../packages/server/src/operate/operations/purge-audit.js'
import { deleteOldest } from '../../../packages/server/src/operate/store/purge.js'
import { checkTenant } from '../../independent/checker.js'
import { openAuditKey } from '../../independent/stored.js'
import { verifyIndependently } from '../../independent/verifier.js'
import { answering } from '../../support/database/answering.js'
import { backend } from '../../support/database/database.js'
import { ROOT_KEY, startService } from '../../support/service/service.js'
import { verifyByBoth } from '../verify/other-verifier.js'
import {
  ALL,
  added,
  clock,
  DAY_MS,
  expectShows,
  expectVerifies,
  exported,
  folder,
  history,
  keys,
  mark,
  monthsBack,
  OLD,
  owner,
  PRESENT,
  purge,
  RESTATED,
  RETENTION,
  restate,
  rowsLeft,
  START,
  service,
  stored,
  tenant_id,
  useLog,
} from './scene.js'

useLog()

describe('a purge whose deletion the database does not carry out', () => {
  const KEEP = `create function keep() returns trigger language plpgsql as $$ begin return null; end $$;
    create trigger keep before delete on audit_log for each row when (old.id > 5) execute function keep()`

  it('fails, says how many entries are left, and deletes them the next time', async () => {
    const { sql } = service.services
    await sql.unsafe(KEEP)
    await expect(purge()).rejects.toMatchObject({
      code: 'E_STATE',
      message: expect.stringContaining(`deleted 5 of ${OLD} of them`),
    })
    await expect(purge()).rejects.toMatchObject({ code: 'E_STATE' }) // though it marks nothing
    await sql.unsafe('drop trigger keep on audit_log; drop function keep')
    await purge()
    expect((await rowsLeft())[0]).toBe(OLD + 1)
  })

  it('fails too if the rows are hidden from the look afterwards', async () => {
    const { sql } = service.services
    const hidden = '(delete from|select exists .select 1 from) audit_log'
    await sql.unsafe(`alter table audit_log rename to all_entries;
      create view audit_log as select *, tableoid from all_entries where id > 5 or current_query() !~ '${hidden}'`)
    try {
      await expect(purge()).rejects.toMatchObject({
        code: 'E_STATE',
        message: expect.stringContaining(`deleted ${OLD - 5} of ${OLD} of them`),
      })
    } finally {
      await sql.unsafe('drop view audit_log; alter table all_entries rename to audit_log')
    }
    await purge()
    expect((await rowsLeft())[0]).toBe(OLD + 1)
  })
})

describe('a purge', () => {
  it('is no tampering for a list that began before it', async () => {
    await purge()
    const stale = await performAsSystem(service.services, tenant_id, ({ state, ...context }) =>
      listAudit({}, { limit: 100, offset: 0, order: 'asc' })({ ...context, state: { ...state, purged_through: 0 } }),
    )
    expect(stale.logs.map(({ id }) => id)).toEqual(await rowsLeft())
  })

  it('deletes the entries older than the retention, and nothing else', async () => {
    const cutoff = monthsBack(PRESENT)
    expect(await purge()).toEqual({ purged_through: OLD, entries: OLD, restates: RESTATED, cutoff })
    expect(await rowsLeft()).toEqual(Array.from({ length: ALL - OLD + RESTATED + 1 }, (_, at) => OLD + 1 + at))
    const more = await added()
    expect(more.map(({ action }) => action)).toEqual([
      'api_key.restate',
      'tenant.restate',
      'key.restate',
      'key.restate',
      'audit.purge',
    ])
    expect(more.flatMap(({ metadata }) => metadata.name ?? []).sort()).toEqual(['a', 'b', 'first key'])
    const entry = more.at(-1)
    expect(entry).toMatchObject({ id: ALL + RESTATED + 1, actor: 'system', key_id: null })
    expect(entry).toHaveProperty('metadata', { purged_through: OLD, entries: OLD, cutoff })
    await expectShows(OLD, more)
    await expectVerifies({ total: ALL - OLD + RESTATED + 1, purged: OLD })
  })

  it('does nothing the second time', async () => {
    await purge()
    const before = await stored()
    expect(await purge()).toMatchObject({ purged_through: OLD, entries: 0 })
    expect(await stored()).toEqual(before)
  })

  it('deletes nothing of a log that is younger than the retention', async () => {
    clock.now = START + 90 * DAY_MS
    const before = await stored()
    expect(await purge()).toMatchObject({ purged_through: 0, entries: 0 })
    expect(await purge({ retentionMonths: 1_200 })).toMatchObject({ purged_through: 0, entries: 0 })
    expect(await stored()).toEqual(before)
  })

  it('in a dry run only reports what it would delete', async () => {
    const before = await stored()
    const archiveDir = join(folder, 'dry')
    const plan = await purge({ dryRun: true, archiveDir })
    expect(plan).toMatchObject({ purged_through: OLD, entries: OLD })
    expect(await stored()).toEqual(before)
    await expect(readdir(archiveDir)).rejects.toThrow('ENOENT')
    expect(await purge()).toEqual(plan)
  })

  it('leaves the usage counts as they were, since they are billed', async () => {
    const month = history[5]?.created_at.slice(0, 7)
    const before = (await owner.call('GET', `/v1/usage?month=${month}`)).body
    expect(JSON.stringify(before)).toMatch(/[1-9]/)
    await mark()
    expect((await owner.call('GET', `/v1/usage?month=${month}`)).body).toEqual(before)
    await purge()
    expect((await owner.call('GET', `/v1/usage?month=${month}`)).body).toEqual(before)
  })

  it('is complete once its mark is written, wherever a crash stops the deletion, and the next purge deletes the rest', async () => {
    await expectVerifies({ total: ALL, purged: 0 })
    await mark()
    const all = ALL + RESTATED + 1
    expect(await rowsLeft()).toHaveLength(all)
    const more = await added()
    for (let left = all; left > all - OLD; left -= 7) {
      await expectShows(OLD, more)
      await expectVerifies({ total: all - OLD, purged: OLD })
      expect(await exported()).toMatchObject({ valid: true, whole: true, after_id: OLD })
      expect(await rowsLeft()).toHaveLength(left)
      await deleteOldest(service.services.sql, { tenant_id, through_id: OLD, limit: 7 })
    }
    expect(await purge()).toMatchObject({ entries: 0 })
    expect(await rowsLeft()).toHaveLength(all - OLD)
    await expectShows(OLD, more)
    await expectVerifies({ total: all - OLD, purged: OLD })
  })

  it('that a crash stopped after it restated the rows has added entries that change nothing, and continues', async () => {
    await restate()
    await expectVerifies({ total: ALL + RESTATED, purged: 0 })
    expect(await purge()).toMatchObject({ purged_through: OLD, entries: OLD, restates: 0 })
    await expectVerifies({ total: ALL - OLD + RESTATED + 1, purged: OLD })
  })

  it('never deletes a row after its mark, however high the limit', async () => {
    await mark()
    for (let count = 1; count > 0; ) {
      count = await deleteOldest(service.services.sql, { tenant_id, through_id: OLD, limit: 1_000 })
    }
    expect((await rowsLeft())[0]).toBe(OLD + 1)
  })

  it('chains its mark to the one before, and an independent checker agrees', async () => {
    await purge()
    clock.now = PRESENT + 300 * DAY_MS
    const second = await purge()
    expect(second.purged_through).toBeGreaterThan(OLD)
    const { sql } = service.services
    const marks = await sql<{ purged_through: number; entries: number; previous_mac: Uint8Array; mac: Uint8Array }[]>`
      select purged_through, entries, previous_mac, mac from purge_marks where tenant_id = ${tenant_id} order by purged_through`
    expect(marks.map(({ purged_through, entries }) => [purged_through, entries])).toEqual([
      [OLD, OLD],
      [second.purged_through, second.purged_through - OLD],
    ])
    expect(Buffer.from(marks[0]?.previous_mac ?? [])).toEqual(Buffer.alloc(32))
    expect(marks[1]?.previous_mac).toEqual(marks[0]?.mac)
    const left = ALL + RESTATED + 2 - second.purged_through
    await expectVerifies({ total: left, purged: second.purged_through })
    expect(await exported()).toMatchObject({ valid: true, whole: true, after_id: second.purged_through })
    const auditKey = await openAuditKey(sql as never, Buffer.from(ROOT_KEY, 'base64'), tenant_id)
    const report = await checkTenant(sql as never, { tenant_id, auditKey })
    expect(report).toMatchObject({ verdict: { valid: true, verified_entries: left }, faults: [] })
  })

  it('that somebody undoes, mark and entries, is not valid: the log says that it was', async () => {
    const { sql } = service.services
    const entries = await sql`select * from audit_log where tenant_id = ${tenant_id} and id <= ${OLD}`
    await purge()
    const { checkpoint, public_key: publicKey } = (await owner.call('GET', '/v1/audit/checkpoint')).body
    await sql`insert into audit_log ${sql(entries)}`
    await sql`delete from purge_marks where tenant_id = ${tenant_id}`
    const fault = { valid: false, reason: 'mark_mismatch', broken_at: 1 }
    expect((await owner.call('GET', '/v1/audit/verify')).body).toMatchObject(fault)
    const auditKey = await openAuditKey(sql as never, Buffer.from(ROOT_KEY, 'base64'), tenant_id)
    expect(await verifyIndependently(sql as never, { tenant_id, auditKey })).toMatchObject(fault)
    await expect(purge()).rejects.toMatchObject({ message: expect.stringContaining('mark_mismatch') })
    // An export has no marks. Each of its entries is genuine, also those that were purged.
    const file = Buffer.from((await owner.call('GET', '/v1/audit/export')).body as string)
    const verdict = await verifyByBoth({ file, publicKey, checkpoint })
    expect(verdict).toMatchObject({ valid: true, after_id: 0, checkpoint_compared: true })
  })

  it('of a log with many kinds of entries writes several marks, each for few kinds, and deletes as much', async () => {
    const plan = { purged_through: OLD, entries: OLD, restates: RESTATED, cutoff: monthsBack(PRESENT) }
    expect(await purge({ markKinds: 4 })).toEqual(plan)
    const { marks, counts } = await stored()
    expect(marks.length).toBeGreaterThan(3)
    expect(marks.reduce((sum, { entries }) => sum + entries, 0)).toBe(OLD)
    expect(Math.max(...marks.map(({ entries }) => entries))).toBeLessThan(OLD / 2)
    expect(counts.reduce((sum, { purged }) => sum + purged, 0)).toBe(OLD)
    expect((await rowsLeft())[0]).toBe(OLD + 1)
    const { body } = await owner.call('GET', '/v1/audit?action=audit.purge&order=asc')
    expect(body.logs.map((entry: { metadata: { purged_through: number } }) => entry.metadata.purged_through)).toEqual(
      marks.map(({ purged_through }) => purged_through),
    )
    await expectShows(OLD, await added())
    await expectVerifies({ total: ALL - OLD + RESTATED + marks.length, purged: OLD })
    expect(await exported()).toMatchObject({ valid: true, whole: true, after_id: OLD })
  })

  it('that was stopped between two of its marks continues from there', async () => {
    await restate()
    const first = await performAsSystem(service.services, tenant_id, purgeAudit({ ...RETENTION, markKinds: 4 }))
    expect(first.purged_through).toBeLessThan(OLD / 2)
    await expectVerifies({ total: ALL - first.entries + RESTATED + 1, purged: first.purged_through })
    expect(await purge({ maxShare: 0.5 })).toMatchObject({ purged_through: OLD, entries: OLD - first.entries })
    await expectVerifies({ total: ALL - OLD + RESTATED + 2, purged: OLD })
  })

  it('may delete every entry, and leaves those that restate the rows and the one that records the purge', async () => {
    clock.now = PRESENT + 366 * DAY_MS
    await owner.call('POST', '/v1/keys', { name: 'later' })
    clock.now = PRESENT + 500 * DAY_MS
    expect(await purge()).toMatchObject({ purged_through: ALL, entries: ALL })
    await expectVerifies({ total: RESTATED + 2, purged: ALL })
    clock.now = PRESENT + 740 * DAY_MS
    expect(await purge()).toMatchObject({ purged_through: ALL + 1, entries: 1 })
    const left = Array.from({ length: RESTATED + 3 }, (_, at) => ALL + 2 + at) // the later key is restated too
    expect(await rowsLeft()).toEqual(left)
    await expectVerifies({ total: left.length, purged: ALL + 1 })
    expect(await exported()).toMatchObject({ valid: true, whole: true, verified_entries: left.length })
  })

  it('runs while entries are written', async () => {
    const purging = purge()
    const dek = Buffer.alloc(32, 2).toString('base64')
    const answers = await Promise.all(
      Array.from({ length: 30 }, () => owner.call('POST', `/v1/keys/${keys[0]}/wrap`, { dek })),
    )
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
    expect(await purging).toMatchObject({ entries: OLD })
    await expectVerifies({ total: ALL - OLD + RESTATED + 31, purged: OLD })
  })
})

describe('an export', () => {
  it('is whole after a purge, and a part if it begins after the first remaining entry or ends before the entry of the purge', async () => {
    expect(await exported()).toMatchObject({ valid: true, whole: true, after_id: 0 })
    await purge()
    expect(await exported()).toMatchObject({
      valid: true,
      whole: true,
      after_id: OLD,
      verified_entries: ALL - OLD + RESTATED + 1,
    })
    expect(await exported(`?after_id=${OLD - 5}`)).toMatchObject({ valid: true, whole: true, after_id: OLD })
    expect(await exported(`?after_id=${OLD + 1}`)).toMatchObject({ valid: true, whole: false })
    expect(await exported(`?through_id=${ALL}`)).toMatchObject({ valid: true, missing: ['beginning', 'end'] })
    const { status } = await owner.call('GET', `/v1/audit/export?through_id=${OLD - 1}`)
    expect(status).toBe(400)
  })
})

describe('another purge that deletes what a purge marked', () => {
  it('leaves nothing to do, which is no fault', async () => {
    const { services } = service
    let isMet = false
    const sql = answering(services.sql, /delete from audit_log/, async (ask) => {
      if (!isMet) {
        isMet = true
        await purgeTenant(services, tenant_id, RETENTION)
      }
      return ask()
    })
    const plan = await purgeTenant({ ...services, sql }, tenant_id, RETENTION)
    expect([isMet, plan.entries]).toEqual([true, OLD])
    expect((await rowsLeft())[0]).toBe(OLD + 1)
  })
})

describe.skipIf(backend() === 'embedded')('four servers on one database', () => {
  it('purge at once and leave one mark, one entry and none of the old rows', async () => {
    const { database } = service
    const others = await Promise.all([1, 2, 3].map(() => startService({ database, now: () => clock.now })))
    try {
      const all = [service, ...others]
      const plans = await Promise.all(all.map(({ services }) => purgeTenant(services, tenant_id, RETENTION)))
      expect(plans.map(({ entries }) => entries).sort()).toEqual([0, 0, 0, OLD])
      expect(plans.map(({ purged_through }) => purged_through)).toEqual([OLD, OLD, OLD, OLD])
      expect((await stored()).marks).toHaveLength(1)
      const left = ALL - OLD + RESTATED + 1
      expect(await rowsLeft()).toEqual(Array.from({ length: left }, (_, at) => OLD + 1 + at))
      await expectShows(OLD, await added())
      for (const { url } of others) {
        const response = await fetch(`${url}/v1/audit`, { headers: { authorization: `Bearer ${owner.secret}` } })
        expect(await response.json()).toMatchObject({ total: left })
      }
    } finally {
      await Promise.all(others.map((other) => other.close()))
    }
  })
})
