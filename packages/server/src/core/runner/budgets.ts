/**
 * The budgets of API keys. Once an operation has decided, its uses are known, and are taken from the budgets before
 * anything is committed. If the budgets leave less, the operation decides again, on what they left.
 */
import {
  BUDGET_KINDS,
  type BudgetKind,
  type BudgetWindow,
  COUNTED_AS_UNWRAP,
  DETAILS,
  readBudgets,
} from '@eaas/protocol'
import type { ApiKeyRow } from '../store/api-keys.js'
import {
  type BudgetRequest,
  type BudgetUse,
  countBudgetUse,
  type Exceeded,
  markExceeded,
} from '../store/budget-uses.js'
import type { Queryable, Sql } from '../store/db.js'
import type { Context, Decision, EntryNote, Operation } from './operation.js'
import { Refusal } from './refusal.js'

interface Over {
  window: BudgetWindow
  limit: number
  /** undefined if the API key expires when it is over its budget */
  retryAfterSeconds: number | undefined
}

export type Allowances = Record<BudgetKind, { left: number; over?: Over }>

/** For callers without budgets, and until the needs of a call are known. */
export const UNLIMITED: Readonly<Allowances> = {
  unwrap: { left: Number.POSITIVE_INFINITY },
  hash: { left: Number.POSITIVE_INFINITY },
}

/** The uses that were taken for a call. Any that a decision needs beyond them are taken before that decision counts. */
interface Taken {
  /** the budgets from which they were taken: if the API key's budgets change, counting begins again */
  budgets: string
  counts: Readonly<Record<BudgetKind, number>>
  /** the windows that granted less than was requested */
  overs: Readonly<Partial<Record<BudgetKind, Over>>>
  /** the windows that this call was the first to exceed, each of which gets an entry */
  exceeded: readonly Exceeded[]
}

/** @throws Refusal E_BUDGET if a budget leaves fewer than `uses` */
export function assertBudget(allowances: Readonly<Allowances>, kind: BudgetKind, uses = 1): void {
  const { left, over } = allowances[kind]
  if (left >= uses || !over) return
  const { window, limit, retryAfterSeconds } = over
  const expires = retryAfterSeconds === undefined
  const detail = DETAILS.E_BUDGET.call(kind, window, limit, expires)
  throw new Refusal('E_BUDGET', detail, expires ? {} : { retryAfterSeconds })
}

/** Counted for a decision that hashes one value, or confirms a guess as a hash does. */
export const ONE_HASH: NonNullable<Decision<unknown>['unrecorded']> = new Map([['hash', 1]])

export function spend(allowances: Allowances, made: Decision<unknown>): void {
  for (const kind of BUDGET_KINDS) allowances[kind].left -= countUses(made, kind)
}

function countUses({ entries, unrecorded }: Decision<unknown>, kind: BudgetKind): number {
  if (kind === 'hash') return unrecorded?.get('hash') ?? 0
  return entries.reduce((count, { action }) => count + (COUNTED_AS_UNWRAP.includes(action) ? 1 : 0), 0)
}

export type BudgetedApiKey = ApiKeyRow & { budgets: string }

function hasBudgets(apiKey: ApiKeyRow | undefined): apiKey is BudgetedApiKey {
  return apiKey !== undefined && apiKey.budgets !== null
}

/**
 * Takes the uses that a decision needs beyond those taken for its call; returns undefined if it needs none. No other
 * process can take the same uses, and a call that fails afterwards does not return them. The first call that exceeds a
 * window gets an entry for it. If the API key then expires, the first one is the first call whose entry is committed.
 */
export type TakeUses = (
  sql: Queryable,
  apiKey: BudgetedApiKey,
  made: Decision<unknown>,
  before: Taken,
) => Promise<Taken | undefined>

export function nothingTaken({ budgets }: BudgetedApiKey): Taken {
  return { budgets, counts: { unwrap: 0, hash: 0 }, overs: {}, exceeded: [] }
}

