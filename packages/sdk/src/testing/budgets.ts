/** The budgets of API keys in memory. An API key over its budget is refused, or expires, as by the real service. */
import { type BudgetKind, type BudgetWindow, DETAILS, readBudgets } from '@eaas/protocol'
import { expireApiKey } from './api-keys.js'
import { Refusal } from './refusal.js'
import { type Call, note, timeNow } from './state.js'

const WINDOWS: readonly [BudgetWindow, 'per_minute' | 'per_day', seconds: number][] = [
  ['minute', 'per_minute', 60],
  ['day', 'per_day', 86_400],
]

/** Takes one use from the budgets of the calling API key. @throws Refusal E_BUDGET */
export function takeBudget(call: Call, kind: BudgetKind): void {
  const { apiKey, state } = call
  if (apiKey.budgets === null) return
  const { [kind]: budget, when_over } = readBudgets(apiKey.budgets)
  const now = state.now() / 1_000
  const used = WINDOWS.flatMap(([window, name, seconds]) => {
    const limit = budget?.[name]
    const counted = `${kind} ${window} ${Math.floor(now / seconds)}`
    return limit === undefined ? [] : [{ window, limit, seconds, counted, before: apiKey.used.get(counted) ?? 0 }]
  })
  for (const one of used) {
    const { window, limit, counted, before } = one
    apiKey.used.set(counted, Math.max(before, Math.min(before, limit) + 1)) // what was refused counts once
    if (before < limit) continue
    const expires = before === limit && when_over === 'expire'
    if (before === limit) note(call, { action: 'budget.refused', metadata: { limit, operation: kind, window } })
    if (expires) expireApiKey(state, apiKey, timeNow(state))
    // The longest window that is used up: the next minute renews nothing of a day.
    const over = used.findLast((other) => other.before >= other.limit) ?? one
    const retryAfter = expires ? undefined : Math.ceil(over.seconds - (now % over.seconds))
    throw new Refusal('E_BUDGET', DETAILS.E_BUDGET.call(kind, over.window, over.limit, expires), retryAfter)
  }
}
