// What the bench found: rows against their bars, tables, and series for the plots; as text and as JSON.
import { mkdirSync, writeFileSync } from 'node:fs'
import type { Spread } from './rounds.js'

/** A row of the table of bars. */
export interface BarRow {
  what: string
  against: string
  /** what was measured: a ratio, or a value with its unit */
  measured: Spread
  unit?: string
  atLeast?: number
  atMost?: number
  note?: string
  /** where several were measured */
  node?: string
}

export interface Table {
  title: string
  columns: string[]
  rows: string[][]
  note?: string
}

/** One plot: lines over a common x axis. */
export interface Plot {
  file: string
  title: string
  x: { label: string; log?: boolean }
  y: { label: string; log?: boolean }
  lines: { name: string; points: [number, number][] }[]
}

export interface Findings {
  bars: BarRow[]
  tables: Table[]
  plots: Plot[]
}

/** Makes one of what several Nodes gave: what corresponds stands together. The plots are those of the first. */
export function joinFindings(nodes: readonly string[], all: readonly Findings[]): Findings {
  const [first] = all
  if (!first || all.length === 1) return first ?? { bars: [], tables: [], plots: [] }
  const zip = <T, R>(lists: readonly (readonly T[])[], at: (item: T, node: string) => R): R[] =>
    (lists[0] ?? []).flatMap((_, row) =>
      lists.flatMap((list, node) => list.slice(row, row + 1).map((item) => at(item, nodes[node] ?? ''))),
    )
  return {
    bars: zip(
      all.map(({ bars }) => bars),
      (bar, node) => ({ ...bar, node }),
    ),
    tables: first.tables.map((table, index) => ({
      ...table,
      columns: ['Node', ...table.columns],
      rows: zip(
        all.map(({ tables }) => tables[index]?.rows ?? []),
        (row, node) => [node, ...row],
      ),
    })),
    plots: first.plots,
  }
}

export function isMet({ measured, atLeast, atMost }: BarRow): boolean {
  return (atLeast === undefined || measured.median >= atLeast) && (atMost === undefined || measured.median <= atMost)
}

/** Three digits: what a measurement on a shared machine is worth. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return '–'
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en-US')
  return value.toPrecision(3)
}

export function withSpread({ median, min, max }: Spread): string {
  return min === max || Number.isNaN(median) ? short(median) : `${short(median)} (${short(min)}–${short(max)})`
}

export function barTable(bars: readonly BarRow[]): Table {
  const nodes = bars.some(({ node }) => node !== undefined) ? ['Node'] : []
  return {
    title: 'Bars',
    columns: [...nodes, 'what', 'against', 'measured', 'bar', 'met', 'note'],
    rows: bars.map((row) => {
      const unit = row.unit === undefined ? '' : ` ${row.unit}`
      const bar = row.atLeast === undefined ? `≤ ${row.atMost}${unit}` : `≥ ${row.atLeast}${unit}`
      const hasBar = row.atLeast !== undefined || row.atMost !== undefined
      const met = hasBar ? (isMet(row) ? 'yes' : 'NO') : ''
      return [
        ...nodes.map(() => row.node ?? ''),
        row.what,
        row.against,
        withSpread(row.measured) + unit,
        hasBar ? bar : '',
        met,
        row.note ?? '',
      ]
    }),
  }
}

/** A table in Markdown, padded to be read in a terminal as well. */
export function formatTable({ title, columns, rows, note }: Table): string {
  const widths = columns.map((column, at) => Math.max(column.length, ...rows.map((row) => row[at]?.length ?? 0)))
  const line = (cells: readonly string[]) => `| ${cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(' | ')} |`
  const rule = `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`
  return [`### ${title}`, '', line(columns), rule, ...rows.map(line), ...(note ? ['', note] : []), ''].join('\n')
}

export function writeResults(folder: string, results: object): void {
  mkdirSync(folder, { recursive: true })
  writeFileSync(`${folder}/latest.json`, `${JSON.stringify(results, undefined, 2)}\n`)
}
