// What the indexes of entries by blocks, by keys with actions and by sampled times find: the same entries as a look at each one, without reading many others.
import { randomUUID } from 'node:crypto'
import type { Action } from '@eaas/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type EntryFilter, listEntries } from '../../../packages/server/src/core/store/audit-list.js'
import type { Queryable } from '../../../packages/server/src/core/store/db.js'
import {
  lastIdWithin,
  ofKeyAndAction,
  pageOfBlocks,
  withinBlocks,
} from '../../../packages/server/src/core/store/entry-indexes.js'
import { findLastIdBefore, hasEntryBetween } from '../../../packages/server/src/operate/store/purge.js'
import { randomFrom } from '../../support/audit/long-log.js'
import { rounds } from '../../support/run/rounds.js'
import { type Service, startService } from '../../support/service/service.js'

const ENTRIES = 20_000
const BLOCK = 4_096
const SAMPLE = 256
const START = Date.parse('2026-03-01T20:00:00.000Z')

interface Entry {
  id: number
  key_id: string | null
  action: Action
  created_at: number
}

let service: Service
const random = randomFrom(42)
const pick = <T>(values: readonly T[]) => values[Math.floor(random() * values.length)] as T
const KEYS = Array.from({ length: 40 }, randomUUID)
const ACTIONS: Action[] = ['key.unwrap', 'key.wrap', 'decrypt']

/** A log whose first key has most entries; times go back with the entries of these ids. */
async function makeLog(acceptedAt: readonly number[]): Promise<{ tenant_id: string; entries: Entry[] }> {
  const tenant_id = randomUUID()
  const entries: Entry[] = []
  for (let id = 1, time = START; id <= ENTRIES; id++) {
    if (acceptedAt.includes(id)) time -= 4 * 3_600_000
    else if (random() < 0.3) time += Math.floor(random() * 10_000)
    const isRare = random() < 0.0005
    const key_id = isRare || random() < 0.5 ? KEYS[0] : random() < 0.05 ? null : pick(KEYS)
    const action = acceptedAt.includes(id) ? 'audit.clock_accepted' : isRare ? 'key.export' : pick(ACTIONS)
    entries.push({ id, key_id: key_id ?? null, action, created_at: time })
  }
  const { sql } = service.services
  await sql`
    insert into audit_log (tenant_id, id, action, key_id, actor, created_at, hash, mac)
    select ${tenant_id}::uuid, e.id, e.action, e.key_id, 'system', e.created_at, '', ''
    from unnest(
      ${entries.map(({ id }) => id)}::bigint[], ${entries.map(({ action }) => action)}::text[],
      ${entries.map(({ key_id }) => key_id)}::uuid[],
      ${entries.map(({ created_at }) => new Date(created_at).toISOString())}::timestamptz[]
    ) as e (id, action, key_id, created_at)`
  await sql`
    insert into audit_counts (tenant_id, day, action, key_id, entries)
    select tenant_id, (created_at at time zone 'UTC')::date, action,
           coalesce(key_id, '00000000-0000-0000-0000-000000000000'), pg_catalog.count(*)
    from audit_log where tenant_id = ${tenant_id} group by 1, 2, 3, 4`
  await sql`
    insert into heads (tenant_id, last_id, hash, policy_version, created_at, mac)
    values (${tenant_id}, ${ENTRIES}, '', 1, ${new Date(START).toISOString()}, '')`
  await sql`analyze audit_log` // as autovacuum does: a plan follows the statistics
  return { tenant_id, entries }
}

/** Deletes the first entries, as a purge does. */
async function purge(tenant_id: string, purged_through: number): Promise<void> {
  const { sql } = service.services
  await sql`
    insert into audit_counts as c (tenant_id, day, action, key_id, entries, purged)
    select tenant_id, (created_at at time zone 'UTC')::date, action,
           coalesce(key_id, '00000000-0000-0000-0000-000000000000'), 0, pg_catalog.count(*)
    from audit_log where tenant_id = ${tenant_id} and id <= ${purged_through} group by 1, 2, 3, 4
    on conflict (tenant_id, day, action, key_id, key_version, api_key_id) do update set purged = c.purged + excluded.purged`
  await sql`delete from audit_log where tenant_id = ${tenant_id} and id <= ${purged_through}`
  await sql`analyze audit_log`
}

