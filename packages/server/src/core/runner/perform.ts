/**
 * Runs every operation: decides on the tenant's state, commits the entries, and only then releases the answer. If the
 * state is out of date, the operation decides again; frequent changes of a tenant never fail a call.
 */
import { INSTALLATION_ID } from '@eaas/protocol'
import type { Decided, DecideOn, HeadLock } from '../audit/append/committer.js'
import { AuditWriteError, ChainAlarmError, untilFollowed } from '../audit/append-errors.js'
import type { EntryDraft } from '../audit/formats/chain.js'
import { MAX_METADATA } from '../store/audit.js'
import type { Queryable } from '../store/db.js'
import { TamperedRowError } from '../store/tampered-row.js'
import {
  type BudgetedApiKey,
  decideExpiry,
  decideWithin,
  hasBudgets,
  nothingTaken,
  type Taken,
  UNLIMITED,
} from './budgets.js'
import { asSeenBy } from './listed-keys.js'
import type { WrittenRows } from './opened-keys.js'
import type { Caller, Context, Decision, EntryNote, EntryPosition, Operation, Services } from './operation.js'
import { Refusal, unauthorized } from './refusal.js'
import type { TenantState } from './tenant-state.js'

/**
 * How often a call without entries may decide on a state that changed meanwhile. After that it takes its turn: it
 * decides under the lock of the head, where the tenant cannot change.
 */
const MOST_STALE = 2

/** The server itself, or its operator. */
export function systemCaller({ actor }: Pick<Services, 'actor'>): Caller {
  return { actor, ip_address: null, on_behalf_of: undefined, apiKey: undefined }
}

/**
 * Runs an operation for the server itself or its operator. `inTurn` decides it under the lock of the head, where no
 * other process writes to the log; `caller` is the actor if the operator used an API key. @throws Refusal,
 * AuditWriteError, OverloadError
 */
export function performAsSystem<Answer>(
  services: Services,
  tenant_id: string,
  operation: Operation<Answer>,
  { inTurn = false, caller = systemCaller(services) }: { inTurn?: boolean; caller?: Caller } = {},
): Promise<Answer> {
  const findCaller = ({ fault }: TenantState) => ({ caller, fault })
  return untilFollowed(() => carryOut(services, { tenant_id, findCaller, inTurn }, operation))
}

/** Whose call is carried out. */
interface Calling {
  tenant_id: string
  /** Finds the caller in the state, and any fault in its rows. @throws Refusal */
  findCaller: (state: TenantState) => MaybePromise<{ caller: Caller; fault: TamperedRowError | undefined }>
  /** decide in turn, under the lock of the head, from the start */
  inTurn?: boolean
}

type MaybePromise<T> = T | Promise<T>

/**
 * Runs an operation; answers once its entries are committed. A refusal counts only if it was made on the
 * current state: a key that another process has just created or enabled must not be refused here. The
 * committer commits the entries, and makes the call decide again if necessary. @throws Refusal,
 * AuditWriteError, OverloadError
 */
export async function carryOut<Answer>(
  services: Services,
  calling: Calling,
  operation: Operation<Answer>,
): Promise<Answer> {
  const { tenant_id, findCaller, inTurn } = calling
  const call = createCall(services, { tenant_id, findCaller, operation }) // by name, because spreading costs microseconds
  try {
    try {
      for (let stale = inTurn ? MOST_STALE : 0; !(await call.isDone(stale >= MOST_STALE)); stale++);
    } catch (error) {
      if (error instanceof Refusal) call.noteUse()
      throw error
    }
    call.noteUse()
    return await call.release()
  } finally {
    call.end()
  }
}

