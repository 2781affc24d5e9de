// A table in memory, for a backfill. `onSwap` is what the application does just before rows are written.

import { text } from '@eaas/sdk'
import type { Reader, Row } from '@eaas/sdk/maintenance'
import type { Client } from '../../../sdk/src/index.js'
import type { Table, TableRow } from '../backfill/table.js'
import { backfill } from '../backfill.js'

export interface MemoryTable extends Table {
  rows: Map<string, Row>
  calls: string[]
  onSwap: (key: string) => void
}

/** Rows are kept in the order of their keys, and compared by the columns of the row that was read. */
export function createMemoryTable(list: readonly Row[], columns: readonly string[], key = 'id'): MemoryTable {
  const rows = new Map(list.map((row) => [String(row[key]), row]))
  const read = (name: string): TableRow => ({
    key: name,
    row: Object.fromEntries([key, ...columns].map((column) => [column, rows.get(name)?.[column] ?? null])),
  })
  const isSame = (stored: unknown, other: unknown) => JSON.stringify(stored ?? null) === JSON.stringify(other ?? null)
  const sorted = () => [...rows.keys()].sort()
  const table: MemoryTable = {
    rows,
    calls: [],
    onSwap: () => undefined,
    async page(after, limit) {
      table.calls.push('page')
      const behind = sorted().filter((name) => after === undefined || name > after)
      return behind.slice(0, limit).map(read)
    },
    async again(keys) {
      table.calls.push('again')
      return keys.filter((name) => rows.has(name)).map(read)
    },
    async swap(changes) {
      table.calls.push('swap')
      return changes.map(({ from, to }) => {
        table.onSwap(from.key)
        const stored = rows.get(from.key)
        if (!stored || Object.keys(from.row).some((column) => !isSame(stored[column], from.row[column]))) return false
        rows.set(from.key, { ...stored, ...to })
        return true
      })
    },
    count: async (after) => sorted().filter((name) => after === undefined || name > after).length,
  }
  return table
}

/** Runs a backfill of one column through a reader, and returns what the model reads of it afterwards. */
export async function migrateValues(eaas: Client, keyId: string, values: readonly unknown[], read: Reader) {
  const fields = { email: text() }
  const model = eaas.model({ name: 'users', keyId, bind: ['id'], format: 'text', fields })
  const rows = values.map((email, at) => ({ id: `u${String(at).padStart(4, '0')}`, email }))
  const table = createMemoryTable(rows, ['email'])
  const report = await backfill(model, table, { read: { email: read } })
  const { ok } = await model.decryptMany([...table.rows.values()] as never[])
  return { report, emails: ok.map(({ email }) => email), table }
}
