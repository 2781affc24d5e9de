/** A number in a report, and the entries that it counts. Pure. */
import type { EntryFilter, FilteredEntry } from './entry-filter.js'

/** How many entries a figure names by id; its command lists all. */
const NAMED_ENTRIES = 20

export interface Figure {
  title: string
  /** which entries are counted: the options of the command that lists them */
  filter: EntryFilter
  count: number
  /** the first ids */
  entries: number[]
  first?: { id: number; created_at: string }
  last?: { id: number; created_at: string }
}

export function createFigure(title: string, filter: EntryFilter): Figure {
  return { title, filter, count: 0, entries: [] }
}

export function countEntry(figure: Figure, { id, created_at }: Pick<FilteredEntry, 'id' | 'created_at'>): void {
  figure.count += 1
  if (figure.entries.length < NAMED_ENTRIES) figure.entries.push(id)
  figure.first ??= { id, created_at }
  figure.last = { id, created_at }
}

/** Groups that are made when an entry first belongs to them. Entries of further groups are counted together. */
export class Groups<Group> {
  readonly #groups = new Map<string, Group>()
  /** entries whose group was not made */
  left_out = 0

  constructor(private readonly most: number) {}

  /** Finds or makes a group; undefined if there are too many. */
  get(key: readonly (string | null)[], create: () => Group): Group | undefined {
    const name = JSON.stringify(key)
    const found = this.#groups.get(name)
    if (found) return found
    if (this.#groups.size >= this.most) {
      this.left_out += 1
      return undefined
    }
    const group = create()
    this.#groups.set(name, group)
    return group
  }

  all(): Group[] {
    return [...this.#groups.values()]
  }
}
