import { expect, it } from 'vitest'
import type { Sql } from '../store/db.js'
import { type BudgetedApiKey, createBudgetCounts, nothingTaken } from './budgets.js'

it('calls of an API key that wait for a statement which fails have its error, and send none of their own', async () => {
  const failing: ((error: Error) => void)[] = []
  const sql = (() => new Promise((_, reject) => failing.push(reject))) as unknown as Sql
  const apiKey = { tenant_id: 't', api_key_id: 'a', budgets: '{"unwrap":{"per_day":9}}' } as BudgetedApiKey
  const counts = createBudgetCounts(sql)
  const made = { entries: [{ action: 'key.unwrap' as const }], release: () => undefined }
  const take = () => counts.take(sql, apiKey, made, nothingTaken(apiKey))
  const settle = () => new Promise((resolve) => setImmediate(resolve))

  const outcomes = Promise.allSettled([take(), take(), take()])
  await settle()
  expect(failing).toHaveLength(1)
  failing[0]?.(new Error('down'))
  await settle()
  expect(failing).toHaveLength(1)
  expect(await outcomes).toMatchObject(Array(3).fill({ status: 'rejected', reason: { message: 'down' } }))

  const later = take()
  await settle()
  failing[1]?.(new Error('still down'))
  await expect(later).rejects.toThrow('still down')
})
