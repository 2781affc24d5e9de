/** The times of a log's entries, as far as they say whether a period is covered. Pure. */
import type { AuditEntry } from '../formats/chain.js'
import { type AcceptedLoss, readAcceptedLoss } from './accepted-rollbacks.js'

export type Dated = Pick<AuditEntry, 'id' | 'created_at'>

export interface EntryTimes {
  /** of the first and the last entry; undefined if there is none */
  first_at?: string | undefined
  last_at?: string | undefined
  /** from which entry on the log has what is dated after the period, but may be of it */
  ahead?: ClockAhead | undefined
  /** what the log lost by rollbacks that an operator accepted, if it may have been of the period */
  losses: readonly AcceptedLoss[]
}

/** An entry that a clock dated ahead, and the time that shows it: of a later entry, or of the signature, which has no id. */
export interface ClockAhead {
  entry: Dated
  later: { id?: number; created_at: string }
}

export interface TimesReader {
  read(entry: Dated & Pick<AuditEntry, 'metadata'> & { action: string }): void
  times(log: { signed_at?: string }): EntryTimes
}

/**
 * Reads the times of a log. Time goes back only where an operator accepted that a clock was ahead (chain.md 4). What
 * stands before such an entry was written before it, whatever its date. It may be of the period, unless an entry before
 * it is dated after the period and not after the later one.
 */
export function createTimesReader({ from, to }: { from: string; to: string }): TimesReader {
  const times: Omit<EntryTimes, 'losses'> = {}
  /** the first entry that is dated after the period, of those since the last one whose time went back */
  let past: Dated | undefined
  const losses: AcceptedLoss[] = []
  /** the last entry that is dated before the period, and the last one that is dated until its end */
  let before_id = 0
  let until_id = 0

  function goBack(later: Dated): void {
    if (past && past.created_at > later.created_at && later.created_at >= from) times.ahead ??= { entry: past, later }
    past = undefined
  }

  return {
    read(entry) {
      const { id, created_at } = entry
      const loss = readAcceptedLoss(entry)
      if (loss) losses.push(loss)
      if (created_at < from) before_id = id
      if (created_at <= to) until_id = id
      if (times.last_at !== undefined && created_at < times.last_at) goBack({ id, created_at })
      times.first_at ??= created_at
      times.last_at = created_at
      if (created_at >= to) past ??= { id, created_at }
    },
    times({ signed_at }) {
      const signed =
        past && signed_at !== undefined && past.created_at > signed_at
          ? { entry: past, later: { created_at: signed_at } }
          : undefined
      return {
        ...times,
        ahead: times.ahead ?? signed,
        // By ids, which tell what was written first even where a clock was ahead.
        losses: losses.filter(({ entry_id, agrees_through }) => agrees_through <= until_id && entry_id > before_id),
      }
    },
  }
}

/** Says that a clock was ahead, and what shows it. */
export function describeAhead({ entry, later }: ClockAhead): string {
  const shown = later.id === undefined ? 'the log was signed at' : `entry ${later.id}, which follows,`
  return `a clock was ahead: entry ${entry.id} is dated ${entry.created_at}, and ${shown} ${later.created_at}`
}
