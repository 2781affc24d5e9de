/** Makes a report from a log: evidence, access, keys, rights, refusals, and the entries behind each figure. Pure. */
import { counted } from '@eaas/protocol'
import type { AcceptedLoss } from '../verify/accepted-rollbacks.js'
import { createTimesReader, type EntryTimes } from '../verify/entry-times.js'
import type { ExportedEntry } from '../verify/read-export.js'
import { createAccessReader } from './access.js'
import { createEvidence, type Evidence, type EvidenceSource, listUncovered } from './evidence.js'
import { EXPORTING, type Figure, OPENING, SEALING } from './figure.js'
import { createKeysReader } from './keys.js'
import { createRefusalsReader, REFUSED } from './refusals.js'
import { createRightsSectionReader } from './rights.js'
import { type Cell, type Columns, type Day, isFigure, layOut, type Section, type Table, withNames } from './table.js'

export interface Report {
  evidence: Evidence
  /** none if the export is not valid */
  sections: readonly Section[]
  /** all figures above 0 in the sections, in order: the number of a figure is its position, from 1 */
  figures: readonly Figure[]
  /** the entries that the sections name; `entries_left_out` counts those that they name but that were not kept */
  entries: readonly ExportedEntry[]
  entries_left_out: number
  /** names of the tenant, of keys and of API keys by id: from the log or, if it has none, as given */
  names: ReadonlyMap<string, string>
  isCovered: boolean
  losses: readonly AcceptedLoss[]
}

export interface ReportReader {
  /** Reads the next entry. Pass it to `verifyExport` as `onEntry`. */
  read(entry: ExportedEntry): void
  /** Makes the report after the last entry; only its verdict if the export is not valid. */
  report(source: Omit<EvidenceSource, keyof ReportPeriod | keyof EntryTimes>): Report
}

export interface ReportPeriod {
  from: string
  to: string
  /** the ends that the auditor did not give: the export's own, which it therefore covers */
  fromExport?: { from: boolean; to: boolean }
}

/** Creates a reader for a period: `from` counts and `to` does not. Times are RFC 3339 in UTC with milliseconds. */
export function createReportReader(period: ReportPeriod): ReportReader {
  const access = createAccessReader(period)
  const keys = createKeysReader(period)
  const rights = createRightsSectionReader(period)
  const refusals = createRefusalsReader(period)
  const cited = new CitedEntries(period)
  const times = createTimesReader(period)
  return {
    read(entry) {
      times.read(entry)
      access.read(entry)
      keys.read(entry)
      rights.read(entry)
      refusals.read(entry)
      cited.read(entry)
    },
    report(source) {
      const whole = { ...source, ...period, ...times.times(source.verdict) }
      const { valid, after_id = 0 } = source.verdict
      const sections = valid
        ? [access.section(), keys.section(rights.keys(), after_id), rights.section(after_id), refusals.section()]
        : []
      const named = [...new Set(sections.flatMap(listCited))].sort((a, b) => a - b)
      const entries = named.flatMap((id) => cited.find(id) ?? [])
      return {
        evidence: createEvidence(whole),
        sections,
        figures: [...new Set(sections.flatMap(listFigures))],
        names: new Map([...source.names, ...(valid ? rights.names() : [])]),
        entries,
        entries_left_out: named.length - entries.length,
        losses: valid ? whole.losses : [],
        isCovered: valid && listUncovered(whole).length === 0,
      }
    },
  }
}

/** Lists the notes under a report's tables, such as how many rows a table leaves out. */
export function listNotes({ sections, entries_left_out }: Report): { table: string; text: string }[] {
  const left = `${counted(entries_left_out, 'further entry that the tables name is', 'further entries that the tables name are')} not here: the command entries lists all.`
  return [
    ...sections.flatMap(({ tables }) =>
      tables.flatMap(({ name, notes = [] }) => notes.map((text) => ({ table: name, text }))),
    ),
    ...(entries_left_out > 0 ? [{ table: 'entries', text: left }] : []),
  ]
}

/** Lists all tables of a report for CSV: those of the sections, the facts of the evidence, and the days. */
export function listTables(report: Report): Table[] {
  const { evidence, sections, names } = report
  const facts = [
    { name: 'verdict', text: evidence.verdict },
    ...evidence.facts,
    ...evidence.not_proven.map((text) => ({ name: 'not proven', text })),
    ...listNotes(report).map(({ table, text }) => ({ name: `note on ${table}`, text })),
  ]
  const days = sections.flatMap(({ days = [] }) => days)
  const hours = Array.from({ length: 24 }, (_, hour) => String(hour).padStart(2, '0'))
  return [
    layOut(facts, {
      name: 'evidence',
      title: 'Evidence',
      columns: [
        ['fact', 'Fact', 'text', ({ name }) => name],
        ['text', 'Text', 'text', ({ text }) => text],
      ],
      empty: '',
    }),
    ...sections.flatMap(({ tables }) => tables.map((table) => withNames(table, names))),
    layOut(days, {
      name: 'days',
      title: 'Opened by day and hour',
      columns: [
        ['day', 'Day', 'text', ({ day }) => day],
        ['opened', 'Opened', 'number', ({ opened }) => opened],
        ['exported', 'Exported', 'number', ({ exported }) => exported],
        ...hours.map((hour, at): Columns<Day>[number] => [hour, hour, 'number', ({ hours }) => hours[at] ?? 0]),
      ],
      empty: '',
    }),
  ]
}

function listFigures({ tables, days = [] }: Section): Figure[] {
  const shown = tables.flatMap(({ rows }) => rows.flatMap(({ cells }) => cells.filter(isFigure)))
  return [...days.map(({ figure }) => figure), ...shown].filter(({ count }) => count > 0)
}

function listCited({ tables }: Section): number[] {
  return tables.flatMap(({ columns, rows }) =>
    rows.flatMap(({ cells }) =>
      cells.filter((cell: Cell, at): cell is number => {
        const kind = columns[at]?.kind
        return typeof cell === 'number' && (kind === 'entry' || kind === 'mark')
      }),
    ),
  )
}

/** How many entries of an action are kept, separately for the period and for other times. */
const MOST_OF_KIND = 50_000
/** Only counted, since no table cites them. */
const COUNTED: readonly string[] = [...OPENING, ...SEALING, ...REFUSED]
/** Cited only if they are in the period, since they set no state. */
const STATELESS: readonly string[] = EXPORTING

/** The entries that tables cite by id, kept while the log is read. */
class CitedEntries {
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
