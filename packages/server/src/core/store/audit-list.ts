/**
 * Pages of the audit log with exact totals. Times never go back within a chain, so a range of times is a range of ids,
 * whose ends an index finds. Totals sum the counts of whole days, and count rows only on the first and last day. Times
 * do go back in a log in which an operator accepted that a clock was ahead: there, rows are counted on all days.
 */
import type { AuditEntry } from '@eaas/audit/formats'
import { type Action, MAX_SCANNED_ENTRIES } from '@eaas/protocol'
import { NIL_UUID } from './audit.js'
import { exists, type Fragment, type Queryable } from './db.js'
import { lastIdWithin, ofKeyAndAction, pageOfBlocks, type Range, sampledWithin, withinBlocks } from './entry-indexes.js'

/** An entry with its proof; `previous_hash` is that of the entry before, or of the mark of the purge that deleted it. */
export type ListedEntry = AuditEntry & { hash: Uint8Array; mac: Uint8Array; previous_hash: Uint8Array | null }

/** What to list; times are inclusive, RFC 3339. No index finds `actor` and `has`, so every entry of the range is read. */
export interface EntryFilter {
  key_id?: string | undefined
  action?: Action | undefined
  actor?: string | undefined
  date_from?: string | undefined
  date_to?: string | undefined
  after_id?: number | undefined
  /** texts in the metadata; an entry must have at least one of each group */
  has?: readonly (readonly string[])[] | undefined
}

export type Page = { limit: number; offset: number; order: 'asc' | 'desc' }

/** Entries that one statement of a search reads. Other calls of an embedded database wait for one such statement at most. */
const SEARCHED_AT_ONCE = 5_000
/** Entries that one statement counts by key or action, without reading their metadata. */
const COUNTED_AT_ONCE = 10_000
/** At an end of a range, reading this many entries is faster than reading a block of an index. */
const NEAR = 1_000

const ALL_DAYS = { first: '0001-01-01', last: '9999-12-31' }

/** Runs a statement that reads many entries, once it is admitted. */
export type WhenAdmitted = <Result>(read: () => Promise<Result>) => Promise<Result>

type List = { sql: Queryable; tenant_id: string; filter: EntryFilter; whenAdmitted: WhenAdmitted }

export function isSearch(filter: EntryFilter): boolean {
  return isByBlocks(filter) || isScan(filter)
}

function isByBlocks({ key_id, action }: EntryFilter): boolean {
  return key_id !== undefined || action !== undefined
}

function isScan({ actor, has = [] }: EntryFilter): boolean {
  return actor !== undefined || has.length > 0
}

export class ScanError extends Error {
  override readonly name = 'ScanError'

  constructor(readonly entries: number) {
    super(`a filter would read ${entries} entries`)
  }
}

/**
 * One page, and the number of all matching entries. Entries up to `purged_through` count as deleted. Without a filter
 * by key or action the page is every entry of `range`.
 */
export async function listEntries(
  sql: Queryable,
  { tenant_id, purged_through }: { tenant_id: string; purged_through: number },
  filter: EntryFilter,
  page: Page,
  whenAdmitted: WhenAdmitted,
): Promise<{ entries: ListedEntry[]; total: number; range?: Range }> {
  const list = { sql, tenant_id, filter, whenAdmitted }
  const scans = isScan(filter)
  const isWhole = filter.date_from === undefined && filter.date_to === undefined && filter.after_id === undefined
  const [range, sum] = await Promise.all([
    findRange(list, purged_through),
    isWhole && !scans && isSearch(filter) ? sumDays(list, ALL_DAYS) : undefined,
  ])
  const size = range.through_id - range.after_id
  if (size <= 0) return { entries: [], total: 0 }
  if (scans && size > MAX_SCANNED_ENTRIES) throw new ScanError(size)
  if (scans) return search(list, range, page)
  if (!isSearch(filter)) {
    const shown = narrow(range, page)
    return { entries: await readPage(list, shown, { ...page, offset: 0 }), total: size, range: shown }
  }
  const total = sum ?? (await countEntries(list, range))
  const { key_id, action } = filter
  if (key_id !== undefined && action !== undefined) {
    return { entries: await readPageOfKeyAndAction(list, { tenant_id, key_id, action }, range, page), total }
  }
  // If this many entries match, the page is likely among the first `NEAR` in its order.
  if (total * NEAR > 2 * (page.offset + page.limit) * size) {
    const entries = await readPage(list, narrow(range, { ...page, offset: 0, limit: NEAR }), page)
    if (entries.length === page.limit) return { entries, total }
  }
  return { entries: await readPageOfBlocks(list, range, page), total }
}

