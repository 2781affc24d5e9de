// Reports of a written log: each figure is what its command lists, each section says what the entries say, and no text of others becomes markup or a formula.
import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import {
  CLERK,
  CUSTOMERS,
  DEPARTURE,
  departure,
  ERASED,
  FORMULA,
  HOSTILE,
  HOSTILE_NAME,
  ORDERS,
  OWNER,
  PURGED_THROUGH,
  purgedLog,
  reportedLog,
  SHOP,
  SIGNED_AT,
} from '../../../../test/support/audit/reported-log.js'
import { cutExport, type Draft, publicKey, TENANT, writeExport } from '../../../../test/support/audit/written-export.js'
import type { ExportedEntry } from '../verify/read-export.js'
import { verifyExport } from '../verify/verify-export.js'
import { writeCsv, writeJson } from './data.js'
import { matchesFilter } from './figure.js'
import { writePage } from './page.js'
import { createReportReader, listTables, type Report } from './report.js'
import { STYLE } from './style.js'
import { isFigure } from './table.js'

const FROM = '2026-02-01T00:00:00.000Z'
const TO = '2026-07-01T00:00:00.000Z'
const NAMES = new Map([
  [TENANT, 'acme <b>'],
  [CUSTOMERS, '</td><script>'],
  [ORDERS, 'not what the log says'],
])

interface Options {
  from?: string
  to?: string
  key?: string | undefined
  signed_at?: string
  /** the export begins after this entry */
  after?: number
  /** and ends with this one, if the log went on */
  until?: number
  alter?: (line: string) => string
}

async function reportOn(
  drafts: Iterable<Draft> = reportedLog(),
  {
    from = FROM,
    to = TO,
    key = publicKey,
    signed_at = SIGNED_AT,
    after = 0,
    until,
    alter = (line) => line,
  }: Options = {},
) {
  const reader = createReportReader({ from, to })
  const entries: ExportedEntry[] = []
  const written = [...writeExport(drafts, signed_at)]
  const last_id = written.length - 2
  const ends = [after, until ?? last_id].filter((id) => id > 0 && id < last_id)
  const file = cutExport(written, ends, signed_at)[after === 0 ? 0 : 1] ?? ''
  const lines = file.slice(0, -1).split('\n').map(alter)
  const verdict = await verifyExport(lines, {
    ...(key === '' ? {} : { publicKey: key }),
    onEntry(entry) {
      entries.push(entry)
      reader.read(entry)
    },
  })
  const made = { version: '1.2.3', command: 'npx @eaas/audit report', names: NAMES }
  const report = reader.report({ verdict, files: [{ name: 'acme.ndjson', sha256: 'ab' }], ...made })
  return { report, entries, verdict }
}

function rowsOf({ sections }: Report, name: string): Record<string, unknown>[] {
  const table = sections.flatMap(({ tables }) => tables).find((each) => each.name === name)
  return (table?.rows ?? []).map(({ cells }) =>
    Object.fromEntries(
      (table?.columns ?? []).map((column, at) => {
        const cell = cells[at] ?? null
        return [column.name, isFigure(cell) ? cell.count : cell]
      }),
    ),
  )
}

