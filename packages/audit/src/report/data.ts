/** A report for programs: each table as CSV (RFC 4180), and everything as JSON. Pure. */
import { encodeHex, visible } from '@eaas/protocol'
import type { Figure } from './figure.js'
import { listNotes, type Report } from './report.js'
import { type Cell, isFigure, type Table, withNames } from './table.js'

/**
 * Where a spreadsheet would begin a formula, with its sign in plain or full-width form: at the beginning of a text, and
 * after a semicolon, which separates cells in locales whose decimal sign is the comma. There, quotes do not keep the
 * text in one cell. Tabs and line breaks are shown as escapes.
 */
const FORMULA = /(^|;)(?=[ "]*[=+\-@\uff1d\uff0b\uff0d\uff20])/gu

/** Writes a table. An apostrophe precedes anything that a spreadsheet would calculate. */
export function writeCsv({ columns, rows }: Table): string {
  const lines = [columns.map(({ name }) => name), ...rows.map(({ cells }) => cells)]
  return lines.map((cells) => `${cells.map(writeCell).join(',')}\r\n`).join('')
}

function writeCell(cell: Cell): string {
  if (cell === null) return ''
  if (isFigure(cell)) return String(cell.count)
  if (typeof cell === 'number') return String(cell)
  return `"${visible(cell).replace(FORMULA, "$1'").replaceAll('"', '""')}"`
}

/** Writes a report: a table is a list of objects, and a figure has the number of its entries and the first few. */
export function writeJson(report: Report): string {
  const { evidence, sections, figures, entries, entries_left_out, names, isCovered, losses } = report
  const tables = sections.flatMap(({ tables }) =>
    tables.map((table) => [table.name, viewTable(withNames(table, names))]),
  )
  const days = sections
    .flatMap(({ days = [] }) => days)
    .map(({ figure, ...day }) => ({ ...day, figure: viewFigure(figure) }))
  return `${JSON.stringify({
    evidence,
    covers_period: isCovered,
    losses,
    days,
    ...Object.fromEntries(tables),
    figures: figures.map(({ title, filter, ...figure }) => ({
      title,
      filter,
      ...viewFigure({ title, filter, ...figure }),
    })),
    entries: entries.map(({ tenant_id: _, hash, ...entry }) => ({ ...entry, hash: encodeHex(hash) })),
    entries_left_out,
    notes: listNotes(report),
  })}\n`
}

function viewTable({ columns, rows }: Table): Record<string, unknown>[] {
  return rows.map(({ cells }) => Object.fromEntries(columns.map(({ name }, at) => [name, viewCell(cells[at] ?? null)])))
}

function viewCell(cell: Cell): unknown {
  return isFigure(cell) ? viewFigure(cell) : cell
}

function viewFigure({ count, entries, first, last }: Figure) {
  return { count, first_entry: first?.id ?? null, last_entry: last?.id ?? null, entries }
}
