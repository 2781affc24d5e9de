/** Reads the state at a time from the entries of a log: the one rule for which entries count. Pure. */
import type { AuditEntry } from '../formats/chain.js'

export interface StateReader<Entry, State> {
  /** Reads the next entry of a log that verifies. */
  read(entry: Entry): void
  /** Returns the state after the last entry that counts. */
  state(): State
}

/**
 * Creates a reader of the state at a time, RFC 3339 in UTC with milliseconds. An entry of that time counts. An entry
 * dated later counts only if one dated no later follows it: then an operator accepted that a clock was ahead, and all
 * entries before the following one were written before it (chain.md 4).
 * @param change reads an entry into the running state
 * @param copy returns the running state, which later changes must leave as it is
 */
export function createStateReader<Entry extends Pick<AuditEntry, 'created_at'>, State>(
  at: string,
  { change, copy }: { change: (entry: Entry) => void; copy: () => State },
): StateReader<Entry, State> {
  /** the state before the entries that are dated later than `at` */
  let kept: State | undefined
  return {
    read(entry) {
      kept = entry.created_at > at ? (kept ?? copy()) : undefined
      change(entry)
    },
    state: () => kept ?? copy(),
  }
}
