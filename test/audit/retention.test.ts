// Retention: what a purge deletes and what it leaves; the log verifies before, during and after it.
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { splitLines } from '../../packages/server/src/audit/split-lines.js'
import { verifyExport } from '../../packages/server/src/audit/verify-export.js'
import { archiveEntries } from '../../packages/server/src/jobs/archive-entries.js'
import { type PurgeTenantOptions, purgeTenant, purgeTenants } from '../../packages/server/src/jobs/retention.js'
import { purgeAudit } from '../../packages/server/src/operations/purge-audit.js'
import { performAsSystem } from '../../packages/server/src/runner/perform.js'
import { deleteOldest } from '../../packages/server/src/store/audit-retention.js'
import { checkTenant, openAuditKey } from '../independent/checker.js'
import { backend } from '../support/database.js'
import { runEaas } from '../support/eaas-process.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../support/service.js'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** The time of the newest entries, which the command line sees as the present; the log begins 400 days before. */
const PRESENT = Date.now() - 60_000
const START = PRESENT - 400 * DAY_MS
const RETENTION = { retentionMonths: 12, maxShare: 1 }
/** entries 1 to OLD are over 12 months old in the present */
const OLD = 23
const ALL = 60

let now = START
let service: Service
let owner: Caller
let tenant_id: string
let keys: string[]
let folder: string

interface Listed {
  id: number
  action: string
  key_id: string | null
  created_at: string
}

/** All entries as they were before anything was purged. */
let history: Listed[]

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-retention-'))
  service = await startService({ now: () => now })
})
afterAll(async () => {
  await service?.close()
  await rm(folder, { recursive: true, force: true })
})

// 23 entries from 400 days ago on, 3 hours apart; then 37 from 200 days ago on: two keys, wraps and unwraps by turns.
beforeEach(async () => {
  now = START
  owner = await service.createTenant()
  tenant_id = owner.tenant.tenant_id
  keys = []
  for (const name of ['a', 'b']) keys.push((await owner.call('POST', '/v1/keys', { name })).body.key_id)
  const dek = Buffer.alloc(32, 1).toString('base64')
  const tokens = [dek, dek]
  for (let id = 4; id <= ALL; id++) {
    now = id <= OLD ? START + id * 3 * 3_600_000 : PRESENT - (ALL - id) * 5 * DAY_MS
    const [key_id, at] = [keys[id % 2], id % 2]
    const path = id % 4 < 2 ? 'wrap' : 'unwrap'
    const body = path === 'wrap' ? { dek } : { wrapped_key: tokens[at] }
    if (path === 'unwrap' && tokens[at] === dek) {
      tokens[at] = (await owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek })).body.wrapped_key
      continue
    }
    const answer = await owner.call('POST', `/v1/keys/${key_id}/${path}`, body)
    if (answer.status !== 200) throw new Error(`${path} was answered ${answer.status}`)
    if (path === 'wrap') tokens[at] = answer.body.wrapped_key
  }
  now = PRESENT
  history = (await owner.call('GET', '/v1/audit?order=asc&limit=100')).body.logs
  expect([history.length, history[OLD - 1]?.created_at.slice(0, 10)]).toEqual([
    ALL,
    new Date(START + OLD * 3 * 3_600_000).toISOString().slice(0, 10),
  ])
})

const purge = (options: Partial<PurgeTenantOptions> = {}) =>
  purgeTenant(service.services, tenant_id, { ...RETENTION, ...options })
const archiveName = () => `${tenant_id}-through-${OLD}.ndjson`
/** Writes only the mark, as if the server crashed before it deleted anything. */
const mark = () => performAsSystem(service.services, tenant_id, purgeAudit(RETENTION))

async function rowsLeft(): Promise<number[]> {
  const rows = await service.services.sql<{ id: number }[]>`
    select id from audit_log where tenant_id = ${tenant_id} order by id`
  return rows.map(({ id }) => id)
}

