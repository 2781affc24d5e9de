import { expect, it } from 'vitest'
import type { BudgetUse } from '../store/budget-uses.js'
import type { Sql } from '../store/db.js'
import { type BudgetedApiKey, createTakeUses, nothingTaken, shareOf } from './budgets.js'

const budgetedBy = (budgets: object) =>
  ({ tenant_id: 't', api_key_id: 'a', budgets: JSON.stringify(budgets) }) as BudgetedApiKey

const opened = (count: number) => ({
  entries: Array.from({ length: count }, () => ({ action: 'key.unwrap' as const })),
  release: () => undefined,
})

const settle = () => new Promise((resolve) => setImmediate(resolve))

it('calls of an API key that wait for a statement which fails have its error, and send none of their own', async () => {
  const failing: ((error: Error) => void)[] = []
  const sql = (() => new Promise((_, reject) => failing.push(reject))) as unknown as Sql
  const apiKey = budgetedBy({ unwrap: { per_day: 9 } })
  const takeUses = createTakeUses(sql)
  const take = () => takeUses(sql, apiKey, opened(1), nothingTaken(apiKey))

  const first = take()
  await settle()
  const outcomes = Promise.allSettled([first, take(), take()])
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

it('counts what is asked of a budget while a statement is under way by the next one, and another budget by its own', async () => {
  const sent: { values: unknown[]; answer: (uses: object[]) => void }[] = []
  const sql = ((_: unknown, ...values: unknown[]) =>
    new Promise((answer) => sent.push({ values, answer }))) as unknown as Sql
  const takeUses = createTakeUses(sql)
  const take = (apiKey: BudgetedApiKey, count: number) => takeUses(sql, apiKey, opened(count), nothingTaken(apiKey))
  const answer = (at: number, granted: number) =>
    sent[at]?.answer([{ granted, granted_by_minute: granted, minute_ends_in: 7, day_ends_in: 8 }])
  const of6 = budgetedBy({ unwrap: { per_minute: 6 } })
  const of7 = budgetedBy({ unwrap: { per_minute: 7 } })

  const first = take(of6, 1)
  await settle()
  const [second, third, other] = [take(of6, 2), take(of6, 4), take(of7, 1)]
  await settle()
  expect(sent).toHaveLength(1)
  answer(0, 1)
  await settle()
  expect(sent).toHaveLength(2)
  expect(sent[1]?.values).toContain(6)
  answer(1, 5)
  expect(await Promise.all([first, second, third])).toMatchObject([
    { counts: { unwrap: 1 }, overs: {} },
    { counts: { unwrap: 2 }, overs: {} },
    { counts: { unwrap: 3 }, overs: { unwrap: { window: 'minute', limit: 6, retryAfterSeconds: 7 } } },
  ])
  await settle()
  expect(sent[2]?.values).toContain(7)
  answer(2, 1)
  expect(await other).toMatchObject({ counts: { unwrap: 1 } })
})

it('grants requests that are counted together what they would be granted one after another', () => {
  const requests = [0, 1, 2, 3, 4].flatMap((a) => [1, 2, 3].flatMap((b) => [1, 4].map((c) => [a + 1, b, c])))
  for (const per_minute of [0, 1, 3, 5, 9]) {
    for (const per_day of [0, 2, 4, 6, 20]) {
      for (const calls of requests) {
        for (const marks of [true, false]) {
          const window = { per_minute, per_day, marks }
          const alone = createWindow(window)
          const expected = calls.map(alone)
          const all = createWindow(window)(calls.reduce((sum, each) => sum + each, 0))
          let before = 0
          const shares = calls.map((each) => {
            const share = shareOf(all, { calls: each, marks }, before)
            before += each
            return share
          })
          expect(shares, JSON.stringify({ ...window, calls })).toEqual(expected)
        }
      }
    }
  }
})

/** Counts as the statement does, in a minute and a day that do not end. */
function createWindow({ per_minute, per_day, marks }: { per_minute: number; per_day: number; marks: boolean }) {
  let [in_minute, in_day] = [0, 0]
  let [minute_over, day_over] = [false, false]
  return (calls: number): BudgetUse => {
    const granted_by_minute = Math.max(0, Math.min(calls, per_minute - in_minute))
    const granted = Math.max(0, Math.min(granted_by_minute, per_day - in_day))
    const is_minute_first = granted_by_minute < calls && !minute_over
    const is_day_first = granted < granted_by_minute && !day_over
    in_minute += granted_by_minute
    in_day += granted
    if (marks) {
      minute_over ||= is_minute_first
      day_over ||= is_day_first
    }
    const is_day_used_up = granted < calls && in_day >= per_day
    const ends = { minute_ends_in: 60, day_ends_in: 86_400 }
    return { granted, granted_by_minute, is_minute_first, is_day_first, is_day_used_up, ...ends }
  }
}
