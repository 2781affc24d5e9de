/** A table of a report as CSV (RFC 4180). Pure. */
import { visible } from '@eaas/protocol'
import { type Cell, isFigure, type Table } from './table.js'

/**
 * Where a formula would begin, also in its full-width form: at the beginning of a text, and after a semicolon, which
 * separates cells in locales whose decimal sign is the comma. Quotes do not hold a text together there, because lines
 * are split differently. Tabs and line breaks are shown as escapes.
 */
const FORMULA = /(^|;)(?=[ "]*[=+\-@\uff1d\uff0b\uff0d\uff20])/gu

/** Writes a table, with an apostrophe before anything that a spreadsheet would calculate. */
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
