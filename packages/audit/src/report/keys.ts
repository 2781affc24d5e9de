/** The register of keys in a report: state, since when, by whom, rotations, exports, destruction. Pure. */
import { counted, listTexts } from '@eaas/protocol'
import { readMetadata } from '../formats/chain.js'
import { createStateReader } from '../verify/entry-times.js'
import type { KeyRights } from '../verify/rights-report.js'
import {
  countEntry,
  createFigure,
  EXPORTING,
  type Figure,
  type FilteredEntry,
  Groups,
  kindOf,
  OPENING,
  SEALING,
} from './figure.js'
import { type Columns, layOut, type Section } from './table.js'

const MOST_KEYS = 50_000
const DAY_MS = 86_400_000

type Deed = { id: number; created_at: string; actor: string }

interface KeyChanges {
  created?: Deed
  changed?: Deed
  rotated?: Deed
  destroyed?: Deed | undefined
  /** undefined if no entry that was read states it */
  interval_days?: number | null
}

/** The uses of a key as figures, whose commands list the entries. */
type KeyUses = { exported: Figure; opened: Figure; sealed: Figure }

interface RegisteredKey extends KeyChanges, KeyUses {
  key: KeyRights
  overdue: number | 'unknown' | null
}

const REGISTER: Columns<RegisteredKey> = [
  ['key', 'Key', 'id', ({ key }) => key.key_id],
  ['folder', 'Folder', 'text', ({ key }) => (key.folder === '' ? null : key.folder)],
  ['state', 'State', 'text', ({ key }) => key.status ?? 'unknown'],
  ['since', 'Since', 'time', ({ changed }) => changed?.created_at ?? null],
  ['by', 'By', 'id', ({ changed }) => changed?.actor ?? null],
  ['entry', 'Entry', 'entry', ({ changed, key }) => changed?.id ?? key.entry_id],
  ['version', 'Version', 'number', ({ key }) => key.version],
  ['rotated', 'Last rotated', 'time', ({ rotated }) => rotated?.created_at ?? null],
  ['rotation_entry', 'Entry', 'entry', ({ rotated }) => rotated?.id ?? null],
  ['interval_days', 'Interval, days', 'number', ({ interval_days: days }) => (days === undefined ? 'unknown' : days)],
  ['overdue_days', 'Overdue, days', 'number', ({ overdue }) => overdue],
  // Entries before those that were read may have exported an older key.
  ['exported', 'Exported', 'count', ({ created, exported }) => (created || exported.count > 0 ? exported : 'unknown')],
  ['destroyed', 'Destroyed', 'time', ({ destroyed }) => destroyed?.created_at ?? null],
  ['destruction_entry', 'Entry', 'entry', ({ destroyed }) => destroyed?.id ?? null],
  ['opened', 'Opened', 'count', ({ opened }) => opened],
  ['sealed', 'Sealed', 'count', ({ sealed }) => sealed],
]

/** Reads the history of keys up to the end of a period, and their uses within it. */
export function createKeysReader(period: { from: string; to: string }) {
  const { from, to } = period
  const changes = new Map<string, KeyChanges>()
  const uses = new Groups<KeyUses>(MOST_KEYS)

  function change(entry: FilteredEntry): void {
    const { key_id } = entry
    if (key_id === null) return
    const known = changes.get(key_id)
    // Most entries are uses, which change nothing.
    if (known ? kindOf(entry.action) === undefined : changes.size < MOST_KEYS)
      changes.set(key_id, { ...known, ...readChange(entry) })
  }

  function readUse(entry: FilteredEntry): void {
    const { key_id, action, created_at } = entry
    if (key_id === null) return
    // A key's first entry of any kind creates its group, so that the groups are those of the keys in the table.
    const found = uses.get([key_id], () => createUses(key_id, period))
    const kind = kindOf(action)
    if (!found || !kind || created_at >= to || (kind !== 'exported' && created_at < from)) return
    countEntry(found[kind], entry)
  }

  const history = createStateReader(to, { change, copy: () => new Map(changes) })

  return {
    read(entry: FilteredEntry): void {
      history.read(entry)
      readUse(entry)
    },
    /** `keys`: their state at the end of the period; `after_id`: the entry before the first one read, or 0 */
    section(keys: readonly KeyRights[], after_id: number): Section {
      const known = history.state()
      const registered = keys.slice(0, MOST_KEYS).map((key): RegisteredKey => {
        const { key_id } = key
        const used = uses.get([key_id], () => createUses(key_id, period)) ?? createUses(key_id, period)
        const changed = known.get(key_id) ?? {}
        return { key, ...changed, ...used, overdue: overdueDays(key, changed, to) }
      })
      return {
        id: 'keys',
        title: 'Register of keys',
        about: [
          `State of ${to}. Since: the entry after which the state is as it is; where the time is blank, the entry is the last one that states it. Overdue: the days since the last rotation exceed the interval that was set, of a key that is active.`,
          `${after_id === 0 ? 'Exports count from the beginning of the log.' : `Exports count from entry ${after_id + 1} on; earlier exports are not known.`} A copy opens what its versions sealed for ever, whatever became of the key. Opened and sealed count in the period.`,
        ],
        tables: [
          layOut(registered, {
            name: 'keys',
            title: 'Keys',
            columns: REGISTER,
            tonesOf: ({ exported, overdue }) => ({
              ...(exported.count > 0 && { exported: 'alarm' as const }),
              ...(typeof overdue === 'number' && { overdue_days: 'due' as const }),
            }),
            empty: after_id === 0 ? 'There is no key.' : `No entry from ${after_id + 1} on names a key until then.`,
            notes: listTexts(
              keys.length > MOST_KEYS &&
                `${counted(keys.length - MOST_KEYS, 'further key is', 'further keys are')} not in this table.`,
              after_id > 0 &&
                `Exports count from entry ${after_id + 1} on: a key that is older may have been exported before.`,
            ),
          }),
        ],
      }
    },
  }
}

function readChange(entry: FilteredEntry): KeyChanges {
  const { interval_days, step } = readMetadata(entry)
  const deed = { id: entry.id, created_at: entry.created_at, actor: entry.actor }
  switch (entry.action) {
    case 'key.create':
      return { created: deed, changed: deed, rotated: deed, interval_days: null }
    case 'key.rotate':
      return { rotated: deed }
    case 'key.enable':
    case 'key.disable':
      return { changed: deed }
    case 'key.destroy':
      if (step === 'version') return {}
      return step === 'completed'
        ? { changed: deed, destroyed: deed, interval_days: null }
        : { changed: deed, destroyed: undefined }
    default:
      return typeof interval_days === 'number' || interval_days === null ? { interval_days } : {}
  }
}

function createUses(key_id: string, { from, to }: { from: string; to: string }): KeyUses {
  return {
    exported: createFigure('Exported until the end of the period', { key_id, actions: EXPORTING, to }),
    opened: createFigure('Opened', { key_id, actions: OPENING, from, to }),
    sealed: createFigure('Sealed', { key_id, actions: SEALING, from, to }),
  }
}

/** By how many whole days the rotation of an active key is overdue; null if it is not. */
function overdueDays(
  { status }: KeyRights,
  { rotated, interval_days }: KeyChanges,
  at: string,
): number | 'unknown' | null {
  if (interval_days === null || (status !== 'active' && status !== null)) return null
  if (status === null || interval_days === undefined || !rotated) return 'unknown'
  const late = Math.floor((Date.parse(at) - Date.parse(rotated.created_at)) / DAY_MS - interval_days)
  return late > 0 ? late : null
}
