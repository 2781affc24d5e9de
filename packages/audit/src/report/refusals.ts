/** The section of a report about refusals, and entries that stand out. Pure. */
import { counted, listTexts } from '@eaas/protocol'
import { readMetadata } from '../formats/chain.js'
import { within } from './access.js'
import { countEntry, createFigure, type Figure, type FilteredEntry, Groups } from './figure.js'
import { layOut, type Section } from './table.js'

const MOST_GROUPS = 5_000
const MOST_NOTABLE = 1_000

export const REFUSED = ['envelope_only.refused', 'budget.refused']
/** The members of a refusal's metadata that say why. */
const EXPLAINING = ['operation', 'window', 'limit']

type Refused = { day: string; reason: string; actor: string; address: string | null; figure: Figure }

type Notable = { entry: FilteredEntry; why: string; isAlarm: boolean }

export function createRefusalsReader(period: { from: string; to: string }) {
  const groups = new Groups<Refused>(MOST_GROUPS)
  const notable: Notable[] = []
  let left = 0

  function readRefusal(entry: FilteredEntry): void {
    const { action, actor, ip_address: address = null, created_at } = entry
    const day = created_at.slice(0, 10)
    const reason = explainRefusal(entry)
    const told = Object.entries(readMetadata(entry)).flatMap(([name, value]) =>
      EXPLAINING.includes(name) ? [`${name}=${String(value)}`] : [],
    )
    const filter = { actor, actions: [action], address, told, ...within(day, period) }
    const group = groups.get([day, reason, actor, address], () => ({
      day,
      reason,
      actor,
      address,
      figure: createFigure(`Refused on ${day}: ${reason}`, filter),
    }))
    if (group) countEntry(group.figure, entry)
  }

  return {
    read(entry: FilteredEntry): void {
      if (entry.created_at < period.from || entry.created_at >= period.to) return
      if (REFUSED.includes(entry.action)) readRefusal(entry)
      const found = findNotable(entry)
      if (!found) return
      if (notable.length < MOST_NOTABLE) notable.push({ entry, ...found })
      else left += 1
    },
    section: (): Section => ({
      id: 'refusals',
      title: 'Refusals, and what stands out',
      about: [
        'The log has two refusals: a call in server mode while that is closed, and the first call of an API key over its budget in a minute or a day. Calls with an unknown or expired API key, or without the permission, leave no entry: the server counts and logs them outside of this log.',
        'What stands out: copies of keys that left the server, destructions, rights to manage API keys or to export keys, server mode opened, use that doubled, and what an operator did to the log itself.',
      ],
      tables: [
        layOut(groups.all(), {
          name: 'refusals',
          title: 'Refusals',
          columns: [
            ['day', 'Day', 'text', ({ day }) => day],
            ['reason', 'Reason', 'text', ({ reason }) => reason],
            ['api_key', 'API key', 'id', ({ actor }) => actor],
            ['address', 'Address', 'text', ({ address }) => address],
            ['refused', 'Refused', 'count', ({ figure }) => figure],
          ],
          tonesOf: () => ({ refused: 'alarm' }),
          empty: 'No call was refused on record in the period.',
          notes: listTexts(
            groups.left_out > 0 &&
              `${counted(groups.left_out, 'further refusal is', 'further refusals are')} not in this table: the command entries lists all.`,
          ),
        }),
        layOut(notable, {
          name: 'notable',
          title: 'What stands out',
          columns: [
            ['time', 'Time', 'time', ({ entry }) => entry.created_at],
            ['action', 'Action', 'text', ({ entry }) => entry.action],
            ['why', 'What', 'text', ({ why }) => why],
            ['key', 'Key', 'id', ({ entry }) => entry.key_id],
            ['by', 'By', 'id', ({ entry }) => entry.actor],
            ['entry', 'Entry', 'entry', ({ entry }) => entry.id],
          ],
          tonesOf: ({ isAlarm }) => (isAlarm ? { why: 'alarm' } : {}),
          empty: 'Nothing in the period stands out by these rules.',
          notes: listTexts(
            left > 0 &&
              `${counted(left, 'further entry stands out, and is', 'further entries stand out, and are')} not in this table.`,
          ),
        }),
      ],
    }),
  }
}

function explainRefusal(entry: FilteredEntry): string {
  const { operation, window, limit } = readMetadata(entry)
  if (entry.action === 'envelope_only.refused') return `server mode is closed: ${String(operation ?? 'a call')}`
  return `over the budget: ${String(operation)}, ${String(limit)} a ${String(window)}`
}

/** Permissions that let an API key extend its own reach. */
const STRONG = ['api_keys:manage', 'keys:export']

function findNotable(entry: FilteredEntry): Omit<Notable, 'entry'> | undefined {
  const told = readMetadata(entry)
  const text = (value: unknown) => String(value ?? 'unknown')
  switch (entry.action) {
    case 'key.export':
      return { why: 'the secrets of a key left the server', isAlarm: true }
    case 'key.destroy':
      return { why: describeDestruction(told), isAlarm: told.step === 'completed' || told.step === 'version' }
    case 'usage.doubled':
      return {
        why: `API key ${text(told.api_key_id)}: ${text(told.count)} ${text(told.operation)} on this day, median ${text(told.median)}`,
        isAlarm: true,
      }
    case 'api_key.create':
    case 'api_key.update': {
      const strong = text(told.permissions)
        .split(' ')
        .filter((name) => STRONG.includes(name))
      return strong.length === 0
        ? undefined
        : { why: `API key ${text(told.api_key_id)} has ${strong.join(' and ')}`, isAlarm: false }
    }
    case 'tenant.update':
      if (told.envelope_only === false && told.envelope_only_before === true)
        return { why: 'server mode was opened: the server sees plaintext', isAlarm: true }
      return { why: `the tenant is ${text(told.status)}`, isAlarm: false }
    case 'audit.purge':
      return { why: `entries through ${text(told.purged_through)} were purged`, isAlarm: false }
    case 'audit.rollback_accepted':
      return { why: `an operator accepted that the log lost entries: ${text(told.reason)}`, isAlarm: true }
    case 'audit.clock_accepted':
      return { why: `an operator accepted that a clock was ahead: ${text(told.reason)}`, isAlarm: true }
    case 'audit.key_renew':
      return { why: 'the audit key was replaced', isAlarm: false }
    default:
      return undefined
  }
}

function describeDestruction({ step, version }: Record<string, unknown>): string {
  switch (step) {
    case 'scheduled':
      return 'the destruction of a key was scheduled'
    case 'cancelled':
      return 'the destruction of a key was cancelled'
    case 'version':
      return `version ${String(version)} of a key was destroyed`
    default:
      return 'a key was destroyed'
  }
}
