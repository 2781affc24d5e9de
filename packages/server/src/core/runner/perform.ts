import type { Decided, DecideOn, EntryPosition, HeadLock } from '../audit/append/tenant-log.js'
import { AuditWriteError, ChainAlarmError, TenantGoneError, untilFollowed } from '../audit/append-errors.js'
import type { Queryable } from '../store/db.js'
import { TamperedRowError } from '../store/tampered-row.js'
import { UNLIMITED, withinBudget, zeroSecrets } from './budgets.js'
import { draftEntries } from './entry-drafts.js'
import type { WrittenRows } from './opened-keys.js'
import type { Caller, Decision, Operation, Services } from './operation.js'
import { Refusal, unauthorized } from './refusal.js'
import { asSeenBy, isMovedAway, type TenantState } from './tenant-state.js'

/** A call without entries decides at most this often on an outdated state; then it decides under the lock of the head. */
const MOST_STALE = 2

export function systemCaller({ actor }: Pick<Services, 'actor'>): Caller {
  return { actor, ip_address: null, on_behalf_of: undefined, apiKey: undefined }
}

/**
 * For the server itself or its operator. With `underLock`, the operation decides under the lock of the head, where no other process
 * writes to the log; `caller` is the actor if the operator used an API key. @throws Refusal, AuditWriteError, OverloadError
 */
export function performAsSystem<Answer>(
  services: Services,
  tenant_id: string,
  operation: Operation<Answer>,
  { underLock = false, caller = systemCaller(services) }: { underLock?: boolean; caller?: Caller } = {},
): Promise<Answer> {
  const findCaller = ({ fault }: TenantState) => ({ caller, fault })
  return untilFollowed(() => carryOut(services, { tenant_id, findCaller, underLock }, operation))
}

interface Calling {
  tenant_id: string
  /** Finds the caller in the state, and any fault in the caller's rows. @throws Refusal */
  findCaller: (state: TenantState) => MaybePromise<{ caller: Caller; fault: TamperedRowError | undefined }>
  underLock?: boolean
}

type MaybePromise<T> = T | Promise<T>

/**
 * Answers once the entries of an operation are committed. A refusal counts only if it was made on the current state:
 * another process may have just created or enabled the key. @throws Refusal, AuditWriteError, OverloadError
 */