describe('a report', () => {
  it('counts in each figure exactly the entries that its command lists', async () => {
    const { report, entries } = await reportOn()
    expect(report.figures.length).toBeGreaterThan(100)
    for (const { filter, count, entries: named, title } of report.figures) {
      const listed = entries.filter((entry) => matchesFilter(filter, entry)).map(({ id }) => id)
      expect([title, filter, listed.length]).toEqual([title, filter, count])
      expect(named).toEqual(listed.slice(0, 20))
    }
  })

  it('names the move with which the tenant left', async () => {
    const { report } = await reportOn([...purgedLog(), departure(11)])
    expect(report.evidence.facts).toContainEqual({ name: 'Moved', text: `by entry 15 ${DEPARTURE}` })
  })

  it('says who opened what, exports first', async () => {
    const { report } = await reportOn()
    expect(rowsOf(report, 'access-by-person')).toMatchObject([
      { user: null, api_key: OWNER, opened: 0, exported: 1 },
      { user: 'ada@example.com', api_key: SHOP },
      { user: FORMULA, api_key: SHOP },
      { user: HOSTILE, api_key: SHOP },
    ])
    expect(rowsOf(report, 'access-by-key').map(({ key }) => key)).toEqual([
      ...Array(4).fill(CUSTOMERS),
      ...Array(3).fill(ORDERS),
    ])
  })

  it('marks as spikes the days that the rule names', async () => {
    const { report } = await reportOn()
    expect(rowsOf(report, 'spikes')).toMatchObject([
      { day: '2026-05-05', user: 'ada@example.com', opened: 41, median: 4 },
      { day: '2026-05-05', user: FORMULA, opened: 12, median: 1 },
    ])
    expect(report.sections[0]?.days?.filter(({ isSpike }) => isSpike).map(({ day }) => day)).toEqual(['2026-05-05'])
  })

  it('registers each key with its state, since when, by whom, and what is overdue', async () => {
    const { report } = await reportOn()
    expect(rowsOf(report, 'keys')).toMatchObject([
      { key: CUSTOMERS, state: 'active', by: OWNER, exported: 1, overdue_days: null, destroyed: null },
      { key: ORDERS, folder: 'shop/', interval_days: 30, overdue_days: 146, exported: 0 },
      { key: ERASED, state: 'destroyed', by: 'system', destroyed: '2026-04-23T18:42:00.000Z' },
    ])
  })

  describe('of a change at the very end of the period, or that a clock dated ahead', () => {
    const AHEAD = '2027-01-01T00:00:00.000Z'
    const accepted = {
      ...{ action: 'audit.clock_accepted', created_at: '2026-06-01T00:00:00.000Z' },
      metadata: { ahead_until: AHEAD, reason: 'battery' },
    }
    const aboutKey = { key_id: CUSTOMERS, key_version: 2, actor: OWNER }
    const clerk = { api_key_id: CLERK, permissions: 'hash unwrap', expires_at: null, allowed_ips: null, replaces: 9 }
    // The last entry of the history is 14.
    const changesAt = (created_at: string): Draft[] => [
      ...purgedLog(),
      { action: 'key.rotate', created_at, ...aboutKey, key_version: 3, metadata: { replaces: 10 } },
      { action: 'key.disable', created_at, ...aboutKey, key_version: 3, metadata: { replaces: 15 } },
      { action: 'api_key.update', created_at, actor: OWNER, metadata: clerk },
    ]
    const used = (created_at: string) => ({ action: 'key.unwrap', created_at, ...aboutKey, key_version: 3 })

    it.each([
      ['at the end', TO, [...changesAt(TO), used(TO)]],
      ['dated ahead', AHEAD, [...changesAt(AHEAD), used(AHEAD), accepted]],
    ])('says in register and rights the same: %s', async (_, since, drafts) => {
      const { report, verdict } = await reportOn(drafts)
      expect(verdict.valid).toBe(true)
      expect(rowsOf(report, 'keys')).toMatchObject([
        { state: 'disabled', since, by: OWNER, entry: 16, version: 3, rotated: since, rotation_entry: 15, opened: 2 },
      ])
      const rights = rowsOf(report, 'rights').find(({ api_key }) => api_key === CLERK)
      expect(rights).toMatchObject({ unwrap: 6, hash: 17 })
    })

    it('leaves out what is dated ahead of the period, if nothing within it follows', async () => {
      const { report } = await reportOn([...changesAt(AHEAD), { ...accepted, created_at: '2026-07-01T00:00:00.001Z' }])
      const state = { state: 'active', version: 2, rotation_entry: 4 }
      expect(rowsOf(report, 'keys')).toMatchObject([state])
      expect(rowsOf(report, 'rights').find(({ api_key }) => api_key === CLERK)).toMatchObject({ unwrap: 6, hash: null })
    })
  })

  it('registers the keys as they were at the end of the period, whatever came later', async () => {
    const { report } = await reportOn(undefined, { to: '2026-04-20T00:00:00.000Z' })
    expect(rowsOf(report, 'keys')[2]).toMatchObject({ state: 'pending_destruction', by: OWNER, destroyed: null })
  })

  it('names for each permission the entry by which the API key has it, and what differs', async () => {
    const { report, entries } = await reportOn()
    const [granted, changed] = entries.filter(({ metadata }) => metadata?.includes(CLERK)).map(({ id }) => id)
    const clerk = rowsOf(report, 'rights').find(({ api_key }) => api_key === CLERK)
    expect(clerk).toMatchObject({ unwrap: granted, hash: changed, decrypt: null, state: 'active' })
    expect(rowsOf(report, 'rights-changes')).toEqual([
      { api_key: CLERK, what: 'permissions gained', before: 'no', after: 'hash', entry: changed },
      { api_key: CLERK, what: 'name', before: 'clerk', after: 'till', entry: changed },
    ])
  })

  it('names keys and API keys as the log did at the end of the period, and as a file does where it did not', async () => {
    const { report } = await reportOn()
    const named = [...report.names].sort(([a], [b]) => (a < b ? -1 : 1))
    expect(named).toEqual(
      [
        [OWNER, 'owner'],
        [SHOP, HOSTILE_NAME],
        [CLERK, 'till'],
        [TENANT, 'acme <b>'],
        [CUSTOMERS, '</td><script>'],
        [ORDERS, 'shop/orders'],
        [ERASED, 'erased'],
      ].sort(([a = ''], [b = '']) => (a < b ? -1 : 1)),
    )
    const earlier = (await reportOn(undefined, { to: '2026-02-02T00:00:00.000Z' })).report
    expect(earlier.names.get(CLERK)).toBe('clerk')
  })

  it('lists refusals by reason, API key, address and day, and what stands out', async () => {
    const { report } = await reportOn()
    expect(rowsOf(report, 'refusals')).toMatchObject([
      { day: '2026-02-14', reason: 'server mode is closed: decrypt', api_key: SHOP, address: '192.0.2.9', refused: 1 },
      { day: '2026-02-24', reason: 'over the budget: unwrap, 600 a minute', refused: 1 },
    ])
    expect(rowsOf(report, 'notable').map(({ action, why }) => [action, why])).toEqual([
      ['key.export', 'the secrets of a key left the server'],
      ['key.destroy', 'the destruction of a key was scheduled'],
      ['key.destroy', 'a key was destroyed'],
    ])
  })

  it('has the entries that its tables name, by which each link leads somewhere', async () => {
    const { report } = await reportOn()
    const page = writePage(report, { files: ['acme.ndjson'] })
    const targets = new Set([...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id))
    const links = [...page.matchAll(/href="#([^"]+)"/g)].map(([, id]) => id)
    expect(links.length).toBeGreaterThan(200)
    expect(links.filter((id) => !targets.has(id))).toEqual([])
  })

  it('says nothing of a log that does not verify', async () => {
    const { report } = await reportOn(undefined, { alter: (line) => line.replace('"192.0.2.9"', '"192.0.2.8"') })
    expect(report.evidence).toMatchObject({ tone: 'alarm', not_proven: [] })
    expect(report.evidence.verdict).toMatch(/^The export is NOT valid, so nothing is reported from it: .*entry \d+/)
    expect(report).toMatchObject({ sections: [], figures: [], entries: [], isCovered: false })
    expect(writePage(report, { files: ['acme.ndjson'] })).not.toContain('<table')
  })

  it.each([
    { action: 'key.unwrap', key_id: CUSTOMERS, key_version: 2, actor: SHOP },
    { action: 'budget.refused', actor: SHOP },
  ])('says nothing of a log with a time that does not exist: $action', async (draft) => {
    const drafts = [...purgedLog(), { ...draft, created_at: '2026-13-01T00:00:00.000Z' }]
    const { report } = await reportOn(drafts, { to: '2027-01-01T00:00:00.000Z', key: '' })
    expect(report.evidence).toMatchObject({ tone: 'alarm', not_proven: [] })
    expect(report.evidence.verdict).toContain('the line is not an entry (line 16, entry 15)')
  })

  it('does not cover a period that ends after the export was signed', async () => {
    const { report } = await reportOn(undefined, { signed_at: '2026-06-30T23:00:00.000Z' })
    expect(report.isCovered).toBe(false)
    expect(report.evidence).toMatchObject({ tone: 'due' })
    expect(report.evidence.verdict).toContain('before the end of the period')
  })

  it('says that the key was not given', async () => {
    const { report } = await reportOn(undefined, { key: '' })
    expect(report.evidence.tone).toBe('due')
    expect(report.evidence.not_proven).toContainEqual(
      expect.stringContaining('the public key came from the file itself'),
    )
  })

  /** The log of one key until the first days, and then more. */
  function* crowded(drafts: Iterable<Draft>): Generator<Draft> {
    for (const draft of reportedLog()) {
      yield draft
      if (draft.created_at > '2026-01-08') break
    }
    yield* drafts
  }
  const used = (user: string, created_at: string): Draft => ({
    ...{ action: 'key.unwrap', created_at, key_id: CUSTOMERS, key_version: 1, actor: SHOP },
    metadata: { on_behalf_of: user },
  })

  it('stays small however many end users there are, and says what it left out', async () => {
    const users = Array.from({ length: 10_050 }, (_, at) => used(`user ${at}`, '2026-03-01T00:00:00.000Z'))
    const { report } = await reportOn(crowded(users))
    const [persons] = report.sections[0]?.tables ?? []
    expect(persons?.rows.length).toBe(10_000)
    const left = 'The table has the first 10000. Entries of further ones, which it leaves out: 50.'
    expect(persons?.notes).toEqual([left])
    expect(JSON.parse(writeJson(report)).notes).toContainEqual({ table: 'access-by-person', text: left })
    const evidence = listTables(report).find(({ name }) => name === 'evidence')
    expect(evidence?.rows.map(({ cells }) => cells)).toContainEqual(['note on access-by-person', left])
    expect(writePage(report, { files: ['acme.ndjson'] }).length).toBeLessThan(2_000_000)
  })

  it('does not say that no day was a spike if it did not count the days of all end users', async () => {
    const users = Array.from({ length: 10_000 }, (_, at) => used(`user ${at}`, '2026-03-01T00:00:00.000Z'))
    const spikes = [1, 1, 1, 1, 40].flatMap((count, at) =>
      Array.from({ length: count }, () => used('late', `2026-03-0${at + 2}T00:00:00.000Z`)),
    )
    const { report } = await reportOn(crowded([...users, ...spikes]))
    const table = report.sections[0]?.tables.find(({ name }) => name === 'spikes')
    expect(table).toMatchObject({ rows: [], empty: 'No day that was counted was a spike by this rule.' })
    expect(table?.notes).toEqual([expect.stringMatching(/^Not counted by day: 44 of the entries, /)])
    expect((await reportOn()).report.sections[0]?.tables.find(({ name }) => name === 'spikes')?.notes).toEqual([])
  })

  it('has the entries that its tables name, however many others were before, and says what it left out', async () => {
    const { entries, verdict } = await reportOn()
    const [made] = entries.filter(({ action }) => action === 'api_key.create')
    const [exported] = entries.filter(({ action }) => action === 'key.export')
    if (!made || !exported) throw new Error('the history has neither')
    const granted = { permissions: 'unwrap', expires_at: null, allowed_ips: null, name: 'one of many' }
    const grant = (id: number): ExportedEntry => ({
      ...made,
      ...{ id, created_at: '2026-01-20T00:00:00.000Z' },
      metadata: JSON.stringify({ ...granted, api_key_id: `6f1b6c1e-3a5e-4f0e-8f57-${String(id).padStart(12, '0')}` }),
    })
    const reader = createReportReader({ from: FROM, to: TO })
    for (let id = 1; id <= 50_010; id++) reader.read(grant(id))
    const ofPeriod = [
      { ...exported, id: 50_011 },
      { ...grant(50_012), created_at: exported.created_at },
    ]
    for (const entry of ofPeriod) reader.read(entry)
    const report = reader.report({ verdict, files: [], names: NAMES, version: '1.2.3', command: '' })
    expect(report.entries.slice(-2)).toEqual(ofPeriod)
    expect(report.entries_left_out).toBe(10)
    const text = '10 further entries that the tables name are not here: the command entries lists all.'
    const short = { ...report, sections: report.sections.slice(0, 1), entries: [] }
    expect(JSON.parse(writeJson(short)).notes).toContainEqual({ table: 'entries', text })
    expect(writePage(short, { files: ['acme.ndjson'] })).toContain(`<p class="note">${text}</p>`)
  })
})