/** Reads everything that is stored of the tenant's log. */
async function stored() {
  const { sql } = service.services
  return {
    heads: [...(await sql`select * from heads where tenant_id = ${tenant_id}`)],
    marks: [...(await sql`select * from purge_marks where tenant_id = ${tenant_id}`)],
    counts: [...(await sql`select * from audit_counts where tenant_id = ${tenant_id} order by day, action, key_id`)],
    rows: await rowsLeft(),
  }
}

async function expectVerifies(expected: { total: number; purged: number }): Promise<void> {
  const { status, body } = await owner.call('GET', '/v1/audit/verify')
  expect([status, body.valid, body.reason]).toEqual([200, true, undefined])
  expect([body.total_entries, body.verified_entries, body.purged_through]).toEqual([
    expected.total,
    expected.total,
    expected.purged,
  ])
}

/** Expects each filter, total and page of the list to show exactly the entries that the purge left, and those added after it. */
async function expectShows(purged: number, more: Listed[]): Promise<void> {
  const left = [...history.filter(({ id }) => id > purged), ...more]
  const times = [START, START + 30 * 3_600_000, PRESENT - 100 * DAY_MS, PRESENT].map((time) =>
    new Date(time).toISOString(),
  )
  const filters: [string, (entry: Listed) => boolean][] = [
    ['', () => true],
    ...keys.map((key): [string, (entry: Listed) => boolean] => [`&key_id=${key}`, ({ key_id }) => key_id === key]),
    ['&action=key.wrap', ({ action }) => action === 'key.wrap'],
    ['&action=audit.purge', ({ action }) => action === 'audit.purge'],
    ['&action=key.create', ({ action }) => action === 'key.create'],
    [`&action=key.unwrap&key_id=${keys[0]}`, (entry) => entry.action === 'key.unwrap' && entry.key_id === keys[0]],
    ['&after_id=30&action=key.wrap', ({ action, id }) => action === 'key.wrap' && id > 30],
    ...times.flatMap((time): [string, (entry: Listed) => boolean][] => [
      [`&date_from=${time}`, ({ created_at }) => created_at >= time],
      [`&date_to=${time}`, ({ created_at }) => created_at <= time],
      [`&date_to=${time}&action=key.wrap`, ({ created_at, action }) => created_at <= time && action === 'key.wrap'],
      [`&date_from=${time}&key_id=${keys[1]}`, ({ created_at, key_id }) => created_at >= time && key_id === keys[1]],
    ]),
  ]
  for (const [query, matches] of filters) {
    const expected = left.filter(matches).map(({ id }) => id)
    const { body } = await owner.call('GET', `/v1/audit?order=asc&limit=100${query}`)
    expect([query, body.total, body.logs.map(({ id }: Listed) => id)]).toEqual([query, expected.length, expected])
    const middle = (await owner.call('GET', `/v1/audit?limit=5&offset=7${query}`)).body
    expect([query, middle.total, middle.logs.map(({ id }: Listed) => id)]).toEqual([
      query,
      expected.length,
      [...expected].reverse().slice(7, 12),
    ])
  }
}

async function newest(): Promise<Listed> {
  return (await owner.call('GET', '/v1/audit?limit=1')).body.logs[0]
}

async function exported(query = '') {
  const { body } = await owner.call('GET', `/v1/audit/export${query}`)
  return verifyExport(splitLines([Buffer.from(body as string)]), {
    publicKey: (await owner.call('GET', '/v1/audit/checkpoint')).body.public_key,
  })
}

