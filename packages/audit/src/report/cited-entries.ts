/** The entries that the tables of a report cite by id, kept while the log is read. Pure. */
import type { ExportedEntry } from '../verify/read-export.js'
import { EXPORTING, OPENING, SEALING } from './entry-filter.js'
import { REFUSED } from './refusals.js'

/** How many entries of one action are kept, for the period and for other times each, so that they do not compete. */
const MOST_OF_KIND = 50_000
/** Only counted: no table cites them. */
const COUNTED: readonly string[] = [...OPENING, ...SEALING, ...REFUSED]
/** They set no state, so they are cited only if they are of the period. */
const STATELESS: readonly string[] = EXPORTING

export class CitedEntries {
  readonly #entries = new Map<number, ExportedEntry>()
  readonly #kinds = new Map<string, number>()

  constructor(private readonly period: { from: string; to: string }) {}

  read(entry: ExportedEntry): void {
    const { id, action, created_at } = entry
    const isOfPeriod = created_at >= this.period.from && created_at <= this.period.to
    if (COUNTED.includes(action) || (!isOfPeriod && STATELESS.includes(action))) return
    const kind = `${action} ${isOfPeriod}`
    const kept = this.#kinds.get(kind) ?? 0
    if (kept >= MOST_OF_KIND) return
    this.#kinds.set(kind, kept + 1)
    this.#entries.set(id, entry)
  }

  find(id: number): ExportedEntry | undefined {
    return this.#entries.get(id)
  }
}
