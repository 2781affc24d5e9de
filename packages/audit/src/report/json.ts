/** A report as JSON. Pure. */
import { encodeHex } from '@eaas/protocol'
import type { Figure } from './figure.js'
import { listNotes, type Report } from './report.js'
import { type Cell, isFigure, type Table, withNames } from './table.js'

/** Writes a report: each table is a list of objects, each figure the number of its entries and the first of them. */
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
