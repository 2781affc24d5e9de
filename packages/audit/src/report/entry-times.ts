/** The times of a log's entries, as far as they say whether a period is covered. Pure. */
import type { AuditEntry } from '../formats/chain.js'

export type Dated = Pick<AuditEntry, 'id' | 'created_at'>

export interface EntryTimes {
  /** of the first and the last entry; undefined if there is none */
  first_at?: string | undefined
  last_at?: string | undefined
  /** the first entry that is dated after the period, of those since the last one whose time went back */
  past?: Dated | undefined
  /** an entry that is dated after the period, and a later one by whose time it may be of the period */
  ahead?: { entry: Dated; later: Dated } | undefined
}

export interface TimesReader {
  read(entry: Dated): void
  times(): EntryTimes
}

/**
 * Reads the times of a log. Time goes back only where an operator accepted that a clock was ahead (chain.md 4). What
 * stands before such an entry was written before it, whatever its date. It may be of the period, unless an entry before
 * it is dated after the period and not after the later one.
 */
export function createTimesReader({ from, to }: { from: string; to: string }): TimesReader {
  const times: EntryTimes = {}

  function goBack(later: Dated): void {
    const { past } = times
    times.past = undefined
    if (past && past.created_at > later.created_at && later.created_at >= from) times.ahead ??= { entry: past, later }
  }

  return {
    read({ id, created_at }) {
      if (times.last_at !== undefined && created_at < times.last_at) goBack({ id, created_at })
      times.first_at ??= created_at
      times.last_at = created_at
      if (created_at >= to) times.past ??= { id, created_at }
    },
    times: () => times,
  }
}
