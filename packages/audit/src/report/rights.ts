/** The report's section about what each API key could do at the end of a period, and what changed in it. Pure. */
import { BUDGET_KINDS, PERMISSIONS, type Permission } from '@eaas/protocol'
import { readMetadata } from '../formats/chain.js'
import { createStateReader } from '../verify/entry-times.js'
import { type ApiKeyRights, createRightsReader, type KeyRights } from '../verify/rights-report.js'
import type { FilteredEntry } from './figure.js'
import { type Cell, type Columns, layOut, type Section } from './table.js'

export interface RightsSectionReader {
  read(entry: FilteredEntry & { key_version: number | null }): void
  /** @param after_id the entry before the first one read; 0 if the log was read from its beginning */
  section(after_id: number): Section
  keys(): KeyRights[]
  /** the names of keys and API keys at the end of the period, by id */
  names(): Map<string, string>
}

const API_KEY: Columns<ApiKeyRights>[number] = ['api_key', 'API key', 'id', ({ api_key_id }) => api_key_id]
const LIMITS: Columns<ApiKeyRights> = [
  ['keys', 'Keys', 'text', ifKnown(({ keys }) => (keys === null ? 'all' : keys.join(' ') || 'none'))],
  ['budgets', 'Budgets', 'text', ifKnown(describeBudgets)],
  ['expires', 'Expires', 'text', ifKnown(({ expires_at }) => expires_at ?? 'never')],
  ['addresses', 'Addresses', 'text', ifKnown(describeAddresses)],
]
/** What a change of an API key can affect, as comparable texts. */
const ASPECTS: readonly (readonly [name: string, of: (apiKey: ApiKeyRights) => Cell])[] = [
  ['name', ({ name }) => name ?? 'unknown'],
  ['state', ({ status }) => status ?? 'unknown'],
  ...LIMITS.map(([name, , , of]) => [name, of] as const),
]

/** Reads the rights at both ends of a period. */
export function createRightsSectionReader({ from, to }: { from: string; to: string }): RightsSectionReader {
  const before = createRightsReader(from)
  const after = createRightsReader(to)
  /** by API key and permission: the entry since which the API key has had it without interruption */
  const since = new Map<string, ReadonlyMap<string, number>>()
  /** the API keys whose `api_key.create` was read; others are older than the part of the log that was read */
  const created = new Set<string>()

  function change(entry: FilteredEntry): void {
    if (!entry.action.startsWith('api_key.')) return
    const { api_key_id, permissions } = readMetadata(entry)
    if (entry.action === 'api_key.create') created.add(String(api_key_id))
    if (typeof api_key_id !== 'string' || typeof permissions !== 'string') return
    const held = since.get(api_key_id)
    const granted = permissions.split(' ').filter((name) => name !== '')
    since.set(api_key_id, new Map(granted.map((name) => [name, held?.get(name) ?? entry.id])))
  }

  const grants = createStateReader(to, { change, copy: () => new Map(since) })

  return {
    read(entry) {
      before.read(entry)
      after.read(entry)
      grants.read(entry)
    },
    keys: () => after.state().keys,
    names() {
      const { keys, api_keys } = after.state()
      const named = [
        ...keys.map(({ key_id, name }) => [key_id, name]),
        ...api_keys.map((one) => [one.api_key_id, one.name]),
      ]
      return new Map(named.filter((pair): pair is [string, string] => pair[1] !== null))
    },
    section(after_id) {
      const first = after_id + 1
      const none = after_id === 0 ? 'There was no API key.' : `No entry from ${first} on names an API key until then.`
      const [earlier, later] = [before.state(), after.state()]
      const granted = grants.state()
      const known = new Map(earlier.api_keys.map((apiKey) => [apiKey.api_key_id, apiKey]))
      const changes = later.api_keys.flatMap((apiKey) => {
        const was = known.get(apiKey.api_key_id)
        return was ? differences(was, apiKey) : [firstKnown(apiKey, created.has(apiKey.api_key_id))]
      })
      return {
        id: 'rights',
        title: 'Rights',
        about: [
          `Which API key could do what at ${to}${from === to ? '' : `, and how that differs from ${from}`}. Each cell of the table names the entry by which the API key has the permission, or the first that is left which states it; an API key that is revoked or expired can do nothing. encrypt includes wrap and hash, decrypt includes unwrap.`,
          `The tenant was ${later.tenant.status ?? 'in an unknown state'}; server mode was ${describeMode(later.tenant.envelope_only)}.`,
        ],
        tables: [
          layOut(later.api_keys, {
            name: 'rights',
            title: `Permissions at ${to}`,
            columns: [
              API_KEY,
              ['state', 'State', 'text', ({ status }) => status ?? 'unknown'],
              ...PERMISSIONS.map((name): Columns<ApiKeyRights>[number] => [name, name, 'mark', markOf(name, granted)]),
            ],
            empty: none,
          }),
          layOut(later.api_keys, {
            name: 'limits',
            title: `Limits at ${to}`,
            columns: [API_KEY, ...LIMITS, ['entry', 'Entry', 'entry', ({ entry_id }) => entry_id]],
            empty: none,
          }),
          layOut(changes, {
            name: 'rights-changes',
            title: `Differences between ${from} and ${to}`,
            columns: [
              ['api_key', 'API key', 'id', ([id]) => id],
              ['what', 'What', 'text', ([, what]) => what],
              ['before', 'Before', 'text', ([, , was]) => was],
              ['after', 'After', 'text', ([, , , is]) => is],
              ['entry', 'Entry', 'entry', ([, , , , entry]) => entry],
            ],
            empty:
              after_id === 0
                ? 'No API key had other rights at the end than at the beginning.'
                : `The entries from ${first} on show no difference.`,
            notes: [
              'What was granted and taken back in between is not a difference: the annex and the command entries have it.',
            ],
          }),
        ],
      }
    },
  }
}