export function createTakeUses(pool: Sql): TakeUses {
  const countTogether = createCommonCount(pool)
  return async (sql, apiKey, made, before) => {
    const { when_over, ...budgets } = readBudgets(apiKey.budgets)
    const { tenant_id, api_key_id } = apiKey
    let taken: Taken | undefined
    for (const kind of BUDGET_KINDS) {
      const { [kind]: budget } = budgets
      const calls = countUses(made, kind) - before.counts[kind]
      if (!budget || calls <= 0) continue
      const { per_minute = UNBOUNDED, per_day = UNBOUNDED } = budget
      const request = { tenant_id, api_key_id, kind, calls, per_minute, per_day, marks: when_over !== 'expire' }
      // A given transaction holds the head's lock, during which no other connection may be awaited.
      const use = await (sql === pool ? countTogether(apiKey, request) : countBudgetUse(sql, request))
      taken = addUse(taken ?? before, use, request)
    }
    return taken
  }
}

const UNBOUNDED = 10 ** 15

type Together = { calls: number; use: Promise<BudgetUse> }

/**
 * Runs one statement at a time for each API key, so that none takes all connections. Meanwhile requests gather, and the
 * next statement counts them together. If one fails, those behind it fail too, instead of waiting for a silent database.
 */
function createCommonCount(sql: Sql): (apiKey: BudgetedApiKey, request: BudgetRequest) => Promise<BudgetUse> {
  const lines = new Map<string, Promise<unknown>>()
  const next = new Map<string, Together>()

  function prepare(budget: string, request: BudgetRequest): Together {
    const { api_key_id } = request
    const before = lines.get(api_key_id) ?? Promise.resolve()
    const use = before
      .finally(() => next.delete(budget))
      .then((): Promise<BudgetUse> => countBudgetUse(sql, { ...request, calls: together.calls }))
    const together: Together = { calls: 0, use }
    next.set(budget, together)
    lines.set(api_key_id, use)
    const leave = () => {
      if (lines.get(api_key_id) === use) lines.delete(api_key_id)
    }
    use.then(leave, leave)
    return together
  }

  return async ({ api_key_id, budgets }, request) => {
    const budget = `${api_key_id} ${request.kind} ${budgets}`
    const together = next.get(budget) ?? prepare(budget, request)
    const before = together.calls
    together.calls += request.calls
    return shareOf(await together.use, request, before)
  }
}

/** The share of a request in a common grant: as much as if the requests had been counted one by one. */
export function shareOf(
  use: BudgetUse,
  { calls, marks }: Pick<BudgetRequest, 'calls' | 'marks'>,
  before: number,
): BudgetUse {
  const granted_by_minute = clamp(use.granted_by_minute - before, calls)
  const granted = clamp(use.granted - before, granted_by_minute)
  // Of the requests that a window did not grant in full, only the first one marks the window as exceeded.
  const isFirst = (grantedToAll: number) => !marks || before <= grantedToAll
  return {
    ...use,
    granted,
    granted_by_minute,
    is_minute_first: use.is_minute_first && granted_by_minute < calls && isFirst(use.granted_by_minute),
    is_day_first: use.is_day_first && granted < granted_by_minute && isFirst(use.granted),
    is_day_used_up: use.is_day_used_up && granted < calls,
  }
}

function clamp(value: number, most: number): number {
  return Math.max(0, Math.min(value, most))
}

