/** The entries that the tables of a report cite by id, kept while the log is read. Pure. */
import type { ExportedEntry } from '../verify/read-export.js'
import { OPENING, SEALING } from './entry-filter.js'

/** How many entries are kept: changes of rights and keys, which are few, and no use of a key. */
const MOST_ENTRIES = 50_000
const USES: readonly string[] = [...OPENING, ...SEALING]

export class CitedEntries {
  readonly #entries = new Map<number, ExportedEntry>()

  read(entry: ExportedEntry): void {
    if (this.#entries.size < MOST_ENTRIES && !USES.includes(entry.action)) this.#entries.set(entry.id, entry)
  }

  find(id: number): ExportedEntry | undefined {
    return this.#entries.get(id)
  }
}