/** Pages by blocks, each with its condition and the index that finds it. */
const PAGES: [string, (sql: Queryable) => ReturnType<Queryable>, string][] = [
  ['the key of most entries', (sql) => sql`key_id = ${KEYS[0] ?? ''}`, 'audit_log_key_block'],
  ['an action', (sql) => sql`action = 'key.wrap'`, 'audit_log_action_block'],
]

beforeAll(async () => {
  service = await startService()
})
afterAll(() => service?.close())

/** A time that some entries have, or one just before or after it. */
function anyTime(entries: readonly Entry[]): number {
  return pick(entries).created_at + pick([-1, 0, 0, 1]) + (random() < 0.05 ? pick([-1, 1]) * 1e10 : 0)
}

const iso = (time: number) => new Date(time).toISOString()
const maybe = <T>(value: () => T) => (random() < 0.5 ? value() : undefined)

describe.each([
  ['whose times never go back', [], 0],
  ['that was purged', [], 5_000],
  ['that was purged up to a sampled entry', [], 10 * SAMPLE - 1],
  ['in which clocks were accepted', [3_000, 3_001, 9 * SAMPLE, 12_345, 19_990], 0],
  ['in which clocks were accepted, and that was purged', [3_000, 12_345], 12_300],
])('a log %s', (_, acceptedAt, purged_through) => {
  let tenant_id: string
  let entries: Entry[]

  beforeAll(async () => {
    const log = await makeLog(acceptedAt)
    tenant_id = log.tenant_id
    entries = log.entries.slice(purged_through)
    if (purged_through > 0) await purge(tenant_id, purged_through)
    // Those of the other logs have entries of the same days.
    await service.services.sql`delete from heads where tenant_id <> ${tenant_id}`
    await service.services.sql`analyze audit_log`
  })

  it('lists what a look at each entry finds, with the same totals', async () => {
    for (let round = 0; round < rounds(150, 2_000); round++) {
      const [from, to, after_id] = [
        maybe(() => anyTime(entries)),
        maybe(() => anyTime(entries)),
        random() < 0.2 ? Math.floor(random() * ENTRIES) : undefined,
      ]
      const filter: EntryFilter = {
        key_id: maybe(() => (random() < 0.5 ? KEYS[0] : random() < 0.9 ? pick(KEYS) : randomUUID())),
        action: maybe(() => pick([...ACTIONS, 'key.export', 'audit.clock_accepted', 'key.create'] as const)),
        date_from: from === undefined ? undefined : iso(from),
        date_to: to === undefined ? undefined : iso(to),
        after_id,
      }
      const order = pick(['asc', 'desc'] as const)
      const page = { limit: pick([1, 50, 100]), offset: pick([0, 0, 49, 1_000, 9_000]), order }
      // Where times go back, the range is from the first entry of a time to the last: see audit-list.ts.
      const first = from === undefined ? 1 : (entries.find((entry) => entry.created_at >= from)?.id ?? ENTRIES + 1)
      const last = to === undefined ? ENTRIES : (entries.findLast((entry) => entry.created_at <= to)?.id ?? 0)
      const found = entries.filter(
        ({ id, key_id, action }) =>
          id >= first &&
          id <= last &&
          id > (after_id ?? 0) &&
          (filter.key_id === undefined || key_id === filter.key_id) &&
          (filter.action === undefined || action === filter.action),
      )
      const ids = (order === 'asc' ? found : found.toReversed()).map(({ id }) => id)
      const log = { tenant_id, purged_through }
      const listed = await listEntries(service.services.sql, log, filter, page, (read) => read())
      const told = JSON.stringify({ filter, page })
      expect([told, listed.total]).toEqual([told, found.length])
      expect([told, listed.entries.map(({ id }) => id)]).toEqual([
        told,
        ids.slice(page.offset, page.offset + page.limit),
      ])
    }
  })

  it('has a last entry before any time, and an entry between two where one is', async () => {
    const { sql } = service.services
    for (let round = 0; round < rounds(50, 500); round++) {
      const to = anyTime(entries)
      const from = to - Math.floor(random() * 5_000)
      const last = entries.findLast(({ created_at }) => created_at < to)
      expect(await findLastIdBefore(sql, tenant_id, iso(to))).toBe(last?.id ?? 0)
      if (acceptedAt.length > 0) continue // there it may overlook one
      const isThere = entries.some(({ created_at }) => created_at >= from && created_at < to)
      expect(await hasEntryBetween(sql, iso(from), iso(to))).toBe(isThere)
    }
  })

  it.each(PAGES)('reads the blocks of a page alone: %s', async (_name, condition, index) => {
    const { sql } = service.services
    const within: ReturnType<Queryable> = withinBlocks(sql, { after_id: purged_through, through_id: ENTRIES })
    for (const order of ['asc', 'desc'] as const) {
      for (const offset of [0, 1_000]) {
        const where: ReturnType<Queryable> = sql`${within} and ${condition(sql)}`
        const page = pageOfBlocks(sql, tenant_id, where, { limit: 50, offset, order })
        const { text, entriesRead } = await explain(sql`select id from audit_log ${page}`)
        expect(text).toContain(`"${index}"`)
        expect(text).not.toContain('Seq Scan')
        expect(entriesRead).toBeLessThan(1.5 * BLOCK)
      }
    }
  })

  it.each(['key.export', 'key.unwrap', 'key.create'])(
    'reads a page of %s by the key of most entries alone',
    async (action) => {
      const { sql } = service.services
      const of = ofKeyAndAction(sql, { tenant_id, key_id: KEYS[0] ?? '', action })
      for (const direction of [sql`asc`, sql`desc`]) {
        const { text, entriesRead } = await explain(
          sql`select id from audit_log where ${of} and id > ${purged_through} order by id ${direction} limit 50`,
        )
        expect(text).toContain('"audit_log_key_action_hash"')
        expect(entriesRead).toBeLessThanOrEqual(50)
      }
    },
  )

  it('reads the entries next to a sampled one for a time', async () => {
    const { sql } = service.services
    const middle = iso(entries[Math.floor(entries.length / 2)]?.created_at ?? 0)
    const isOrdered = acceptedAt.length === 0
    const { text, entriesRead } = await explain(
      sql`select ${lastIdWithin(sql, tenant_id, sql`<= ${middle}`, { isOrdered })}`,
    )
    expect(text).toContain('"audit_log_sampled_time"')
    expect(text).not.toContain('Seq Scan')
    expect(entriesRead).toBeLessThan(3 * SAMPLE)
  })
})