/** One call: its last decision, and how it is made. */
function createCall<Answer>(
  services: Services,
  { tenant_id, findCaller, operation }: Calling & { operation: Operation<Answer> },
) {
  let decision: Decision<Answer> | undefined
  /** what the change of the last decision wrote */
  let written: WrittenRows = {}
  /** the caller that the last decision admitted */
  let admitted: Caller | undefined
  /** why the last decision admitted no caller, if its API key is not valid */
  let notAdmitted: Refusal | undefined
  /** what the budgets of the API key left this call, by where it was counted: a transaction may be rolled back */
  let taken: Map<Queryable, Taken> | undefined
  let isOver = false

  /** Forgets the last decision, so that it cannot be released, and zeroes its secrets. */
  function drop(): void {
    zeroSecrets(decision)
    decision = undefined
  }

  async function decideOn(state: TenantState, sql: Queryable, quotaLeft: number): Promise<Decided> {
    drop()
    written = {}
    admitted = undefined
    notAdmitted = undefined
    const { monthly_encrypt_quota: encryptQuota } = state.tenant
    try {
      const { caller, fault } = await findCaller(state)
      admitted = caller
      const context = { state: asSeenBy(state, caller.apiKey), caller, services, sql, quotaLeft, allowances: UNLIMITED }
      const made = await (hasBudgets(caller.apiKey) ? decideInBudget(context, caller.apiKey) : operation(context))
      decision = made
      if (isOver) {
        drop()
        return { entries: [], refused: new AuditWriteError('the caller stopped waiting') }
      }
      if (fault && (made.freshness ?? 'current') === 'current') throw fault
      const uses = takenOn(sql)
      const expiry = uses && (await decideExpiry(context, uses))
      const entries = draftEntries(made.entries, caller)
      const { length } = entries
      if (expiry) entries.push(...draftEntries(expiry.entries, systemCaller(services)))
      return {
        entries,
        change:
          (made.change || expiry) &&
          (async (lock, at) => {
            if (made.change) written = await write(services, made, { lock, at })
            if (expiry) await write(services, expiry, { lock, at: { ...at, entry_id: at.entry_id + length } })
            return (made.change ? length : 0) + (expiry?.entries.length ?? 0)
          }),
        encryptQuota,
      }
    } catch (error) {
      drop()
      if (!(error instanceof Refusal || error instanceof TamperedRowError)) throw error
      if (error instanceof Refusal && error.code === 'E_UNAUTHORIZED') notAdmitted = error
      return { entries: [], refused: error }
    }
  }

  function takenOn(sql: Queryable): Taken | undefined {
    return taken?.get(sql) ?? taken?.get(services.sql)
  }

  function decideInBudget(context: Context, apiKey: BudgetedApiKey): Promise<Decision<Answer>> {
    const { sql } = context
    let uses = takenOn(sql)
    if (uses?.budgets !== apiKey.budgets) uses = nothingTaken(apiKey)
    taken ??= new Map()
    taken.set(sql, uses)
    return decideWithin(operation, context, {
      before: uses,
      async take(made, before) {
        const now = await services.budgetCounts.take(sql, apiKey, made, before)
        if (now) taken?.set(sql, now)
        return now
      },
    })
  }

  async function decideAgain({ policy_version, lock, quotaLeft }: DecideOn): Promise<Decided | undefined> {
    const state = lock
      ? (await services.states.underLock(lock)).state
      : services.states.recent(tenant_id, policy_version)
    return state && decideOn(state, lock?.sql ?? services.sql, quotaLeft)
  }

  // If the chain itself is wrong, the current state is unknown, but verification must still report the fault. A caller
  // without a valid API key must not learn that the tenant or the alarm exists.
  function allowAlarm(error: unknown): true {
    if (!(error instanceof ChainAlarmError)) throw error
    if (notAdmitted) throw notAdmitted
    if (decision?.freshness === 'as_found') return true
    throw error
  }

  return {
    /** Decides, then commits the decision or compares its state; returns false if the state was out of date. */
    async isDone(inTurn: boolean): Promise<boolean> {
      const state = await services.states.find(tenant_id)
      if (!state) throw unauthorized('unknown')
      const decided: Decided = inTurn ? { entries: [] } : await decideOn(state, services.sql, Number.POSITIVE_INFINITY)
      const { entries, change, encryptQuota, refused } = decided
      if (entries.length > 0 || inTurn) {
        const { auditKey } = state
        const policy_version = inTurn ? Number.NaN : state.policy_version // no state was decided on
        const decide = decideAgain
        // Each member by name, because spreading the decision costs as much as two of its hashes.
        await services.committer
          .append({ entries, change, encryptQuota, refused, tenant_id, auditKey, policy_version, decide })
          .catch(allowAlarm)
        return true
      }
      if (!refused && decision?.freshness === 'cached') return true
      // A row that seems forged may have its MAC under an audit key that is newer than the state.
      const isNewest =
        refused instanceof TamperedRowError
          ? await isCurrent(services, state) // raises the alarm if the chain itself is wrong
          : await isCurrent(services, state).catch(allowAlarm)
      if (!isNewest) {
        await services.states.renew(state)
        return false
      }
      if (refused) throw refused
      return true
    },
    async release(): Promise<Answer> {
      const released = decision
      if (!released) throw new Error('a call was committed without a decision')
      decision = undefined // from here on, only the answer has its secrets
      try {
        return await released.release(written)
      } finally {
        zeroSecrets(released)
      }
    },
    /** Records that an admitted call, carried out or refused, used its API key, and counts what has no entry. */
    noteUse(): void {
      if (!admitted?.apiKey || admitted.ip_address === null || decision?.freshness === 'cached') return
      const now = services.now()
      const { apiKey, ip_address } = admitted
      const { api_key_id } = apiKey
      services.apiKeyUses.note(apiKey, now)
      for (const [kind, calls] of decision?.unrecorded ?? []) {
        services.unrecordedCalls.count(kind, { tenant_id, api_key_id, ip_address }, now, calls)
      }
    },
    end(): void {
      isOver = true
      drop()
    },
  }
}