function addUse(taken: Taken, use: BudgetUse, { kind, calls, per_minute, per_day, marks }: BudgetRequest): Taken {
  const exceeded: Exceeded[] = []
  if (use.is_minute_first) exceeded.push({ kind, window: 'minute', limit: per_minute })
  if (use.is_day_first) exceeded.push({ kind, window: 'day', limit: per_day })
  // If the day is used up as well, the next minute renews nothing.
  const isDay = use.granted < use.granted_by_minute || use.is_day_used_up
  const window = isDay ? 'day' : 'minute'
  const limit = isDay ? per_day : per_minute
  const seconds = Math.max(1, isDay ? use.day_ends_in : use.minute_ends_in)
  const retryAfterSeconds = !marks && exceeded.length > 0 ? undefined : seconds
  return {
    ...taken,
    counts: { ...taken.counts, [kind]: taken.counts[kind] + use.granted },
    overs: use.granted === calls ? taken.overs : { ...taken.overs, [kind]: { window, limit, retryAfterSeconds } },
    exceeded: [...taken.exceeded, ...exceeded],
  }
}

/** If the budgets do not cover a decision, makes it again with what they left. */
export function withinBudget<Answer>(operation: Operation<Answer>): Operation<Answer> {
  /** by where it was counted, since a transaction may be rolled back */
  let taken: Map<Queryable, Taken> | undefined
  return (context) => {
    const { apiKey } = context.caller
    if (!hasBudgets(apiKey)) return operation(context)
    taken ??= new Map()
    return decideWithin(operation, context, { apiKey, taken })
  }
}

async function decideWithin<Answer>(
  operation: Operation<Answer>,
  context: Context,
  { apiKey, taken }: { apiKey: BudgetedApiKey; taken: Map<Queryable, Taken> },
): Promise<Decision<Answer>> {
  const { sql, services } = context
  let uses = taken.get(sql) ?? taken.get(services.sql)
  if (uses?.budgets !== apiKey.budgets) uses = nothingTaken(apiKey)
  for (;;) {
    const made = await decideOnTaken(operation, context, uses)
    try {
      const now = await services.takeUses(sql, apiKey, made, uses)
      const isCovered = !now || now.overs === uses.overs
      uses = now ?? uses
      taken.set(sql, uses)
      if (isCovered) return await withExpiry(made, context, { apiKey, exceeded: uses.exceeded })
    } catch (error) {
      zeroSecrets(made)
      throw error
    }
    zeroSecrets(made)
  }
}

export function zeroSecrets(decision: Decision<unknown> | undefined): void {
  for (const secret of decision?.secrets ?? []) secret.fill(0)
}

async function decideOnTaken<Answer>(
  operation: Operation<Answer>,
  context: Context,
  { counts, overs, exceeded }: Taken,
): Promise<Decision<Answer>> {
  const allowances: Allowances = { ...UNLIMITED }
  for (const kind of BUDGET_KINDS) {
    const { [kind]: over } = overs
    if (over) allowances[kind] = { left: counts[kind], over }
  }
  const recorded = exceeded.map(
    ({ kind, window, limit }): EntryNote => ({
      action: 'budget.refused',
      metadata: { limit, operation: kind, window },
    }),
  )
  try {
    const made = await operation({ ...context, allowances })
    return recorded.length === 0 ? made : { ...made, entries: [...made.entries, ...recorded] }
  } catch (error) {
    if (recorded.length === 0 || !(error instanceof Refusal)) throw error
    return {
      entries: recorded, // committed before the caller gets the refusal
      release() {
        throw error
      },
    }
  }
}

/** Makes the server expire the API key in this transaction, if its budgets say so and this call was first to exceed one. */
async function withExpiry<Answer>(
  made: Decision<Answer>,
  context: Context,
  { apiKey, exceeded }: Pick<Taken, 'exceeded'> & { apiKey: BudgetedApiKey },
): Promise<Decision<Answer>> {
  if (exceeded.length === 0 || readBudgets(apiKey.budgets).when_over !== 'expire') return made
  const { entries, change } = await context.services.expireApiKey(apiKey)(context)
  return {
    ...made,
    byServer: {
      entries,
      async change(sql, at) {
        for (const one of exceeded) await markExceeded(sql, apiKey, one)
        return (await change?.(sql, at)) ?? {}
      },
    },
  }
}