describe('a purge', () => {
  it('takes what is older than the retention, and nothing else', async () => {
    const cutoff = monthsBack(PRESENT)
    expect(await purge()).toEqual({ purged_through: OLD, entries: OLD, cutoff })
    expect(await rowsLeft()).toEqual(Array.from({ length: ALL - OLD + 1 }, (_, at) => OLD + 1 + at))
    const entry = await newest()
    expect(entry).toMatchObject({ id: ALL + 1, action: 'audit.purge', actor: 'system', key_id: null })
    expect(entry).toHaveProperty('metadata', { purged_through: OLD, entries: OLD, cutoff })
    await expectShows(OLD, [entry])
    await expectVerifies({ total: ALL - OLD + 1, purged: OLD })
  })

  it('does nothing the second time', async () => {
    await purge()
    const before = await stored()
    expect(await purge()).toMatchObject({ purged_through: OLD, entries: 0 })
    expect(await stored()).toEqual(before)
  })

  it('takes nothing of a log that is young, or that is kept for good', async () => {
    now = START + 90 * DAY_MS
    const before = await stored()
    expect(await purge()).toMatchObject({ purged_through: 0, entries: 0 })
    expect(await purge({ retentionMonths: 1_200 })).toMatchObject({ purged_through: 0, entries: 0 })
    expect(await stored()).toEqual(before)
  })

  it('only says what would go in a dry run', async () => {
    const before = await stored()
    const archiveDir = join(folder, 'dry')
    const plan = await purge({ dryRun: true, archiveDir })
    expect(plan).toMatchObject({ purged_through: OLD, entries: OLD })
    expect(await stored()).toEqual(before)
    await expect(readdir(archiveDir)).rejects.toThrow('ENOENT')
    expect(await purge()).toEqual(plan)
  })

  it('leaves the usage as it was: what was done is billed', async () => {
    const month = history[5]?.created_at.slice(0, 7)
    const before = (await owner.call('GET', `/v1/usage?month=${month}`)).body
    expect(JSON.stringify(before)).toMatch(/[1-9]/)
    await mark()
    expect((await owner.call('GET', `/v1/usage?month=${month}`)).body).toEqual(before)
    await purge()
    expect((await owner.call('GET', `/v1/usage?month=${month}`)).body).toEqual(before)
  })

  it('counts as done from its mark on, wherever a crash stops the deletion, and the next one ends it', async () => {
    await expectVerifies({ total: ALL, purged: 0 })
    await mark()
    expect(await rowsLeft()).toHaveLength(ALL + 1)
    const entry = await newest()
    for (let left = ALL + 1; left > ALL + 1 - OLD; left -= 7) {
      await expectShows(OLD, [entry])
      await expectVerifies({ total: ALL - OLD + 1, purged: OLD })
      expect(await exported()).toMatchObject({ valid: true, whole: true, after_id: OLD })
      expect(await rowsLeft()).toHaveLength(left)
      await deleteOldest(service.services.sql, { tenant_id, through_id: OLD, limit: 7 })
    }
    expect(await purge()).toMatchObject({ entries: 0 })
    expect(await rowsLeft()).toHaveLength(ALL + 1 - OLD)
    await expectShows(OLD, [entry])
    await expectVerifies({ total: ALL - OLD + 1, purged: OLD })
  })

  it('never deletes a row above its mark, however much is asked for', async () => {
    await mark()
    for (let count = 1; count > 0; ) {
      count = await deleteOldest(service.services.sql, { tenant_id, through_id: OLD, limit: 1_000 })
    }
    expect((await rowsLeft())[0]).toBe(OLD + 1)
  })

  it('chains its mark to the one before, and an independent checker agrees', async () => {
    await purge()
    now = PRESENT + 300 * DAY_MS
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
    await expectVerifies({ total: ALL + 2 - second.purged_through, purged: second.purged_through })
    expect(await exported()).toMatchObject({ valid: true, whole: true, after_id: second.purged_through })
    const auditKey = await openAuditKey(sql as never, Buffer.from(ROOT_KEY, 'base64'), tenant_id)
    const report = await checkTenant(sql as never, { tenant_id, auditKey })
    expect(report).toMatchObject({ verdict: { valid: true, entries: ALL + 2 - second.purged_through }, faults: [] })
  })

  it('of a log of many kinds of entries leaves several marks, each of few kinds, and takes as much', async () => {
    expect(await purge({ markKinds: 4 })).toEqual({ purged_through: OLD, entries: OLD, cutoff: monthsBack(PRESENT) })
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
    await expectShows(OLD, body.logs)
    await expectVerifies({ total: ALL - OLD + marks.length, purged: OLD })
    expect(await exported()).toMatchObject({ valid: true, whole: true, after_id: OLD })
  })

  it('that was stopped between two of its marks goes on from there', async () => {
    const first = await performAsSystem(service.services, tenant_id, purgeAudit({ ...RETENTION, markKinds: 4 }))
    expect(first.purged_through).toBeLessThan(OLD / 2)
    await expectVerifies({ total: ALL - first.entries + 1, purged: first.purged_through })
    expect(await purge({ maxShare: 0.5 })).toMatchObject({ purged_through: OLD, entries: OLD - first.entries })
    await expectVerifies({ total: ALL - OLD + 2, purged: OLD })
  })

  it('may take every entry, and leaves the one that tells of it', async () => {
    now = PRESENT + 366 * DAY_MS
    await owner.call('POST', '/v1/keys', { name: 'later' })
    now = PRESENT + 500 * DAY_MS
    expect(await purge()).toMatchObject({ purged_through: ALL, entries: ALL })
    await expectVerifies({ total: 2, purged: ALL })
    now = PRESENT + 740 * DAY_MS
    expect(await purge()).toMatchObject({ purged_through: ALL + 1, entries: 1 })
    expect(await rowsLeft()).toEqual([ALL + 2, ALL + 3])
    await expectVerifies({ total: 2, purged: ALL + 1 })
    expect(await exported()).toMatchObject({ valid: true, whole: true, verified_entries: 2 })
  })

  it('goes on while the log is used', async () => {
    const purging = purge()
    const dek = Buffer.alloc(32, 2).toString('base64')
    const answers = await Promise.all(
      Array.from({ length: 30 }, () => owner.call('POST', `/v1/keys/${keys[0]}/wrap`, { dek })),
    )
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
    expect(await purging).toMatchObject({ entries: OLD })
    await expectVerifies({ total: ALL - OLD + 31, purged: OLD })
  })
})