export async function carryOut<Answer>(
  services: Services,
  calling: Calling,
  operation: Operation<Answer>,
): Promise<Answer> {
  const call = new Call(services, calling, withinBudget(operation))
  try {
    try {
      let stale = calling.underLock ? MOST_STALE : 0
      while (!(await call.isDone(stale >= MOST_STALE))) stale += 1
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

class Call<Answer> {
  #decision: Decision<Answer> | undefined
  #written: WrittenRows = {}
  #admitted: Caller | undefined
  /** if the API key is not valid, why the last decision admitted no caller */
  #notAdmitted: Refusal | undefined
  #isOver = false

  constructor(
    private readonly services: Services,
    private readonly calling: Calling,
    private readonly operation: Operation<Answer>,
  ) {}

  /** Decides, then commits the decision or compares its state; returns false if the state was outdated. */
  async isDone(underLock: boolean): Promise<boolean> {
    const { services } = this
    const { tenant_id } = this.calling
    const state = await services.states.find(tenant_id)
    if (!state) throw unauthorized('unknown')
    const decided: Decided = underLock
      ? { entries: [] }
      : await this.#decideOn(state, services.sql, Number.POSITIVE_INFINITY)
    const { entries, change, encryptQuota, refused } = decided
    const allowAlarm = (error: unknown) => this.#allowAlarm(error)
    if (entries.length > 0 || underLock) {
      const { auditKey } = state
      const policy_version = underLock ? Number.NaN : state.policy_version // nothing was decided yet
      const decide = (on: DecideOn) => this.#decideAgain(on)
      // Member by member, since spreading the decision costs as much as two hashes.
      await services.committer
        .append({ entries, change, encryptQuota, refused, tenant_id, auditKey, policy_version, decide })
        .catch(allowAlarm)
      return true
    }
    if (!refused && this.#decision?.freshness === 'cached') return true
    const current = isCurrent(services, state)
    // The MAC of a row that seems forged may be under a newer audit key. If the chain itself is wrong, the alarm is the answer.
    const isNewest = await (refused instanceof TamperedRowError ? current : current.catch(allowAlarm))
    if (!isNewest) {
      await services.states.renew(state)
      return false
    }
    if (refused) throw refused
    return true
  }

  async #decideOn(state: TenantState, sql: Queryable, quotaLeft: number): Promise<Decided> {
    this.#drop()
    this.#written = {}
    this.#admitted = undefined
    this.#notAdmitted = undefined
    const { services } = this
    try {
      const { caller, fault } = await this.calling.findCaller(state)
      this.#admitted = caller
      const context = { state: asSeenBy(state, caller.apiKey), caller, services, sql, quotaLeft, allowances: UNLIMITED }
      const made = await this.operation(context)
      this.#decision = made
      if (this.#isOver) {
        this.#drop()
        return { entries: [], refused: new AuditWriteError('the caller stopped waiting') }
      }
      if (fault && (made.freshness ?? 'current') === 'current') throw fault
      if (made.entries.length > 0) assertNotMovedAway(state)
      return this.#toCommit(made, { caller, state })
    } catch (error) {
      this.#drop()
      if (!(error instanceof Refusal || error instanceof TamperedRowError)) throw error
      if (error instanceof Refusal && error.code === 'E_UNAUTHORIZED') this.#notAdmitted = error
      return { entries: [], refused: error }
    }
  }

  #toCommit(made: Decision<Answer>, { caller, state }: { caller: Caller; state: TenantState }): Decided {
    const { services } = this
    const { byServer } = made
    const entries = draftEntries(made.entries, caller)
    const { length } = entries
    if (byServer) entries.push(...draftEntries(byServer.entries, systemCaller(services)))
    return {
      entries,
      change:
        (made.change || byServer) &&
        (async (lock, at) => {
          if (made.change) this.#written = await write(services, made, { lock, at })
          if (byServer) await write(services, byServer, { lock, at: { ...at, entry_id: at.entry_id + length } })
          return (made.change ? length : 0) + (byServer?.entries.length ?? 0)
        }),
      encryptQuota: state.tenant.monthly_encrypt_quota,
    }
  }

  async #decideAgain({ policy_version, lock, quotaLeft }: DecideOn): Promise<Decided | undefined> {
    const { states, sql } = this.services
    const state = lock ? (await states.underLock(lock)).state : states.recent(this.calling.tenant_id, policy_version)
    return state && this.#decideOn(state, lock?.sql ?? sql, quotaLeft)
  }

  // If the chain itself is wrong, the current state is unknown, but verification must still report the fault. A caller
  // without a valid API key must not learn that the tenant or the alarm exists.
  #allowAlarm(error: unknown): true {
    if (error instanceof TenantGoneError) throw unauthorized('unknown')
    if (!(error instanceof ChainAlarmError)) throw error
    if (this.#notAdmitted) throw this.#notAdmitted
    if (this.#decision?.freshness === 'as_found') return true
    throw error
  }

  async release(): Promise<Answer> {
    const released = this.#decision
    if (!released) throw new Error('a call was committed without a decision')
    this.#decision = undefined // from here on, only the answer has the secrets
    try {
      return await released.release(this.#written)
    } finally {
      zeroSecrets(released)
    }
  }

  /** Records that an admitted call, carried out or refused, used its API key, and counts its uses without an entry. */
  noteUse(): void {
    const decision = this.#decision
    const { apiKey, ip_address = null } = this.#admitted ?? {}
    if (!apiKey || ip_address === null || decision?.freshness === 'cached') return
    const { services } = this
    const now = services.now()
    services.apiKeyUses.note(apiKey, now)
    const caller = { tenant_id: this.calling.tenant_id, api_key_id: apiKey.api_key_id, ip_address }
    for (const [kind, calls] of decision?.unrecorded ?? []) services.unrecordedCalls.count(kind, caller, now, calls)
  }

  end(): void {
    this.#isOver = true
    this.#drop()
  }

  #drop(): void {
    zeroSecrets(this.#decision)
    this.#decision = undefined
  }
}

export const END_ITS_MOVE = 'end its move first, or undo that (eaas tenant move)'

function assertNotMovedAway({ tenant, moved_to }: TenantState): void {
  if (!isMovedAway(tenant)) return
  const { name, status } = tenant
  const where = moved_to && `: ${moved_to.address ?? `the installation with the public key ${moved_to.public_key}`}`
  const todo = status === 'moved' ? `do this where it is now${where ?? ''}` : END_ITS_MOVE
  throw new Refusal('E_STATE', `tenant ${name} is ${status}: ${todo}`)
}

/** Writes the rows of a change and returns them; the state under the lock then includes them. */
async function write(
  { states, committer }: Services,
  { change, entries }: Pick<Decision<unknown>, 'change' | 'entries'>,
  { lock, at }: { lock: HeadLock; at: EntryPosition },
): Promise<WrittenRows> {
  const locked = await states.underLock(lock) // before anything is written, so that it reads committed rows
  const written = (await change?.(lock.sql, at)) ?? {}
  locked.wrote(written, entries.length)
  const { installationHead } = written
  if (installationHead) lock.onCommit(() => committer.guard.committed(installationHead))
  return written
}

async function isCurrent({ committer }: Services, { tenant, auditKey, policy_version }: TenantState): Promise<boolean> {
  return (await committer.currentPolicyVersion({ tenant_id: tenant.tenant_id, auditKey })) === policy_version
}
