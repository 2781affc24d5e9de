// A backfill of one column in memory through a reader, and what the model reads of it afterwards.

import { text } from '@eaas/sdk'
import type { Reader } from '@eaas/sdk/maintenance'
import type { Client } from '../../../sdk/src/index.js'
import { backfill } from '../backfill.js'
import { createMemoryTable } from './memory-table.js'

export async function migrateValues(eaas: Client, keyId: string, values: readonly unknown[], read: Reader) {
  const fields = { email: text() }
  const model = eaas.model({ name: 'users', keyId, bind: ['id'], format: 'text', fields })
  const rows = values.map((email, at) => ({ id: `u${String(at).padStart(4, '0')}`, email }))
  const table = createMemoryTable(rows, ['email'])
  const report = await backfill(model, table, { read: { email: read } })
  const { ok } = await model.decryptMany([...table.rows.values()] as never[])
  return { report, emails: ok.map(({ email }) => email), table }
}
