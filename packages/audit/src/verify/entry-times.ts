/** The times of a log's entries: which entries count for the state at a time, and whether a period is covered. Pure. */
import type { AuditEntry } from '../formats/chain.js'
import { type AcceptedLoss, readAcceptedLoss } from './accepted-rollbacks.js'

export type Dated = Pick<AuditEntry, 'id' | 'created_at'>

export interface EntryTimes {
  /** the times of the first and the last entry; undefined if there is none */
  first_at?: string | undefined
  last_at?: string | undefined
  /** from here on the log has entries that are dated after the period but may belong to it */
  ahead?: ClockAhead | undefined
  /** accepted losses of entries that may belong to the period */
  losses: readonly AcceptedLoss[]
}

/** An entry that a clock dated ahead, and a later time that proves it: of a later entry, or of the signature (without id). */
export type ClockAhead = { entry: Dated; later: { id?: number; created_at: string } }

/**
 * Reads the times of a log. Time only goes back at an entry by which an operator accepted that a clock was ahead
 * (chain.md 4). All entries before it were written before it, whatever their dates. Those dated after the period may
 * belong to the period, unless the first of them is dated no later than the accepting entry.
 */
export function createTimesReader({ from, to }: { from: string; to: string }) {
  const times: Omit<EntryTimes, 'losses'> = {}
  /** the first entry dated after the period, counted from where time last went back */
  let past: Dated | undefined
  const losses: AcceptedLoss[] = []
  /** the last entry dated before the period, and the last one dated no later than its end */
  let before_id = 0
  let until_id = 0

  function goBack(later: Dated): void {
    if (past && past.created_at > later.created_at && later.created_at >= from) times.ahead ??= { entry: past, later }
    past = undefined
  }

  return {
    read(entry: Dated & Pick<AuditEntry, 'metadata'> & { action: string }): void {
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
    times({ signed_at }: { signed_at?: string }): EntryTimes {
      const signed =
        past && signed_at !== undefined && past.created_at > signed_at
          ? { entry: past, later: { created_at: signed_at } }
          : undefined
      return {
        ...times,
        ahead: times.ahead ?? signed,
        // Ids show the order of writing even where a clock was ahead.
        losses: losses.filter(({ entry_id, agrees_through }) => agrees_through <= until_id && entry_id > before_id),
      }
    },
  }
}

export function describeAhead({ entry, later }: ClockAhead): string {
  const shown = later.id === undefined ? 'the log was signed at' : `entry ${later.id}, which follows,`
  return `a clock was ahead: entry ${entry.id} is dated ${entry.created_at}, and ${shown} ${later.created_at}`
}

/**
 * Creates a reader of the state at a time, RFC 3339 in UTC with milliseconds. Entries of that time count. An entry
 * dated later counts only if an entry that is not dated later follows it: then an operator accepted that a clock was
 * ahead, and all entries before the following one were written before it (chain.md 4).
 * @param change reads an entry into the running state
 * @param copy returns a copy of the running state, which later changes must not touch
 */
export function createStateReader<Entry extends Pick<AuditEntry, 'created_at'>, State>(
  at: string,
  { change, copy }: { change: (entry: Entry) => void; copy: () => State },
) {
  /** the state before the entries that are dated later than `at` */
  let kept: State | undefined
  return {
    read(entry: Entry): void {
      kept = entry.created_at > at ? (kept ?? copy()) : undefined
      change(entry)
    },
    state: (): State => kept ?? copy(),
  }
}
