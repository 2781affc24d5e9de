/** A number in a report, and the filter for the entries that it counts, as `eaas-audit entries` takes it. Pure. */
import { formsOfUser, quoteWord } from '@eaas/protocol'
import { type AuditEntry, readMetadata } from '../formats/chain.js'

/** The fields of an entry that a filter reads. An export may hold actions that this version does not know. */
export type FilteredEntry = Pick<AuditEntry, 'id' | 'key_id' | 'actor' | 'metadata' | 'created_at'> & {
  action: string
  ip_address?: string | null
}

/** All given conditions must hold. */
export interface EntryFilter {
  key_id?: string | undefined
  /** the id of an API key, or `system` */
  actor?: string | undefined
  /** the end user that the application named; null for entries without one */
  user?: string | null | undefined
  actions?: readonly string[] | undefined
  /** from this time on: RFC 3339, UTC, milliseconds */
  from?: string | undefined
  /** before this time */
  to?: string | undefined
  /** members of the metadata as `name=value`; for context that a call stated, `context.<name>=value` */
  told?: readonly string[] | undefined
  /** null for entries without an address */
  address?: string | null | undefined
}

/** The actions that hand out a data key or decrypt a value. */
export const OPENING = ['key.unwrap', 'decrypt'] as const
export const SEALING = ['key.wrap', 'encrypt'] as const
export const EXPORTING = ['key.export'] as const

/** Tells which use of a key an action is; undefined for other actions. */
export function kindOf(action: string): 'opened' | 'sealed' | 'exported' | undefined {
  if ((OPENING as readonly string[]).includes(action)) return 'opened'
  if ((SEALING as readonly string[]).includes(action)) return 'sealed'
  return (EXPORTING as readonly string[]).includes(action) ? 'exported' : undefined
}

export function matchesFilter(filter: EntryFilter, entry: FilteredEntry): boolean {
  const { key_id, actor, actions, from, to, user, address, told: pairs = [] } = filter
  if (from !== undefined && entry.created_at < from) return false
  if (to !== undefined && entry.created_at >= to) return false
  if (key_id !== undefined && entry.key_id !== key_id) return false
  if (actor !== undefined && entry.actor !== actor) return false
  if (actions !== undefined && !actions.includes(entry.action)) return false
  if (address !== undefined && (entry.ip_address ?? null) !== address) return false
  if (user === undefined && pairs.length === 0) return true
  const told = readMetadata(entry)
  if (user !== undefined && !isUser(findUser(told), user)) return false
  return pairs.every((pair) => {
    const at = pair.indexOf('=')
    const name = pair.slice(0, at)
    return Object.hasOwn(told, name) && String(told[name]) === pair.slice(at + 1)
  })
}

function isUser(recorded: string | null, user: string | null): boolean {
  return recorded === user || (recorded !== null && user !== null && formsOfUser(user).includes(recorded))
}

/** Finds the end user whom an entry's metadata names; null if it names none. */
export function findUser(told: Readonly<Record<string, unknown>>): string | null {
  return typeof told.on_behalf_of === 'string' ? told.on_behalf_of : null
}

/** Writes a filter as options of `eaas-audit entries`, quoted for a shell. */
export function filterOptions(filter: EntryFilter): string {
  const { key_id, actor, user, actions = [], from, to, told = [], address } = filter
  const options: [name: string, value: string | undefined][] = [
    ['--key', key_id],
    ['--api-key', actor],
    ['--user', user ?? undefined],
    ...actions.map((action): [string, string] => ['--action', action]),
    ['--address', address === null ? NO_ADDRESS : address],
    ...told.map((pair): [string, string] => ['--metadata', pair]),
    ['--from', from],
    ['--to', to],
  ]
  const given = options.flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${quoteWord(value)}`]))
  return [...(user === null ? ['--without-user'] : []), ...given].join(' ')
}

/** The value of `--address` that stands for entries without one. */
export const NO_ADDRESS = 'none'

/** How many entries a figure lists by id; its command lists all. */
const NAMED_ENTRIES = 20

export interface Figure {
  title: string
  /** which entries are counted, as options of the command that lists them */
  filter: EntryFilter
  count: number
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

/** Groups that are created by their first entry. Once there are too many, entries of further groups are counted together. */
export class Groups<Group> {
  readonly #groups = new Map<string, Group>()
  /** entries whose groups were not created */
  left_out = 0

  constructor(private readonly most: number) {}

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
