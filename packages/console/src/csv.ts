/** Hands what is shown to the user as CSV. */
import type { Cell } from '@eaas/audit'
import { save } from './save.js'

/** Saves rows as CSV, with what a spreadsheet would calculate made harmless. */
export async function saveCsv(
  name: string,
  titles: readonly string[],
  rows: readonly (readonly Cell[])[],
): Promise<void> {
  const { writeCsv } = await import('@eaas/audit') // which the first page does not need
  const columns = titles.map((title) => ({ name: title, title, kind: 'text' as const }))
  save(
    `${name}.csv`,
    writeCsv({ name, title: name, columns, rows: rows.map((cells) => ({ cells })), empty: '' }),
    'text/csv',
  )
}