function markOf(name: Permission, granted: ReadonlyMap<string, ReadonlyMap<string, number>>) {
  return ({ api_key_id, permissions, entry_id }: ApiKeyRights): Cell => {
    if (permissions === null) return 'unknown'
    return permissions.includes(name) ? (granted.get(api_key_id)?.get(name) ?? entry_id) : null
  }
}

type Difference = readonly [api_key_id: string, what: string, before: Cell, after: Cell, entry_id: Cell]

/** Describes an API key that no entry before the period names. */
function firstKnown({ api_key_id, status, permissions, entry_id }: ApiKeyRights, isCreated: boolean): Difference {
  const is = `${status ?? 'unknown'}, ${permissions?.join(' ') ?? 'unknown'}`
  const [what, was] = isCreated ? ['created', 'did not exist'] : ['what is known', 'unknown']
  return [api_key_id, what, was, is, entry_id]
}

function differences(before: ApiKeyRights, after: ApiKeyRights): Difference[] {
  const { api_key_id, entry_id } = after
  const row = (what: string, was: Cell, is: Cell): Difference => [api_key_id, what, was, is, entry_id]
  const had = before.permissions
  const has = after.permissions
  const gained = had && has ? has.filter((name) => !had.includes(name)) : []
  const lost = had && has ? had.filter((name) => !has.includes(name)) : []
  return [
    ...(had === null && has !== null ? [row('permissions', 'unknown', has.join(' ') || 'none')] : []),
    ...(gained.length > 0 ? [row('permissions gained', 'no', gained.join(' '))] : []),
    ...(lost.length > 0 ? [row('permissions lost', lost.join(' '), 'no')] : []),
    ...ASPECTS.flatMap(([name, describe]) => {
      const [was, is] = [describe(before), describe(after)]
      return was === is ? [] : [row(name, was, is)]
    }),
  ]
}

function ifKnown(describe: (apiKey: ApiKeyRights) => string): (apiKey: ApiKeyRights) => string {
  return (apiKey) => (apiKey.permissions === null ? 'unknown' : describe(apiKey))
}

export function describeBudgets({ budgets }: ApiKeyRights): string {
  const limits = BUDGET_KINDS.flatMap((kind) => {
    const { per_minute, per_day } = budgets?.[kind] ?? {}
    const [minute, day] = [per_minute && `${per_minute} a minute`, per_day && `${per_day} a day`]
    return minute || day ? [`${kind} ${[minute, day].filter(Boolean).join(' and ')}`] : []
  })
  return [...limits, ...(budgets?.when_over === 'expire' ? ['then expires'] : [])].join(', ') || 'none'
}

export function describeAddresses({ allowed_ips }: ApiKeyRights): string {
  if (allowed_ips === null) return 'any'
  return Array.isArray(allowed_ips) ? allowed_ips.join(' ') : `${allowed_ips.count}, SHA-256 ${allowed_ips.sha256}`
}

function describeMode(envelope_only: boolean | null): string {
  if (envelope_only === null) return 'open or closed, which is unknown'
  return envelope_only ? 'closed (envelope-only)' : 'open'
}
