/** Lets the user save shown data as a file. */
import type { Cell } from '@eaas/audit'

export function save(name: string, text: string, type: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([text], { type }))
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}

/** Saves rows as CSV, by the titles of its columns, and disarms texts that a spreadsheet would calculate. */
export async function saveCsv<Row>(
  name: string,
  rows: readonly Row[],
  cells: Readonly<Record<string, (row: Row) => Cell>>,
): Promise<void> {
  const { writeCsv } = await import('@eaas/audit') // the first page does not need it
  const columns = Object.keys(cells).map((title) => ({ name: title, title, kind: 'text' as const }))
  const written = rows.map((row) => ({ cells: Object.values(cells).map((cell) => cell(row)) }))
  save(`${name}.csv`, writeCsv({ name, title: name, columns, rows: written, empty: '' }), 'text/csv')
}