/** Counts and reads entries that no index finds, one stretch of the range at a time, in the order of the page. */
async function search(list: List, range: Range, page: Page): Promise<{ entries: ListedEntry[]; total: number }> {
  const entries: ListedEntry[] = []
  let total = 0
  for (const stretch of stretchesOf(range, SEARCHED_AT_ONCE, page.order)) {
    const found = await countRows(list, stretch)
    const offset = Math.max(0, page.offset - total)
    const limit = page.limit - entries.length
    if (offset < found && limit > 0) entries.push(...(await readPage(list, stretch, { ...page, limit, offset })))
    total += found
  }
  return { entries, total }
}

function* stretchesOf({ after_id, through_id }: Range, size: number, order: Page['order'] = 'asc'): Generator<Range> {
  const count = Math.ceil((through_id - after_id) / size)
  for (let at = 0; at < count; at++) {
    const from = after_id + (order === 'asc' ? at : count - 1 - at) * size
    yield { after_id: from, through_id: Math.min(through_id, from + size) }
  }
}

async function findRange({ sql, tenant_id, filter }: List, purged_through: number): Promise<Range> {
  const { date_from, date_to, after_id = 0 } = filter
  // If a wrong clock was accepted, times go back, and the range spans all entries between two times.
  const isOrdered = (date_from === undefined && date_to === undefined) || !(await hasAcceptedClock(sql, tenant_id))
  const [row] = await sql<{ before_from: number | null; through: number | null }[]>`
    select
      ${date_from === undefined ? sql`0::bigint` : idBefore(sql, tenant_id, date_from, { isOrdered })} as before_from,
      ${date_to === undefined ? lastId(sql, tenant_id) : lastIdWithin(sql, tenant_id, sql`<= ${date_to}`, { isOrdered })} as through`
  return { after_id: Math.max(row?.before_from ?? 0, purged_through, after_id), through_id: row?.through ?? 0 }
}

function lastId(sql: Queryable, tenant_id: string) {
  return sql`(select id from audit_log where tenant_id = ${tenant_id} order by id desc limit 1)`
}

/**
 * The id before the first entry from a time on; the last one if there is none. If times go back, that entry is among
 * the 256 that end with the first sampled entry from that time on, an entry that accepts a clock, or the last entry.
 */
function idBefore(sql: Queryable, tenant_id: string, time: string, { isOrdered }: { isOrdered: boolean }) {
  if (isOrdered) return lastIdWithin(sql, tenant_id, sql`< ${time}`, { isOrdered })
  return sql`coalesce(
    (select pg_catalog.min(first.id) - 1
     from (
       select pg_catalog.min(id) from (${sampledWithin(sql, tenant_id, sql`>= ${time}`)} offset 0) as sampled
       union all
       select id from audit_log where tenant_id = ${tenant_id} and action = 'audit.clock_accepted'
       union all
       select ${lastId(sql, tenant_id)}
     ) as ends (id), lateral (
       select id from audit_log
       where tenant_id = ${tenant_id} and id > ends.id - 256 and id <= ends.id and created_at >= ${time} and id > 0
       order by id limit 1
     ) as first),
    ${lastId(sql, tenant_id)})`
}

