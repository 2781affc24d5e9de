/** Budgets of an API key: how many data keys it may unwrap, and values hash, in a minute and a day of UTC. Pure. */
import type { LogAction } from './actions.js'

/** Unwraps include values that server mode decrypts, and index secrets. */
export const BUDGET_KINDS = ['unwrap', 'hash'] as const
export type BudgetKind = (typeof BUDGET_KINDS)[number]
/** The actions that count as an unwrap: each hands out a secret or a value. */
export const COUNTED_AS_UNWRAP: readonly LogAction[] = ['key.unwrap', 'decrypt', 'key.index_secret']
export const BUDGET_WINDOWS = ['minute', 'day'] as const
export type BudgetWindow = (typeof BUDGET_WINDOWS)[number]

/** How many in each window; an absent member means no limit. */
export interface Budget {
  per_minute?: number | undefined
  per_day?: number | undefined
}

export interface Budgets {
  unwrap?: Budget | undefined
  hash?: Budget | undefined
  /** refuses by default, until the window ends */
  when_over?: 'refuse' | 'expire' | undefined
}

export function limitsSomething(budgets: Budgets): boolean {
  return BUDGET_KINDS.some((kind) => Object.values(budgets[kind] ?? {}).some((limit) => limit !== undefined))
}

/** As rows and entries record them (row-mac.md 1): JSON whose members are sorted. */
export function writeBudgets({ unwrap, hash, when_over }: Budgets): string {
  const sorted = (budget: Budget | undefined) => budget && { per_day: budget.per_day, per_minute: budget.per_minute }
  return JSON.stringify({ hash: sorted(hash), unwrap: sorted(unwrap), when_over })
}

// A row's budgets are read once while its API key is in memory; their texts are few.
const read = new Map<string, Budgets>()
const MOST_READ = 1_000

/** Reads the budgets of a row or an entry that the server wrote. @throws SyntaxError */
export function readBudgets(text: string): Budgets {
  const known = read.get(text)
  if (known) return known
  const budgets: Budgets = JSON.parse(text)
  if (read.size >= MOST_READ) read.clear()
  read.set(text, budgets)
  return budgets
}