describe('the period of a report', () => {
  const FIRST_AT = '2026-02-10T00:00:00.000Z'
  const unlessPurged = purgedLog().filter(({ action }) => action !== 'audit.purge')
  const judge = async (drafts: Draft[], options: Options) => {
    const { report } = await reportOn(drafts, options)
    return [report.isCovered, report.evidence.tone, report.evidence.verdict]
  }

  it.each([
    ['missing', 'are missing', unlessPurged],
    ['purged', 'were purged', purgedLog()],
  ])('is not covered if the first entry is of its beginning, and entries before are %s', async (_, why, drafts) => {
    const said = `entries through ${PURGED_THROUGH} ${why}, and the first that is left is of ${FIRST_AT}, not before the beginning of the period`
    const begun = { after: PURGED_THROUGH, from: FIRST_AT }
    expect(await judge(drafts, begun)).toEqual([false, 'due', expect.stringContaining(said)])
    expect(await judge(drafts, { ...begun, from: '2026-02-10T00:00:00.001Z' })).toEqual([
      true,
      'good',
      expect.anything(),
    ])
  })

  it('is not covered if the end is missing and the last entry is of the end of the period', async () => {
    const ended = { until: 14, from: '2026-01-01T00:00:00.000Z' }
    const last_at = '2026-03-03T00:00:00.000Z'
    const end = `the export ends with entry 14 of ${last_at}, which is not after the end of the period`
    const drafts = [...purgedLog(), { action: 'key.unwrap', created_at: last_at, key_id: CUSTOMERS, key_version: 2 }]
    expect(await judge(drafts, { ...ended, to: last_at })).toEqual([false, 'due', expect.stringContaining(end)])
    expect(await judge(drafts, { ...ended, to: '2026-03-02T23:59:59.999Z' })).toEqual([true, 'good', expect.anything()])
  })

  it('says both if the beginning and the end are missing', async () => {
    const end = `the export ends with entry 12 of `
    const [covered, , verdict] = await judge(unlessPurged, {
      after: PURGED_THROUGH,
      from: FIRST_AT,
      until: 12,
      to: SIGNED_AT,
    })
    expect([covered, verdict]).toEqual([false, expect.stringContaining(end)])
    expect(verdict).toContain(`entries through ${PURGED_THROUGH} are missing`)
  })

  describe('of a log that a clock dated ahead', () => {
    const AHEAD = '2027-01-01T00:00:00.000Z'
    const RIGHT_AGAIN = '2026-03-04T00:00:00.000Z'
    // The last entry of the history is 14.
    const use = (created_at: string) => ({ action: 'key.unwrap', created_at, key_id: CUSTOMERS, key_version: 2 })
    const accepted = (created_at: string) => ({
      ...{ action: 'audit.clock_accepted', created_at },
      metadata: { ahead_until: AHEAD, reason: 'battery' },
    })
    const begun = { from: '2026-01-01T00:00:00.000Z' }
    const covered = [true, 'good', expect.anything()]
    const uncovered = (later: string) => {
      const todo = `so what is dated from then on may be of the period and is not counted; list it with the command entries and --from=${AHEAD}`
      const said = `a clock was ahead: entry 15 is dated ${AHEAD}, ${later}, ${todo}.`
      return [false, 'due', expect.stringContaining(said)]
    }

    it.each([
      ['the log ends so', 15],
      ['the end is missing', 16],
    ])('is not covered if the signature is before what is dated after the period, and %s', async (_, entries) => {
      const drafts = [...purgedLog(), use(AHEAD), use(AHEAD)].slice(0, entries)
      expect(await judge(drafts, { ...begun, until: 15 })).toEqual(uncovered(`and the log was signed at ${SIGNED_AT}`))
    })

    it('is not covered if time went back, in it or later, before what is dated after the period', async () => {
      const drafts = [...purgedLog(), use(AHEAD), accepted(RIGHT_AGAIN), use('2026-03-05T00:00:00.000Z')]
      const later = `and entry 16, which follows, ${RIGHT_AGAIN}`
      expect(await judge(drafts, begun)).toEqual(uncovered(later))
      expect(await judge(drafts, { from: RIGHT_AGAIN })).toEqual(uncovered(later))
    })

    it('has its days in their order', async () => {
      const ahead = {
        ...accepted(RIGHT_AGAIN),
        metadata: { ahead_until: '2026-06-10T00:00:00.000Z', reason: 'battery' },
      }
      const drafts = [...purgedLog(), use('2026-06-10T00:00:00.000Z'), ahead, use('2026-03-05T00:00:00.000Z')]
      const { report } = await reportOn(drafts)
      const days = ['2026-02-10', '2026-03-03', '2026-03-05', '2026-06-10']
      expect(report.sections[0]?.days?.map(({ day }) => day)).toEqual(days)
      expect(writePage(report, { files: [] })).toContain('A bar is a day of UTC from 2026-02-10 to 2026-06-10;')
    })

    it('is covered if all that is dated ahead was written before it or after it', async () => {
      const before = [...purgedLog(), use(AHEAD), accepted(RIGHT_AGAIN)]
      expect(await judge(before, { from: '2026-03-04T00:00:00.001Z' })).toEqual(covered)
      const after = [...purgedLog(), use(TO), use(AHEAD)]
      expect(await judge(after, begun)).toEqual(covered)
      expect(await judge([...after, accepted('2026-07-01T12:00:00.000Z')], begun)).toEqual(covered)
    })
  })

  describe('of a log with a rollback that an operator accepted', () => {
    const ACCEPTED_AT = '2026-03-10T00:00:00.000Z'
    const entryAt = (created_at: string) => ({ action: 'key.unwrap', created_at, key_id: CUSTOMERS, key_version: 2 })
    // The last entry of the history is 14, of 3 March.
    const rolledBack = (told: Record<string, unknown>) => [
      ...purgedLog(),
      {
        ...{ action: 'audit.rollback_accepted', created_at: ACCEPTED_AT },
        metadata: { agrees_through: 0, policy_version: 1, reason: 'restored', witnessed_id: 20, ...told },
      },
      entryAt('2026-03-11T00:00:00.000Z'),
    ]
    const covered = [true, 'good', expect.anything()]
    const uncovered = (least: string, where: string) => {
      const said = `; but entries of the period may be lost: by entry 15, audit.rollback_accepted, an operator accepted at ${ACCEPTED_AT} that the log lost entries (restored): ${least}, ${where}.`
      return [false, 'due', expect.stringContaining(said)]
    }
    const unknown = uncovered('at least 6, up to entry 20', 'from which entry on is not known')
    const after10 = { agrees_through: 10 }
    const { created_at: entry10At = '' } = purgedLog()[9] ?? {}
    const justBefore = (time: string) => new Date(Date.parse(time) - 1).toISOString()

    it('is not covered if entries of it may be lost, which the page, the tables and the JSON say', async () => {
      const { report } = await reportOn(rolledBack(after10), { from: '2026-03-01T00:00:00.000Z', to: ACCEPTED_AT })
      expect([report.isCovered, report.evidence.tone, report.evidence.verdict]).toEqual(
        uncovered('at least 6, up to entry 20', 'all after entry 10'),
      )
      const why = report.evidence.verdict.split('; but ')[1] ?? ''
      expect(report.evidence.not_proven[0]).toBe(`The whole period: ${why}`)
      expect(writePage(report, { files: ['acme.ndjson'] })).toContain(why)
      const evidence = listTables(report).find(({ name }) => name === 'evidence')
      expect(evidence && writeCsv(evidence)).toContain(why)
      const loss = { entry_id: 15, created_at: ACCEPTED_AT, reason: 'restored', agrees_through: 10, lost_through: 20 }
      expect(JSON.parse(writeJson(report))).toMatchObject({ covers_period: false, losses: [loss] })
    })

    it.each([
      ['which ends with the last entry that was not lost', entry10At, after10, false],
      ['which ended before that', justBefore(entry10At), after10, true],
      ['whichever it is, if it is not known which entry was the last', '2026-01-02T00:00:00.000Z', {}, false],
    ])('is covered or not by its end: %s', async (_, to, told, isCovered) => {
      const { report } = await reportOn(rolledBack(told), { from: '2026-01-01T00:00:00.000Z', to })
      expect(report.isCovered).toBe(isCovered)
    })

    it('is covered if it begins after the acceptance', async () => {
      expect(await judge(rolledBack({}), { from: ACCEPTED_AT })).toEqual(unknown)
      expect(await judge(rolledBack({}), { from: '2026-03-10T00:00:00.001Z' })).toEqual(covered)
    })

    it('is covered if no entry is known to be lost', async () => {
      expect(await judge(rolledBack({ agrees_through: 14, witnessed_id: 14 }), {})).toEqual(covered)
    })

    it.each([
      ['written on', { witnessed_id: 13 }, 'at least 1, up to entry 13', 'from which entry on is not known'],
      [
        'behind an entry that the log of the installation names',
        { agrees_through: 14, witnessed_id: 14, named_id: 16 },
        'at least 2, up to entry 16',
        'all after entry 14',
      ],
    ])('is said to have lost what is known: %s', async (_, told, least, where) => {
      expect(await judge(rolledBack(told), {})).toEqual(uncovered(least, where))
    })

    it('names the newest of several', async () => {
      const drafts = [...rolledBack({ witnessed_id: 20 }), ...rolledBack({ witnessed_id: 30 }).slice(14, 15)].map(
        (draft, at) => (at === 16 ? { ...draft, created_at: '2026-03-12T00:00:00.000Z' } : draft),
      )
      const [, , verdict] = await judge(drafts, {})
      expect(verdict).toMatch(/by entry 17, .*: at least 14, up to entry 30, .*; 1 earlier entry says so of others\.$/)
    })

    it('is not seen in a part that ends before it, which the report says', async () => {
      const { report } = await reportOn(rolledBack({}), { until: 14, to: '2026-03-01T00:00:00.000Z' })
      expect(report.evidence.not_proven).toContainEqual(
        'That no entry of the period was lost in a rollback that an operator accepted after entry 14: the file would not show it.',
      )
    })
  })

  it('is said to rest on the clock where the end is missing', async () => {
    const { report } = await reportOn(undefined, { until: 600, to: '2026-03-01T00:00:00.000Z' })
    expect(report.isCovered).toBe(true)
    expect(report.evidence.not_proven).toContainEqual(
      expect.stringMatching(/^That the entries after 600 are of after the period: /),
    )
    const whole = (await reportOn()).report
    expect(whole.evidence.not_proven.join()).not.toContain('are of after the period')
  })
})