describe('an export', () => {
  it('is whole after a purge, and a part when it begins later or ends before the purge is told of', async () => {
    expect(await exported()).toMatchObject({ valid: true, whole: true, after_id: 0 })
    await purge()
    expect(await exported()).toMatchObject({ valid: true, whole: true, after_id: OLD, verified_entries: ALL - OLD + 1 })
    expect(await exported(`?after_id=${OLD - 5}`)).toMatchObject({ valid: true, whole: true, after_id: OLD })
    expect(await exported(`?after_id=${OLD + 1}`)).toMatchObject({ valid: true, whole: false })
    expect(await exported(`?through_id=${ALL}`)).toMatchObject({ valid: true, whole: false })
    const { status } = await owner.call('GET', `/v1/audit/export?through_id=${OLD - 1}`)
    expect(status).toBe(400)
  })
})

describe('an archive', () => {
  it('has exactly what went, verifies offline, and is joined on to by what is left', async () => {
    const archiveDir = join(folder, 'archive')
    await purge({ archiveDir })
    now = PRESENT + 300 * DAY_MS
    const { purged_through } = await purge({ archiveDir })
    const names = [`${tenant_id}-through-${OLD}.ndjson`, `${tenant_id}-through-${purged_through}.ndjson`]
    expect((await readdir(archiveDir)).sort()).toEqual([...names].sort())
    const { public_key: publicKey } = (await owner.call('GET', '/v1/audit/checkpoint')).body
    let checkpoint: string | undefined
    for (const [name, after_id, last_id, whole] of [
      [names[0], 0, OLD, true],
      [names[1], OLD, purged_through, true],
    ] as const) {
      const file = await readFile(join(archiveDir, name ?? ''))
      const known = { publicKey, ...(checkpoint === undefined ? {} : { checkpoint }) }
      const verdict = await verifyExport(splitLines([file]), known)
      expect(verdict).toMatchObject({ valid: true, whole, after_id, last_id, verified_entries: last_id - after_id })
      const lines = file.toString().split('\n')
      const ids = lines.slice(1, -2).map((line) => JSON.parse(line).id)
      expect(ids).toEqual(Array.from({ length: last_id - after_id }, (_, at) => after_id + 1 + at))
      checkpoint = JSON.parse(lines.at(-2) ?? '').checkpoint
    }
    const { body } = await owner.call('GET', '/v1/audit/export')
    expect(
      await verifyExport(splitLines([Buffer.from(body as string)]), { publicKey, checkpoint: checkpoint ?? '' }),
    ).toMatchObject({
      valid: true,
      after_id: purged_through,
      checkpoint_compared: true,
    })
  })

  it('has everything that goes, however long it takes to write', async () => {
    const archiveDir = join(folder, 'slow')
    // By the time that the archive is written, everything else has become too old as well.
    now = Date.parse(history[39]?.created_at ?? '') + 366 * DAY_MS
    let clock = now
    const ticking = { ...service.services, now: () => (clock += 10 * DAY_MS), databaseNow: async () => clock }
    const { purged_through } = await purgeTenant(ticking, tenant_id, { ...RETENTION, archiveDir })
    expect(await readdir(archiveDir)).toEqual([`${tenant_id}-through-${purged_through}.ndjson`])
    expect((await rowsLeft())[0]).toBe(purged_through + 1)
  })

  it('is one and whole when several purge at once', async () => {
    const archiveDir = join(folder, 'at-once')
    const plans = await Promise.all([1, 2, 3].map(() => purge({ archiveDir })))
    expect(plans.map(({ entries }) => entries).sort()).toEqual([0, 0, OLD])
    expect(await readdir(archiveDir)).toEqual([archiveName()])
    const file = await readFile(join(archiveDir, archiveName()))
    expect(await verifyExport(splitLines([file]))).toMatchObject({ valid: true, whole: true, last_id: OLD })
    expect((await rowsLeft())[0]).toBe(OLD + 1)
  })

  it('that an earlier run left before its mark is taken as it is', async () => {
    const archiveDir = join(folder, 'earlier')
    await archiveEntries(service.services, { tenant_id, after_id: 0, through_id: OLD }, archiveDir)
    const before = await readFile(join(archiveDir, archiveName()))
    now += 1_000
    expect(await purge({ archiveDir })).toMatchObject({ entries: OLD })
    expect(await readFile(join(archiveDir, archiveName()))).toEqual(before)
  })

  it.each([
    ['foreign', 'something else\n'],
    ['cut', undefined],
  ])('is never written over a file that is no archive: %s', async (name, content) => {
    const archiveDir = join(folder, name)
    await archiveEntries(service.services, { tenant_id, after_id: 0, through_id: OLD }, archiveDir)
    const path = join(archiveDir, archiveName())
    const kept = content ?? (await readFile(path, 'utf8')).slice(0, -300)
    await writeFile(path, kept)
    const before = await stored()
    await expect(purge({ archiveDir })).rejects.toMatchObject({
      code: 'E_STATE',
      message: expect.stringContaining(path),
    })
    expect(await readFile(path, 'utf8')).toBe(kept)
    expect(await readdir(archiveDir)).toEqual([archiveName()])
    expect(await stored()).toEqual(before)
  })

  it('of fewer entries than will go does not count', async () => {
    const archiveDir = join(folder, 'fewer')
    await mkdir(archiveDir)
    const { body } = await owner.call('GET', `/v1/audit/export?after_id=5&through_id=${OLD}`)
    await writeFile(join(archiveDir, archiveName()), body as string)
    const before = await stored()
    await expect(purge({ archiveDir })).rejects.toMatchObject({ code: 'E_STATE' })
    expect(await stored()).toEqual(before)
  })

  it('that does not verify is not one: nothing is purged, and no file is left', async () => {
    const archiveDir = join(folder, 'unverified')
    const { sql } = service.services
    await sql`update audit_log set actor = 'x' where tenant_id = ${tenant_id} and id = 5`
    const before = await stored()
    await expect(purge({ archiveDir })).rejects.toMatchObject({
      code: 'E_STATE',
      message: expect.stringContaining('entry 5 was altered'),
    })
    expect(await readdir(archiveDir)).toEqual([])
    expect(await stored()).toEqual(before)
  })

  it("that can't be written keeps everything where it is", async () => {
    const before = await stored()
    await expect(purge({ archiveDir: '/dev/null/nowhere' })).rejects.toThrow('ENOTDIR')
    expect(await stored()).toEqual(before)
  })

  it('of a log that was tampered with is not taken for one: nothing is purged', async () => {
    const { sql } = service.services
    await sql`update audit_log set actor = 'x' where tenant_id = ${tenant_id} and id = ${OLD}`
    const before = await stored()
    await expect(purge({ archiveDir: join(folder, 'tampered') })).rejects.toMatchObject({ code: 'E_VALIDATION' })
    await expect(purge()).rejects.toMatchObject({ code: 'E_STATE' })
    expect(await stored()).toEqual(before)
  })
})