// Without a filter the ids of a page follow from its offset, however large that is.
function narrow({ after_id, through_id }: Range, { limit, offset, order }: Page): Range {
  if (order === 'asc') {
    return { after_id: after_id + offset, through_id: Math.min(through_id, after_id + offset + limit) }
  }
  return { after_id: Math.max(after_id, through_id - offset - limit), through_id: through_id - offset }
}

function readPage(list: List, range: Range, { limit, offset, order }: Page): Promise<ListedEntry[]> {
  const { sql } = list
  const where: Fragment = sql`where ${within(sql, list, range)}
    order by id ${order === 'asc' ? sql`asc` : sql`desc`} limit ${limit} offset ${offset}`
  return readEntries(list, order, where)
}

/** Reads a page by the index of keys with actions, whose entries are in order. */
async function readPageOfKeyAndAction(
  list: List,
  of: { tenant_id: string; key_id: string; action: Action },
  { after_id, through_id }: Range,
  { limit, offset, order }: Page,
): Promise<ListedEntry[]> {
  const { sql } = list
  const where: Fragment = sql`where ${ofKeyAndAction(sql, of)} and id > ${after_id} and id <= ${through_id}
    order by id ${order === 'asc' ? sql`asc` : sql`desc`} limit ${limit} offset ${offset}`
  const entries = await readEntries(list, order, where)
  const isOther = ({ tenant_id, key_id, action }: ListedEntry) =>
    tenant_id !== of.tenant_id || key_id !== of.key_id || action !== of.action
  if (entries.some(isOther)) throw new Error('entries of another key or action have the same hash')
  return entries
}

/** Reads a page by an index by blocks, through all of the range if necessary. */
function readPageOfBlocks(list: List, range: Range, page: Page): Promise<ListedEntry[]> {
  const { sql, tenant_id, filter } = list
  const condition: Fragment = sql`${withinBlocks(sql, range)} and ${matching(sql, filter)}`
  return readEntries(list, page.order, pageOfBlocks(sql, tenant_id, condition, page))
}

/** Reads entries, each with the hash before it, which is not read for those before an offset. */
function readEntries(
  { sql, tenant_id, whenAdmitted }: List,
  order: Page['order'],
  where: Fragment,
): Promise<ListedEntry[]> {
  const read = () => sql<ListedEntry[]>`
    select page.*,
           coalesce(
             (select p.hash from audit_log as p where p.tenant_id = ${tenant_id} and p.id = page.id - 1),
             (select m.hash from purge_marks as m
              where m.tenant_id = ${tenant_id} and m.purged_through = page.id - 1)
           ) as previous_hash
    from (
      select tenant_id, id, action, key_id, key_version, actor, ip_address, metadata, created_at, hash, mac
      from audit_log ${where}
    ) as page
    order by id ${order === 'asc' ? sql`asc` : sql`desc`}`
  return whenAdmitted(read)
}

/** Counts the entries of a range that is not the whole log. */
async function countEntries(list: List, range: Range): Promise<number> {
  const { sql, tenant_id } = list
  const count = async (counted: Range) => {
    let entries = 0
    for (const stretch of stretchesOf(counted, COUNTED_AT_ONCE)) entries += await countRows(list, stretch)
    return entries
  }
  const [days] = await sql<{ first: string; last: string }[]>`
    select pg_catalog.min(day) as first, pg_catalog.max(day) as last from (
      select (created_at at time zone 'UTC')::date as day from audit_log
      where tenant_id = ${tenant_id} and id in (${range.after_id + 1}, ${range.through_id})
    ) as ends`
  const isOrdered = !(await hasAcceptedClock(sql, tenant_id))
  if (!days?.first || !isOrdered || days.first === days.last) return count(range)
  const [edges] = await sql<{ first_end: number; last_start: number }[]>`
    select ${lastIdWithin(sql, tenant_id, sql`< ((${days.first}::date + 1)::timestamp at time zone 'UTC')`, { isOrdered })} as first_end,
           ${lastIdWithin(sql, tenant_id, sql`< (${days.last}::date::timestamp at time zone 'UTC')`, { isOrdered })} as last_start`
  if (!edges) throw new Error('the edges of a range of entries were not found')
  const first = await count({ after_id: range.after_id, through_id: edges.first_end })
  const between = await sumDays(list, { after: days.first, before: days.last })
  return first + between + (await count({ after_id: edges.last_start, through_id: range.through_id }))
}

