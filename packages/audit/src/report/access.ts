/** The section of a report that says who opened what: by end user and API key, by key, by day and hour. Pure. */
import { listTexts } from '@eaas/protocol'
import { readMetadata } from '../formats/chain.js'
import {
  countEntry,
  createFigure,
  type EntryFilter,
  EXPORTING,
  type Figure,
  type FilteredEntry,
  findUser,
  Groups,
  kindOf,
  OPENING,
  SEALING,
} from './figure.js'
import { type Columns, type Day, layOut, type Row, type Section } from './table.js'

const MOST_GROUPS = 10_000
/** How many days are counted, for all persons together. */
const MOST_PERSON_DAYS = 200_000
const DAY_MS = 86_400_000
/** A day is a spike if its openings exceed the median of at least this many days with openings, by at least this many. */
const SPIKE_DAYS = 5
const SPIKE_LEAST = 10

const SPIKE_RULE = `A spike is a day on which an end user by an API key opened more than twice the median of their days with openings in the period, and at least ${SPIKE_LEAST} more than it. Of whom fewer than ${SPIKE_DAYS} such days are known, no day is called a spike.`

type Counted = { opened: Figure; sealed: Figure; exported: Figure }

interface Use extends Counted {
  user: string | null
  actor: string
}

interface Person extends Use {
  days: Map<string, Figure>
}

interface KeyUse extends Use {
  key_id: string
}

type DayUse = { opened: Figure; exported: number; hours: number[] }

const USE: Columns<Use> = [
  ['user', 'End user', 'user', ({ user }) => user],
  ['api_key', 'API key', 'id', ({ actor }) => actor],
  ['opened', 'Opened', 'count', ({ opened }) => opened],
  ['sealed', 'Sealed', 'count', ({ sealed }) => sealed],
  ['exported', 'Exported', 'count', ({ exported }) => exported],
]
const LAST_OPENED: Columns<Use> = [
  ['last_opened', 'Last opened', 'time', ({ opened }) => opened.last?.created_at ?? null],
]

export function createAccessReader(period: { from: string; to: string }) {
  const persons = new Groups<Person>(MOST_GROUPS)
  const uses = new Groups<KeyUse>(MOST_GROUPS)
  const days = new Map<string, DayUse>()
  let personDays = 0
  let uncountedDays = 0

  function readDay(entry: FilteredEntry): void {
    const day = entry.created_at.slice(0, 10)
    const found = days.get(day) ?? createDay(day, period)
    days.set(day, found)
    if (entry.action === 'key.export') {
      found.exported += 1
      return
    }
    countEntry(found.opened, entry)
    const hour = Number(entry.created_at.slice(11, 13))
    found.hours[hour] = (found.hours[hour] ?? 0) + 1
  }

  function readPersonDay(person: Person | undefined, entry: FilteredEntry): void {
    const figure = person && findPersonDay(person, entry.created_at.slice(0, 10))
    if (figure) countEntry(figure, entry)
    else uncountedDays += 1
  }

  function findPersonDay({ user, actor, days }: Person, day: string): Figure | undefined {
    const found = days.get(day)
    if (found || personDays >= MOST_PERSON_DAYS) return found
    personDays += 1
    const figure = createFigure(`Opened on ${day}`, { user, actor, actions: OPENING, ...within(day, period) })
    days.set(day, figure)
    return figure
  }

  return {
    read(entry: FilteredEntry): void {
      const { created_at, action, key_id, actor } = entry
      if (created_at < period.from || created_at >= period.to || key_id === null) return
      const kind = kindOf(action)
      if (!kind) return
      if (kind !== 'sealed') readDay(entry)
      const user = findUser(readMetadata(entry))
      const by = { user, actor }
      const person = persons.get([user, actor], () => ({
        ...by,
        days: new Map(),
        ...createCounted({ ...by, ...period }),
      }))
      const use = uses.get([key_id, user, actor], () => ({
        ...{ key_id, ...by, ...createCounted({ key_id, ...by, ...period }) },
      }))
      if (person) countEntry(person[kind], entry)
      if (use) countEntry(use[kind], entry)
      if (kind === 'opened') readPersonDay(person, entry)
    },
    section(): Section {
      const spikes = persons
        .all()
        .flatMap(findSpikes)
        .sort((a, b) => (a.day < b.day ? -1 : 1))
      const spikeDays = new Set(spikes.map(({ day }) => day))
      const left = ({ left_out }: Groups<unknown>) =>
        listTexts(
          left_out > 0 &&
            `The table has the first ${MOST_GROUPS}. Entries of further ones, which it leaves out: ${left_out}.`,
        )
      return {
        id: 'access',
        title: 'Who opened what',
        about: [
          'Opened: a data key was unwrapped, or a value was decrypted by the server. Sealed: wrapped or encrypted. Exported: the secrets of a key left the server, which opens all that its versions sealed, without any further entry.',
          'An entry is not a record: where rows share a data key, one entry can open all of them; where a program keeps a data key for a while, it opens more without a further entry.',
          SPIKE_RULE,
        ],
        // Sorted, because times go back where an operator accepted that a clock was ahead.
        days: [...days.entries()]
          .sort(([one], [other]) => (one < other ? -1 : 1))
          .map(
            ([day, { opened, exported, hours }]): Day => ({
              ...{ day, opened: opened.count, exported, hours, figure: opened, isSpike: spikeDays.has(day) },
            }),
          ),
        tables: [
          layOut(sorted(persons.all()), {
            name: 'access-by-person',
            title: 'By end user and API key',
            columns: [
              ...USE,
              ['first_opened', 'First opened', 'time', ({ opened }) => opened.first?.created_at ?? null],
              ...LAST_OPENED,
            ],
            tonesOf,
            empty: 'Nobody used a key in the period.',
            notes: left(persons),
          }),
          layOut(byKey(uses.all()), {
            name: 'access-by-key',
            title: 'By key',
            columns: [['key', 'Key', 'id', ({ key_id }) => key_id], ...USE, ...LAST_OPENED],
            tonesOf,
            empty: 'No key was used in the period.',
            notes: left(uses),
          }),
          layOut(spikes, {
            name: 'spikes',
            title: 'Spikes',
            columns: [
              ['day', 'Day', 'text', ({ day }) => day],
              ['user', 'End user', 'user', ({ person }) => person.user],
              ['api_key', 'API key', 'id', ({ person }) => person.actor],
              ['opened', 'Opened', 'count', ({ figure }) => figure],
              ['median', 'Median', 'number', ({ median }) => median],
            ],
            tonesOf: () => ({ opened: 'due' }),
            empty: `No day ${uncountedDays === 0 ? 'in the period' : 'that was counted'} was a spike by this rule.`,
            notes: listTexts(
              uncountedDays > 0 &&
                `Not counted by day: ${uncountedDays} of the entries, because there are too many end users and days: a spike among them is missing. A shorter period may have fewer.`,
            ),
          }),
        ],
      }
    },
  }
}

