/** A table of a report as CSV (RFC 4180). Pure. */
import { visible } from '@eaas/protocol'
import { type Cell, isFigure, type Table } from './table.js'

/** What a spreadsheet would take for a formula, also in its full-width form. */
const FORMULA = /^[=+\-@\uff1d\uff0b\uff0d\uff20]/u

/** Writes a table. A text that a spreadsheet would calculate gets an apostrophe before it. */
export function writeCsv({ columns, rows }: Table): string {
  const lines = [columns.map(({ name }) => name), ...rows.map(({ cells }) => cells)]
  return lines.map((cells) => `${cells.map(writeCell).join(',')}\r\n`).join('')
}

function writeCell(cell: Cell): string {
  if (cell === null) return ''
  if (isFigure(cell)) return String(cell.count)
  if (typeof cell === 'number') return String(cell)
  const text = visible(cell)
  return `"${(FORMULA.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`
}