describe('a purge is refused', () => {
  it('by a clock that is over a year ahead of the newest entry of all tenants', async () => {
    let clock = START
    const alone = await startService({ now: () => clock })
    try {
      const [first, second] = [await alone.createTenant(), await alone.createTenant()]
      const attempt = (caller: Caller) => purgeTenant(alone.services, caller.tenant.tenant_id, RETENTION)
      const rows = async () => (await alone.services.sql`select tenant_id, id from audit_log`).length
      for (const ahead of [366 * DAY_MS + 1, 3_650 * DAY_MS, 36_500 * DAY_MS]) {
        clock = START + ahead
        const refusal = { code: 'E_STATE', message: expect.stringContaining('Check the clock') }
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

  it('by a clock that leapt, until it has been served under for four weeks', async () => {
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

  it("by a clock that is far from the database's, whichever is ahead", async () => {
    const before = await stored()
    for (const apart of [730 * DAY_MS, 2 * HOUR_MS, -2 * HOUR_MS, -730 * DAY_MS]) {
      const apartServices = { ...service.services, databaseNow: async () => now + apart }
      await expect(purgeTenant(apartServices, tenant_id, RETENTION)).rejects.toMatchObject({
        code: 'E_STATE',
        message: expect.stringContaining('in the database'),
      })
    }
    expect(await stored()).toEqual(before)
  })

  it('when it would take more than the share that was allowed', async () => {
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

  it("for one tenant without keeping another one's from being purged", async () => {
    const other = await service.createTenant()
    const purged: string[] = []
    const refused: string[] = []
    await service.services.sql`update audit_log set actor = 'x' where tenant_id = ${tenant_id} and id = ${OLD}`
    await purgeTenants(service.services, {
      ...RETENTION,
      onPurged: (id) => purged.push(id),
      onRefused: (id) => refused.push(id),
    })
    expect(refused).toContain(tenant_id)
    expect([...purged, ...refused]).not.toContain(other.tenant.tenant_id)
  })
})

describe('the retention', () => {
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
  ])('counted at %s is %i months back to %s', async (time, retentionMonths, cutoff) => {
    const other = await startTenantAt(Date.parse(time) - 1)
    now = Date.parse(time)
    const plan = performAsSystem(service.services, other, purgeAudit({ retentionMonths, maxShare: 1, dryRun: true }))
    expect(await plan).toMatchObject({ cutoff })
  })

  it('keeps an entry that is exactly as old as it, and takes it a millisecond later', async () => {
    const at = Date.parse(history[OLD - 1]?.created_at ?? '')
    now = new Date(at).setUTCFullYear(new Date(at).getUTCFullYear() + 1)
    expect(await purge({ dryRun: true })).toMatchObject({ purged_through: OLD - 1 })
    now += 1
    expect(await purge({ dryRun: true })).toMatchObject({ purged_through: OLD })
  })

  it('is counted by the earlier of two clocks that agree about the hour', async () => {
    for (const apart of [HOUR_MS / 2, -HOUR_MS / 2]) {
      const apartServices = { ...service.services, databaseNow: async () => now + apart }
      const plan = await purgeTenant(apartServices, tenant_id, { ...RETENTION, dryRun: true })
      expect(plan.cutoff).toBe(monthsBack(Math.min(now, now + apart)))
    }
  })

  it('never takes an entry before its months are over, whatever the day of the month', async () => {
    for (let day = 0; day < 800; day += 1) {
      const written = Date.parse('2023-12-15T18:00:00.000Z') + day * DAY_MS
      const months = 1 + (day % 3)
      const least = new Date(written)
      least.setUTCMonth(least.getUTCMonth() + months, 1)
      const days = new Date(Date.UTC(least.getUTCFullYear(), least.getUTCMonth() + 1, 0)).getUTCDate()
      least.setUTCDate(Math.min(new Date(written).getUTCDate(), days))
      now = least.getTime() - 1
      const cutoff = Date.parse((await cutoffOf(months)) ?? '')
      expect([new Date(written).toISOString(), cutoff <= written]).toEqual([new Date(written).toISOString(), true])
    }
  })
})

describe.skipIf(backend() === 'embedded')('four servers on one database', () => {
  it('purge at once and leave one mark, one entry and none of the old rows', async () => {
    const { database } = service
    const others = await Promise.all([1, 2, 3].map(() => startService({ database, now: () => now })))
    try {
      const all = [service, ...others]
      const plans = await Promise.all(all.map(({ services }) => purgeTenant(services, tenant_id, RETENTION)))
      expect(plans.map(({ entries }) => entries).sort()).toEqual([0, 0, 0, OLD])
      expect(plans.map(({ purged_through }) => purged_through)).toEqual([OLD, OLD, OLD, OLD])
      expect((await stored()).marks).toHaveLength(1)
      expect(await rowsLeft()).toEqual(Array.from({ length: ALL - OLD + 1 }, (_, at) => OLD + 1 + at))
      await expectShows(OLD, [await newest()])
      for (const { url } of others) {
        const response = await fetch(`${url}/v1/audit`, { headers: { authorization: `Bearer ${owner.secret}` } })
        expect(await response.json()).toMatchObject({ total: ALL - OLD + 1 })
      }
    } finally {
      await Promise.all(others.map((other) => other.close()))
    }
  })
})

describe('eaas purge', () => {
  const eaas = (args: string[], environment: Record<string, string> = {}) =>
    runEaas(['purge', '--tenant', tenant_id, '--json', ...args], {
      database: service.database,
      rootKey: ROOT_KEY,
      environment: { EAAS_AUDIT_RETENTION_MONTHS: '12', ...environment },
    })

  it('says in a dry run what it then does, and archives first', async () => {
    const before = await stored()
    const dry = await eaas(['--dry-run'])
    expect([dry.code, dry.stderr]).toEqual([0, ''])
    const plan = { tenant_id, purged_through: OLD, entries: OLD, cutoff: expect.any(String) }
    expect(JSON.parse(dry.stdout)).toMatchObject({ dry_run: true, tenants: [plan] })
    expect(await stored()).toEqual(before)
    const archive = join(folder, 'cli')
    const real = await eaas(['--archive', archive])
    expect([real.code, real.stderr]).toEqual([0, ''])
    expect(JSON.parse(real.stdout)).toMatchObject({ dry_run: false, tenants: [plan] })
    expect(await readdir(archive)).toEqual([`${tenant_id}-through-${OLD}.ndjson`])
    await expectVerifies({ total: ALL - OLD + 1, purged: OLD })
    expect(JSON.parse((await eaas([])).stdout).tenants).toMatchObject([{ entries: 0 }])
  })

  it('refuses a share that is too large, with exit code 1, and a share that is none, with 2', async () => {
    const before = await stored()
    const refused = await eaas(['--max-share', '0.2'])
    expect(refused.code).toBe(1)
    expect(JSON.parse(refused.stdout).tenants).toMatchObject([
      { tenant_id, refused: expect.stringContaining('--max-share') },
    ])
    for (const share of ['2', '-1', '1.5', 'half', ''])
      expect([share, (await eaas(['--max-share', share])).code]).toEqual([share, 2])
    expect((await eaas([], { EAAS_AUDIT_RETENTION_MONTHS: '0' })).code).toBe(1)
    expect(await stored()).toEqual(before)
  })
})

function monthsBack(time: number): string {
  const date = new Date(time)
  date.setUTCFullYear(date.getUTCFullYear() - 1)
  return date.toISOString()
}

async function startTenantAt(time: number): Promise<string> {
  now = time
  return (await service.createTenant()).tenant.tenant_id
}

async function cutoffOf(retentionMonths: number): Promise<string> {
  return (
    await performAsSystem(service.services, tenant_id, purgeAudit({ retentionMonths, maxShare: 1, dryRun: true }))
  ).cutoff
}
