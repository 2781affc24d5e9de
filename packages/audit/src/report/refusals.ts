/** The report's section about refusals and entries that stand out. Pure. */
import { counted, listTexts } from '@eaas/protocol'
import { readMetadata } from '../formats/chain.js'
import { within } from './access.js'
import { countEntry, createFigure, type Figure, type FilteredEntry, Groups } from './figure.js'
import { layOut, type Section } from './table.js'

const MOST_GROUPS = 5_000
const MOST_NOTABLE = 1_000

export const REFUSED = ['envelope_only.refused', 'budget.refused']
/** The members of a refusal's metadata that give the reason. */
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

type Told = Readonly<Record<string, unknown>>
type Found = Omit<Notable, 'entry'>

const alarm = (why: string): Found => ({ why, isAlarm: true })
const note = (why: string): Found => ({ why, isAlarm: false })
const textOf = (value: unknown) => String(value ?? 'unknown')

const NOTABLE: Readonly<Record<string, (told: Told) => Found | undefined>> = {
  'key.export': () => alarm('the secrets of a key left the server'),
  'key.destroy': describeDestruction,
  'usage.doubled': ({ api_key_id, count, operation, median }) =>
    alarm(`API key ${textOf(api_key_id)}: ${textOf(count)} ${textOf(operation)} on this day, median ${textOf(median)}`),
  'api_key.create': findStrong,
  'api_key.update': findStrong,
  'tenant.update': ({ envelope_only, envelope_only_before, status }) =>
    envelope_only === false && envelope_only_before === true
      ? alarm('server mode was opened: the server sees plaintext')
      : note(`the tenant is ${textOf(status)}`),
  'audit.purge': ({ purged_through }) => note(`entries through ${textOf(purged_through)} were purged`),
  'audit.rollback_accepted': ({ reason }) => alarm(`an operator accepted that the log lost entries: ${textOf(reason)}`),
  'audit.clock_accepted': ({ reason }) => alarm(`an operator accepted that a clock was ahead: ${textOf(reason)}`),
  'audit.key_renew': () => note('the audit key was replaced'),
}

function findNotable(entry: FilteredEntry): Found | undefined {
  return Object.hasOwn(NOTABLE, entry.action) ? NOTABLE[entry.action]?.(readMetadata(entry)) : undefined
}

function findStrong({ api_key_id, permissions }: Told): Found | undefined {
  const granted = textOf(permissions).split(' ')
  const strong = granted.filter((name) => STRONG.includes(name))
  return strong.length === 0 ? undefined : note(`API key ${textOf(api_key_id)} has ${strong.join(' and ')}`)
}

function describeDestruction({ step, version }: Told): Found {
  if (step === 'scheduled' || step === 'cancelled') return note(`the destruction of a key was ${step}`)
  if (step === 'version') return alarm(`version ${String(version)} of a key was destroyed`)
  return { why: 'a key was destroyed', isAlarm: step === 'completed' }
}