/** Writes the rows of a change and returns them; the state under the lock continues from them. */
async function write(
  { states, committer }: Services,
  { change, entries }: Pick<Decision<unknown>, 'change' | 'entries'>,
  { lock, at }: { lock: HeadLock; at: EntryPosition },
): Promise<WrittenRows> {
  const locked = await states.underLock(lock) // before anything is written, so that it reads committed rows
  const written = (await change?.(lock.sql, at)) ?? {}
  locked.wrote(written, entries.length)
  const { installationHead } = written
  if (installationHead) lock.onCommit(() => committer.watches.get(INSTALLATION_ID).commit(installationHead))
  return written
}

/** Zeroes the secrets of a decision that is over, whatever its outcome. */
function zeroSecrets(decision: Decision<unknown> | undefined): void {
  for (const secret of decision?.secrets ?? []) secret.fill(0)
}

async function isCurrent({ committer }: Services, { tenant, auditKey, policy_version }: TenantState): Promise<boolean> {
  return (await committer.currentPolicyVersion({ tenant_id: tenant.tenant_id, auditKey })) === policy_version
}

/** Drafts the entries to chain. Those of a batch often share their metadata, so its text is made once. */
function draftEntries(notes: readonly EntryNote[], caller: Caller): EntryDraft[] {
  let last: EntryNote['metadata']
  let text: string | null = null
  return notes.map((note, at) => {
    if (at === 0 || note.metadata !== last) text = metadataText(note, caller)
    last = note.metadata
    return draft(note, caller, text)
  })
}

/** Drafts the entry to chain, with actor and address, and its metadata as canonical JSON. */
export function draftEntry(note: EntryNote, caller: Caller): EntryDraft {
  return draft(note, caller, metadataText(note, caller))
}

function draft({ action, key_id, key_version }: EntryNote, { actor, ip_address }: Caller, metadata: string | null) {
  return { action, key_id: key_id ?? null, key_version: key_version ?? null, actor, ip_address, metadata }
}

function metadataText({ metadata }: EntryNote, { on_behalf_of, correlation }: Caller): string | null {
  const named = on_behalf_of === undefined ? metadata : { ...metadata, on_behalf_of }
  const all = correlation === undefined ? named : { ...named, ...correlation }
  return all === undefined ? null : canonicalJson(all)
}

// The metadata of most entries is sorted already, and sorting it again would add to the cost of each call.
function isSorted(metadata: object): boolean {
  let before = ''
  for (const name in metadata) {
    if (name < before) return false
    before = name
  }
  return true
}

function sorted<Value>(metadata: Record<string, Value>): Record<string, Value> {
  return Object.fromEntries(Object.entries(metadata).sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** For one code unit of a string. */
const MAX_UTF8_BYTES = 3

/** RFC 8785 for flat objects: members sorted by name, no white space. */
function canonicalJson(metadata: NonNullable<EntryNote['metadata']>): string {
  const text = JSON.stringify(isSorted(metadata) ? metadata : sorted(metadata))
  // Readers cut off longer metadata, so the entry would no longer verify.
  if (text.length * MAX_UTF8_BYTES > MAX_METADATA && Buffer.byteLength(text) > MAX_METADATA)
    throw new Error(`the metadata of an entry is over ${MAX_METADATA} bytes`)
  return text
}