function createCounted(filter: EntryFilter): Counted {
  return {
    opened: createFigure('Opened', { ...filter, actions: OPENING }),
    sealed: createFigure('Sealed', { ...filter, actions: SEALING }),
    exported: createFigure('Exported', { ...filter, actions: EXPORTING }),
  }
}

function createDay(day: string, period: { from: string; to: string }): DayUse {
  const opened = createFigure(`Opened on ${day}`, { actions: OPENING, ...within(day, period) })
  return { opened, exported: 0, hours: new Array<number>(24).fill(0) }
}

/** The part of a day that is in the period. */
export function within(day: string, { from, to }: { from: string; to: string }): { from: string; to: string } {
  const begin = `${day}T00:00:00.000Z`
  const end = new Date(Date.parse(begin) + DAY_MS).toISOString()
  return { from: begin > from ? begin : from, to: end < to ? end : to }
}

function findSpikes(person: Person): { day: string; person: Person; figure: Figure; median: number }[] {
  const counts = [...person.days.values()].map(({ count }) => count).sort((a, b) => a - b)
  if (counts.length < SPIKE_DAYS) return []
  const middle = counts.length >> 1
  const median =
    counts.length % 2 === 1 ? (counts[middle] ?? 0) : ((counts[middle - 1] ?? 0) + (counts[middle] ?? 0)) / 2
  return [...person.days]
    .filter(([, { count }]) => count > 2 * median && count >= median + SPIKE_LEAST)
    .map(([day, figure]) => ({ day, person, figure, median }))
}

function tonesOf({ exported }: Counted): NonNullable<Row['tones']> {
  return exported.count > 0 ? { exported: 'alarm' } : {}
}

function sorted<Group extends Counted>(groups: readonly Group[]): Group[] {
  return groups.toSorted((a, b) => b.exported.count - a.exported.count || b.opened.count - a.opened.count)
}

/** Groups by key, with the most opened key first; sorts within a key as `sorted` does. */
function byKey(uses: readonly KeyUse[]): KeyUse[] {
  const totals = new Map<string, number>()
  for (const { key_id, opened } of uses) totals.set(key_id, (totals.get(key_id) ?? 0) + opened.count)
  const total = ({ key_id }: KeyUse) => totals.get(key_id) ?? 0
  return sorted(uses).sort((a, b) => total(b) - total(a) || (a.key_id === b.key_id ? 0 : a.key_id < b.key_id ? -1 : 1))
}