describe('a report of a purged log', () => {
  const purged = (options: Options = {}, drafts = purgedLog()) =>
    reportOn(drafts, { after: PURGED_THROUGH, ...options })

  it('calls created only those API keys whose creation it has, and unknown what it learned of the others', async () => {
    const { report } = await purged()
    const changes = rowsOf(report, 'rights-changes').map(({ api_key, what, before }) => [api_key, what, before])
    expect(changes).toEqual([
      [CLERK, 'what is known', 'unknown'],
      [OWNER, 'what is known', 'unknown'],
      [SHOP, 'created', 'did not exist'],
    ])
  })

  it('does not call an API key created that first acts in the period', async () => {
    const { report } = await purged({ to: '2026-02-20T00:00:00.000Z' })
    expect(rowsOf(report, 'rights-changes')).toMatchObject([
      { api_key: CLERK, what: 'what is known', before: 'unknown', after: 'unknown, unknown' },
    ])
  })

  it('does not call absent what only the entries before it name', async () => {
    const nothing = { after: 11, from: '2026-03-01T06:00:00.000Z', to: '2026-03-01T12:00:00.000Z' }
    const { report } = await purged(nothing)
    const emptyOf = (name: string) =>
      report.sections.flatMap(({ tables }) => tables).find((table) => table.name === name)?.empty
    expect(emptyOf('keys')).toBe('No entry from 12 on names a key until then.')
    expect(emptyOf('rights')).toBe('No entry from 12 on names an API key until then.')
    expect(emptyOf('limits')).toBe('No entry from 12 on names an API key until then.')
    expect(emptyOf('rights-changes')).toBe('The entries from 12 on show no difference.')
    expect(report.evidence.not_proven).toContainEqual(
      expect.stringContaining('a key or an API key that no later entry names is in no table'),
    )
  })

  it('shows which permissions became known of an API key that acted before', async () => {
    const { report } = await purged({ from: '2026-02-20T00:00:00.000Z' })
    expect(rowsOf(report, 'rights-changes')).toContainEqual({
      ...{ api_key: CLERK, what: 'permissions', before: 'unknown', after: 'unwrap', entry: 9 },
    })
  })

  it('says that exports before it are not known, and shows no 0 for a key that is older', async () => {
    const { report } = await purged()
    expect(rowsOf(report, 'keys')).toMatchObject([{ key: CUSTOMERS, exported: 'unknown' }])
    const section = report.sections.find(({ id }) => id === 'keys')
    expect(section?.about.join(' ')).toContain('Exports count from entry 7 on; earlier exports are not known.')
    expect(section?.about.join(' ')).not.toContain('from the beginning of the log')
    expect(section?.tables[0]?.notes).toEqual([
      'Exports count from entry 7 on: a key that is older may have been exported before.',
    ])
  })

  it('counts the exports of a key whose creation it has, and those that it has of an older one', async () => {
    const drafts = [
      ...purgedLog(),
      ...[{ action: 'key.export', created_at: '2026-03-04T00:00:00.000Z', key_id: CUSTOMERS, key_version: 2 }],
      ...[{ action: 'key.create', created_at: '2026-03-04T00:00:00.000Z', key_id: ORDERS, key_version: 1 }],
    ]
    const { report } = await purged({}, drafts)
    expect(rowsOf(report, 'keys')).toMatchObject([
      { key: CUSTOMERS, exported: 1 },
      { key: ORDERS, exported: 0 },
    ])
    const whole = await reportOn(purgedLog())
    expect(rowsOf(whole.report, 'keys')).toMatchObject([{ key: CUSTOMERS, exported: 1 }])
    expect(whole.report.sections[1]?.about.join(' ')).toContain('Exports count from the beginning of the log')
    expect(whole.report.sections[1]?.tables[0]?.notes).toEqual([])
  })

  it('does not know whether a rotation is overdue if it has neither the last one nor the interval', async () => {
    const known = { key: CUSTOMERS, interval_days: 30, rotated: null, overdue_days: 'unknown' }
    expect(rowsOf((await purged()).report, 'keys')).toMatchObject([known])
    const earlier = (await purged({ to: '2026-02-20T00:00:00.000Z' })).report
    const unknown = { ...known, state: 'unknown', interval_days: 'unknown' }
    expect(rowsOf(earlier, 'keys')).toMatchObject([unknown])
  })
})

