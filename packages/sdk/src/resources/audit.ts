/** The audit log of a tenant: `/v1/audit`. */
import type { Action, Purpose, WrapContext, wire } from '@eaas/protocol'
import { ACTIONS, MAX_LISTED_ENTRIES, PURPOSES } from '@eaas/protocol'
import { InvalidInputError, ProtocolError } from '../errors.js'
import { type Http, toCall } from '../http/calls.js'
import { assertOneOf, assertOptions, assertWhole, readSignal } from '../input.js'
import { assertId, assertPage, type CallOptions, readTime } from './keys.js'

export type Entry = wire.Entry
export type EntryList = wire.EntryList
export type Verification = wire.Verification

const FILTER: readonly (keyof EntryFilter)[] = [
  ...(['key_id', 'action', 'actor', 'on_behalf_of', 'purpose', 'context'] as const),
  ...(['date_from', 'date_to', 'after_id', 'order'] as const),
]

export interface EntryFilter {
  /** Only entries of this key. */
  key_id?: string | undefined
  /** Only entries of this action. */
  action?: Action | undefined
  /** Only entries of this actor, such as an API key's id. For this filter and the next three, each entry of the range is read. */
  actor?: string | undefined
  /** Only entries of calls that named this end user. */
  on_behalf_of?: string | undefined
  /** Only wraps and unwraps for this purpose. */
  purpose?: Purpose | undefined
  /** Only wraps and unwraps whose context has these pairs, even as digests. Also needs `hash`, and counts as a hash. */
  context?: WrapContext | undefined
  /** Only entries of this time or later: RFC 3339 with an offset, or a Date. */
  date_from?: string | Date | undefined
  /** Only entries of this time or earlier: RFC 3339 with an offset, or a Date. */
  date_to?: string | Date | undefined
  /** Only entries with a greater id. */
  after_id?: number | undefined
  /** `desc`, newest first, by default. */
  order?: 'asc' | 'desc' | undefined
}

export interface ListEntriesOptions extends EntryFilter, CallOptions {
  /** The most entries: 50 by default, 100 at most. */
  limit?: number | undefined
  /** How many entries to skip first. */
  offset?: number | undefined
}

export interface EntriesOptions extends EntryFilter, CallOptions {}

/** The audit log. Needs the permission `audit:read`, and throws the errors that `Client` names. */
export interface Audit {
  /** Lists entries, newest first: `{ logs, count, total, limit, offset }`. One request. */
  list(options?: ListEntriesOptions): Promise<EntryList>
  /**
   * Iterates over all entries, with one request per hundred. With `order: 'asc'` it ends at the newest entry, and the
   * next run continues with `after_id`; no entry is skipped or repeated while others are added. Newest first, it begins
   * with the entry that is the newest at the start, and omits entries that are added meanwhile.
   * @example
   * ```ts
   * for await (const entry of eaas.audit.entries({ order: 'asc', after_id: lastSeen })) await archive(entry)
   * ```
   */
  entries(options?: EntriesOptions): AsyncGenerator<Entry, void, undefined>
  /** Verifies the whole log. For a tampered one returns `valid: false`, and the first bad entry as `broken_at`. */
  verify(options?: CallOptions): Promise<Verification>
}

export default function createAudit(http: Http): Audit {
  const list: Audit['list'] = async (options = {}) => {
    assertOptions('audit.list()', options, [...FILTER, 'limit', 'offset', 'signal'])
    const { limit, offset, signal, ...filter } = options
    assertPage(limit, offset)
    return http(toCall('listAudit', { query: { ...readFilter(filter), limit, offset }, signal }))
  }
  return {
    list,
    async *entries(given = {}) {
      assertOptions('audit.entries()', given, [...FILTER, 'signal'])
      const { order = 'desc', after_id = 0, ...options } = given
      const isAscending = order === 'asc'
      const follows = (id: number, other: number) => (isAscending ? id > other : id < other)
      let last = isAscending ? after_id : Number.POSITIVE_INFINITY
      let known = 0
      for (let offset = 0; ; offset += MAX_LISTED_ENTRIES) {
        const page = { ...options, order, limit: MAX_LISTED_ENTRIES }
        const { logs, total } = await list(isAscending ? { ...page, after_id: last } : { ...page, after_id, offset })
        // Newest first: entries added meanwhile push entries that were already seen onto this page.
        const more = logs.filter(({ id }) => follows(id, last))
        const isWhole = logs.length === MAX_LISTED_ENTRIES
        const isStuck = isWhole && more.length === 0 && total <= known
        const before = isAscending ? last : Number.POSITIVE_INFINITY
        if (isStuck || !logs.every(({ id }, at) => follows(id, logs[at - 1]?.id ?? before)))
          throw new ProtocolError('GET /v1/audit: the answer violates the contract: its entries do not go on', 200)
        for (const entry of more) {
          last = entry.id
          yield entry
        }
        if (!isWhole) return
        known = total
      }
    },
    async verify(options) {
      const signal = readSignal('audit.verify()', options)
      return http(toCall('verifyAudit', { signal }))
    },
  }
}

function assertText(name: string, text: unknown): void {
  if (text !== undefined && typeof text !== 'string') throw new InvalidInputError(`${name} must be text`)
}

function readFilter({ context, date_from, date_to, ...filter }: EntryFilter) {
  const { key_id, action, purpose, after_id, order } = filter
  if (key_id !== undefined) assertId(key_id, 'key_id')
  if (action !== undefined) assertOneOf('action', action, ACTIONS)
  for (const name of ['actor', 'on_behalf_of'] as const) assertText(name, filter[name])
  if (purpose !== undefined) assertOneOf('purpose', purpose, PURPOSES)
  if (order !== undefined) assertOneOf('order', order, ['asc', 'desc'])
  if (after_id !== undefined) assertWhole('after_id', after_id, 0)
  return {
    ...filter,
    context: context && JSON.stringify(context),
    date_from: date_from && readTime(date_from, 'date_from'),
    date_to: date_to && readTime(date_to, 'date_to'),
  }
}