async function hasAcceptedClock(sql: Queryable, tenant_id: string): Promise<boolean> {
  return exists(sql, sql`select 1 from audit_counts where tenant_id = ${tenant_id} and action = 'audit.clock_accepted'`)
}

/** Counts under the nil UUID are of entries without a key, and so of no key that a filter names. */
async function sumDays(
  { sql, tenant_id, filter: { key_id, action } }: List,
  days: { first: string; last: string } | { after: string; before: string },
): Promise<number> {
  const [row] = await sql<{ entries: number }[]>`
    select coalesce(pg_catalog.sum(entries - purged), 0)::bigint as entries from audit_counts
    where tenant_id = ${tenant_id}
      and ${'first' in days ? sql`day between ${days.first} and ${days.last}` : sql`day > ${days.after} and day < ${days.before}`}
      ${key_id === undefined ? sql`` : sql`and key_id = nullif(${key_id}::uuid, ${NIL_UUID})`}
      ${action === undefined ? sql`` : sql`and action = ${action}`}`
  return row?.entries ?? 0
}

async function countRows(list: List, range: Range): Promise<number> {
  const { sql, tenant_id, filter } = list
  const count = () => sql<{ entries: number }[]>`
    select pg_catalog.count(*) as entries from audit_log where ${within(sql, { tenant_id, filter }, range)}`
  const [row] = await list.whenAdmitted(count)
  return row?.entries ?? 0
}

/**
 * The entries of a range. A key with an action has an index of its own; a scan for one of them reads its index by
 * blocks; any other filter reads the primary key, since no index has columns for a condition that `is true`.
 */
function within(sql: Queryable, { tenant_id, filter }: Pick<List, 'tenant_id' | 'filter'>, range: Range): Fragment {
  const { key_id, action } = filter
  const { after_id, through_id } = range
  if (key_id !== undefined && action !== undefined) {
    return sql`
      ${ofKeyAndAction(sql, { tenant_id, key_id, action })} and id > ${after_id} and id <= ${through_id}
      and (tenant_id = ${tenant_id} and ${matching(sql, filter)}) is true`
  }
  if (isScan(filter) && isByBlocks(filter)) {
    return sql`tenant_id = ${tenant_id} and ${withinBlocks(sql, range)} and ${matching(sql, filter)}`
  }
  return sql`
    tenant_id = ${tenant_id} and id > ${after_id} and id <= ${through_id} and (${matching(sql, filter)}) is true`
}

function matching(sql: Queryable, { key_id, action, actor, has = [] }: EntryFilter) {
  // JSON escapes a quotation mark within a text, so these texts are found only as members.
  const [of, texts] = [has.flatMap((each, at) => each.map(() => at)), has.flat()]
  return sql`
    true
    ${key_id === undefined ? sql`` : sql`and key_id = ${key_id}`}
    ${action === undefined ? sql`` : sql`and action = ${action}`}
    ${actor === undefined ? sql`` : sql`and actor = ${actor}`}
    ${
      has.length === 0
        ? sql``
        : sql`and metadata is not null and not exists (
            select 1 from unnest(${of}::integer[], ${texts}::text[]) as t (of, text)
            group by t.of having not pg_catalog.bool_or(pg_catalog.strpos(audit_log.metadata, t.text) > 0))`
    }`
}