describe('the page', () => {
  it('has no markup but its own, whatever texts the log and the names hold', async () => {
    const { report } = await reportOn()
    const page = writePage(report, { files: [`it's <b>`] })
    const body = page.slice(page.indexOf('<body>'))
    const tags = new Set([...body.matchAll(/<\/?([a-z0-9]+)/gi)].map(([, tag]) => tag))
    const allowed =
      'body header h1 nav ul li a main section p dl dt dd h2 h3 div table thead tbody tr th td span svg g rect title code time wbr b i html'
    expect([...tags].filter((tag) => !allowed.split(' ').includes(tag ?? ''))).toEqual([])
    expect(body).toContain('&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&#39;&amp;\\u202eexe.txt\\u0007')
    expect(body).toContain('&lt;/td&gt;&lt;script&gt;')
    expect(body).toContain(`<span class="name">&lt;img src=x onerror=alert(1)&gt;\\u200b\\u0020</span>`)
    expect(body).not.toContain('not what the log says')
    expect(body).not.toMatch(/[\p{Cf}\u2028\u2029]/u)
    expect(body).not.toMatch(/<[^>]+ (on\w+|style|src|action)=/)
  })

  it('allows its own style alone, by its hash, and loads nothing', async () => {
    const { report } = await reportOn()
    const page = writePage(report, { files: ['acme.ndjson'] })
    const hash = createHash('sha256').update(STYLE).digest('base64')
    const policy = `default-src &#39;none&#39;; style-src &#39;sha256-${hash}&#39;; base-uri &#39;none&#39;; form-action &#39;none&#39;`
    expect(page).toContain(`<meta http-equiv="Content-Security-Policy" content="${policy}">`)
    expect(page).toContain(`<style>${STYLE}</style>`)
    expect(page.indexOf('Content-Security-Policy')).toBeLessThan(page.indexOf('<style>'))
    expect(page).not.toMatch(/https?:|<script|<link|<img|url\(|@import/)
  })

  it('is the same for the same export', async () => {
    const pages = await Promise.all([reportOn(), reportOn()])
    const [one, other] = pages.map(({ report }) => writePage(report, { files: ['acme.ndjson'] }))
    expect(one).toBe(other)
  })
})

/** The cells of all lines as spreadsheets read them: a quote counts at the beginning of a cell alone. */
function readCells(csv: string, delimiter: ',' | ';'): string[] {
  const cells = csv.matchAll(new RegExp(`(?:"((?:[^"]|"")*)")?([^${delimiter}\\r\\n]*)(?:${delimiter}|\\r\\n)`, 'g'))
  return [...cells].map(([, quoted = '', rest = '']) => quoted.replaceAll('""', '"') + rest).slice(1) // the titles
}

describe('the files for programs', () => {
  it('hold no text that a spreadsheet calculates or that breaks out of its cell', async () => {
    const { report } = await reportOn()
    const tables = Object.fromEntries(listTables(report).map((table) => [table.name, writeCsv(table)]))
    expect(Object.keys(tables).sort()).toEqual([
      'access-by-key',
      'access-by-person',
      'days',
      'evidence',
      'keys',
      'limits',
      'notable',
      'refusals',
      'rights',
      'rights-changes',
      'spikes',
    ])
    const persons = tables['access-by-person'] ?? ''
    expect(persons).toContain(`"'=cmd|' /C calc'!A0",`)
    expect(persons).toContain(`"<script>alert('x')</script>""'&\\u202eexe.txt\\u0007",`)
    for (const csv of Object.values(tables)) expect(csv).not.toMatch(/(^|,)"?\s*[=+@\uff1d]/m)
  })

  it.each(['=1', '+1', '-1', '@x', '\uff1d1'])('have an apostrophe before %j', (text) => {
    const table = { name: 't', title: '', columns: [], rows: [{ cells: [text] }], empty: '' }
    expect(writeCsv(table)).toBe(`\r\n"'${text}"\r\n`)
  })

  it.each([
    ['x;=1+1;', "x;'=1+1;"],
    ['=1;;+2; -3;@x', "'=1;;'+2;' -3;'@x"],
    ['x;"=1+1"', 'x;\'"=1+1"'],
    ['x;"";"@y', 'x;"";\'"@y'],
    ['x\t=1\n=2\r=3', 'x\\u0009=1\\u000a=2\\u000d=3'],
    ['a; b;c-d', 'a; b;c-d'],
  ])('have no formula in %j, whether commas or semicolons separate their cells', (text, shown) => {
    const cells = ['acme', text, 'last']
    const csv = writeCsv({ name: 't', title: '', columns: [], rows: [{ cells }, { cells: [1, text] }], empty: '' })
    expect(readCells(csv, ',')).toEqual(['acme', shown, 'last', '1', shown])
    const split = csv.split(/[;\r\n]/) // by a reader that knows no quotes
    for (const cell of [...readCells(csv, ';'), ...split]) expect(cell).not.toMatch(/^[ "]*[=+\-@]/)
  })

  it('show blanks at the beginning, after which a spreadsheet would still calculate', () => {
    const table = { name: 't', title: '', columns: [], rows: [{ cells: [' =1', '\u3000@x'] }], empty: '' }
    expect(writeCsv(table)).toBe('\r\n"\\u0020=1","\\u3000@x"\r\n')
  })

  it('have a column of names beside each column of ids', async () => {
    const { report } = await reportOn()
    const tables = Object.fromEntries(listTables(report).map((table) => [table.name, writeCsv(table)]))
    expect(tables['access-by-key']).toMatch(/^"key","key_name","user","api_key","api_key_name","opened",/)
    const row = `"${ORDERS}","shop/orders","ada@example.com","${SHOP}","<img src=x onerror=alert(1)>\\u200b\\u0020",`
    expect(tables['access-by-key']).toContain(row)
    expect(tables.keys).toMatch(new RegExp(`^"${ERASED}","erased",,"destroyed",[^,]+,"system",,`, 'm'))
    const { 'access-by-key': used, limits } = JSON.parse(writeJson(report))
    expect(used[0]).toMatchObject({ key: CUSTOMERS, key_name: '</td><script>', api_key: OWNER, api_key_name: 'owner' })
    expect(limits[1]).toMatchObject({ api_key: SHOP, api_key_name: HOSTILE_NAME })
  })

  it('are JSON with each table, each figure and each named entry', async () => {
    const { report } = await reportOn()
    const read = JSON.parse(writeJson(report))
    expect(read).toMatchObject({ covers_period: true, evidence: { tone: 'good' } })
    expect(read['access-by-person'][1]).toMatchObject({
      user: 'ada@example.com',
      opened: { count: expect.any(Number) },
    })
    expect(read.figures.length).toBe(report.figures.length)
    expect(read.entries.map(({ id }: { id: number }) => id)).toEqual(report.entries.map(({ id }) => id))
  })
})