it('lists no entry of another tenant that has the same hash', async () => {
  const { sql } = service.services
  // of which uuid_hash is the same
  const [mine, theirs] = ['0000a7ed-0000-4000-8000-000000000000', '0000bd60-0000-4000-8000-000000000000']
  const [key_id = ''] = KEYS
  await sql`
    insert into audit_log (tenant_id, id, action, key_id, actor, created_at, hash, mac)
    values (${mine}, 1, 'key.create', ${key_id}, 'system', now(), '', ''),
           (${theirs}, 1, 'key.wrap', ${key_id}, 'system', now(), '', '')`
  const page = { limit: 50, offset: 0, order: 'desc' } as const
  const list = (action: Action) =>
    listEntries(sql, { tenant_id: mine, purged_through: 0 }, { key_id, action }, page, (read) => read())
  expect((await list('key.create')).entries).toHaveLength(1)
  await expect(list('key.wrap')).rejects.toThrow('the same hash')
})

/** Runs a statement; returns its plan, and how many entries it read. */
async function explain(statement: ReturnType<Queryable>): Promise<{ text: string; entriesRead: number }> {
  const { sql } = service.services
  const [row] = await sql<{ 'QUERY PLAN': PlanNode[] }[]>`explain (analyze, format json) ${statement}`
  const read = (node: PlanNode): number =>
    (node['Relation Name'] === undefined ? 0 : (node['Actual Rows'] ?? 0) + (node['Rows Removed by Filter'] ?? 0)) +
    [...(node.Plans ?? []), ...(node.Plan ? [node.Plan] : [])].reduce((sum, below) => sum + read(below), 0)
  const plan = row?.['QUERY PLAN'] ?? []
  return { text: JSON.stringify(plan), entriesRead: plan.reduce((sum, node) => sum + read(node), 0) }
}

interface PlanNode {
  'Relation Name'?: string
  'Actual Rows'?: number
  'Rows Removed by Filter'?: number
  Plans?: PlanNode[]
  Plan?: PlanNode
}
