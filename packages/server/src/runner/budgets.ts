/**
 * The budgets of API keys. What a call opens and hashes is known once its operation has decided; then it is taken
 * from the budgets, before anything is committed, and what they do not leave is refused by another decision.
 */
import { BUDGET_KINDS, type BudgetKind, type BudgetWindow, DETAILS, readBudgets } from '@eaas/protocol'
import type { ApiKeyRow } from '../store/api-keys.js'
import { countBudgetUse } from '../store/budget-uses.js'
import type { Queryable, Sql } from '../store/db.js'
import type { Context, Decision, EntryNote, Operation } from './operation.js'
import { Refusal } from './refusal.js'

/** What a budget leaves a call. */
export interface Allowance {
  left: number
  /** the window that leaves no more */
  over?: { window: BudgetWindow; limit: number; retryAfterSeconds: number }
}

export type Allowances = Record<BudgetKind, Allowance>

/** Of callers without budgets, and until it is known what a call needs. */
export const UNLIMITED: Readonly<Allowances> = {
  unwrap: { left: Number.POSITIVE_INFINITY },
  hash: { left: Number.POSITIVE_INFINITY },
}

/** What was taken for a call, once: it may be decided several times. */
export interface Taken {
  /** from which budgets: others that an API key was given meanwhile are another matter */
  budgets: string
  allowances: Allowances
  /** of windows that this call was the first to exceed */
  entries: readonly EntryNote[]
}

/** @throws Refusal E_BUDGET if a budget leaves nothing */
export function assertBudget(allowances: Readonly<Allowances>, kind: BudgetKind): void {
  const { left, over } = allowances[kind]
  if (left >= 1 || !over) return
  const { window, limit, retryAfterSeconds } = over
  throw new Refusal('E_BUDGET', DETAILS.E_BUDGET.call(kind, window, limit), { retryAfterSeconds })
}

/** Takes what one decision of a batch needs from what is left for the next ones. */
export function spend(allowances: Allowances, made: Decision<unknown>): void {
  for (const kind of BUDGET_KINDS) allowances[kind].left -= countUses(made, kind)
}

function countUses({ entries, unrecorded }: Decision<unknown>, kind: BudgetKind): number {
  if (kind === 'hash') return unrecorded?.get('hash') ?? 0
  return entries.reduce((count, { action }) => count + (action === 'key.unwrap' || action === 'decrypt' ? 1 : 0), 0)
}

/** An API key with budgets. */
export type BudgetedApiKey = ApiKeyRow & { budgets: string }

export function hasBudgets(apiKey: ApiKeyRow | undefined): apiKey is BudgetedApiKey {
  return apiKey !== undefined && apiKey.budgets !== null
}

export interface BudgetCounts {
  /**
   * Takes what a decision needs from the budgets of its API key. Of what they leave no other process takes any;
   * a call that fails afterwards has used it. The first that exceeds a window gets an entry for it.
   */
  take(sql: Queryable, apiKey: BudgetedApiKey, made: Decision<unknown>): Promise<Taken | undefined>
}

/** Counts what is taken; one per process. */
export function createBudgetCounts(services: Sql): BudgetCounts {
  // One statement at a time for each API key, so that none takes the connections of all others.
  const lines = new Map<string, Promise<unknown>>()

  function inLine<Result>(api_key_id: string, work: () => Promise<Result>): Promise<Result> {
    const result = (lines.get(api_key_id) ?? Promise.resolve()).then(work)
    const settled = result
      .catch(() => undefined)
      .then(() => {
        if (lines.get(api_key_id) === settled) lines.delete(api_key_id)
      })
    lines.set(api_key_id, settled)
    return result
  }

  return {
    async take(sql, apiKey, made) {
      const budgets = readBudgets(apiKey.budgets)
      const allowances: Allowances = { ...UNLIMITED }
      const entries: EntryNote[] = []
      let hasTaken = false
      for (const kind of BUDGET_KINDS) {
        const { [kind]: budget } = budgets
        const calls = countUses(made, kind)
        if (!budget || calls === 0) continue
        hasTaken = true
        const request = { apiKey, kind, calls, budget }
        // Under the lock of the head no other connection may be waited for.
        const taken = await (sql === services
          ? inLine(apiKey.api_key_id, () => takeOne(sql, request))
          : takeOne(sql, request))
        allowances[kind] = taken.allowance
        entries.push(...taken.entries)
      }
      return hasTaken ? { budgets: apiKey.budgets, allowances, entries } : undefined
    },
  }
}

/** Where a budget has no limit: more than is ever counted. */
const UNBOUNDED = 10 ** 15

interface Request {
  apiKey: BudgetedApiKey
  kind: BudgetKind
  calls: number
  budget: { per_minute?: number | undefined; per_day?: number | undefined }
}

async function takeOne(
  sql: Queryable,
  { apiKey: { tenant_id, api_key_id }, kind, calls, budget }: Request,
): Promise<{ allowance: Allowance; entries: EntryNote[] }> {
  const { per_minute = UNBOUNDED, per_day = UNBOUNDED } = budget
  const use = await countBudgetUse(sql, { tenant_id, api_key_id, kind, calls, per_minute, per_day })
  const minute = grant({ window: 'minute', limit: per_minute, used: use.in_minute, calls })
  const day = grant({ window: 'day', limit: per_day, used: use.in_day, calls: minute.left })
  const entries = [minute, day]
    .filter(({ isFirst }) => isFirst)
    .map(({ window, limit }): EntryNote => ({ action: 'budget.refused', metadata: { limit, operation: kind, window } }))
  if (day.left === calls) return { allowance: { left: calls }, entries }
  const { window, limit } = day.left < minute.left ? day : minute
  const retryAfterSeconds = Math.max(1, window === 'day' ? use.day_ends_in : use.minute_ends_in)
  return { allowance: { left: day.left, over: { window, limit, retryAfterSeconds } }, entries }
}

/** What a window leaves of calls after those that were used. */
function grant({ window, limit, used, calls }: { window: BudgetWindow; limit: number; used: number; calls: number }) {
  const left = Math.max(0, Math.min(calls, limit - used))
  return { window, limit, left, isFirst: left < calls && used <= limit }
}

/**
 * Decides within the budgets of the calling API key. `taken` is what was taken for the call before. The refusal of
 * a call alone is on record, so it is made after the commit.
 */
export async function decideWithin<Answer>(
  operation: Operation<Answer>,
  context: Context,
  { taken, take }: { taken: Taken | undefined; take: (made: Decision<unknown>) => Promise<Taken | undefined> },
): Promise<Decision<Answer>> {
  if (taken) return decideOnTaken(operation, context, taken)
  const made = await operation(context)
  const now = await take(made)
  if (!now) return made
  if (BUDGET_KINDS.every((kind) => now.allowances[kind].over === undefined)) return made
  for (const secret of made.secrets ?? []) secret.fill(0)
  return decideOnTaken(operation, context, now)
}

async function decideOnTaken<Answer>(
  operation: Operation<Answer>,
  context: Context,
  { allowances, entries }: Taken,
): Promise<Decision<Answer>> {
  const made = await refusedLater(operation, { ...context, allowances }, entries.length > 0)
  return { ...made, entries: [...made.entries, ...entries] }
}

async function refusedLater<Answer>(
  operation: Operation<Answer>,
  context: Context,
  isRecorded: boolean,
): Promise<Decision<Answer>> {
  try {
    return await operation(context)
  } catch (error) {
    if (!isRecorded || !(error instanceof Refusal) || error.code !== 'E_BUDGET') throw error
    return {
      entries: [],
      release() {
        throw error
      },
    }
  }
}
