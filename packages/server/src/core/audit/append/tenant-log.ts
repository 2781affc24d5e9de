/**
 * Writes the entries of one tenant's log by group commit: while one group commits, the next one gathers. A group is
 * appended under the policy version on which its decisions were made. If that version has changed, they are made again
 * without leaving the queue: on this process's state of the newer version, or under the lock of the head. So a call
 * keeps its position however fast the tenant changes, and every process acts on changes that another one acknowledged.
 *
 * A caller's promise resolves once its entries are committed. Changes that wait together are decided one after another,
 * each on the result of the one before, and committed in one transaction.
 */
import type { ChainedEntry } from '@eaas/audit/formats'
import { createStretches, turn } from '../../event-loop.js'
import { countMonth, lockHead } from '../../store/audit.js'
import { isRolledBack, type Sql, type Transaction } from '../../store/db.js'
import { DATABASE_DEADLINE_MS, DatabaseDeadlineError, withDeadline, withoutDeadlines } from '../../store/deadline.js'
import { TamperedRowError } from '../../store/tampered-row.js'
import { isUnreachable } from '../../store/unreachable.js'
import { AuditWriteError, auditWriteError, untilFollowed } from '../append-errors.js'
import { type AuditKey, beginExtension, type EntryDraft, type Head, laterTime } from '../formats/chain.js'
import type { Guard } from '../guard.js'
import { AppendQueue, isUnderLock, type Waiting } from './append-queue.js'
import type { CommitterOptions, RecentCommits } from './committer.js'
import { type Appends, appendToLocked } from './send-appends.js'

const READS_AT_ONCE = 8
/** In milliseconds: after a lost race, another process writes this tenant too, so groups lock the row at once. */
const SHARED_MS = 5_000

/** The lock of a head; a transaction holds it until it ends. */
export interface HeadLock {
  sql: Transaction
  head: Head
  /** The callback gets the new head after the transaction has committed. */
  onCommit: (callback: (head: Head) => void) => void
}

export type EntryPosition = { entry_id: number; entry_hash: Uint8Array; created_at: string }

export interface Decided {
  /** committed before the caller is answered; none for a call that only reads */
  entries: readonly EntryDraft[]
  /** Writes rows in the transaction of the entries; returns how many of these record a change. */
  change?: ((lock: HeadLock, at: EntryPosition) => Promise<number>) | undefined
  /** the most `encrypt` entries of the tenant in a month (UTC); null means no limit */
  encryptQuota?: number | null | undefined
  /** the only error that the caller gets, once the decision is known to be made on the current state */
  refused?: Error | undefined
}

export interface DecideOn {
  policy_version: number
  /** set while the lock is held: the state includes the changes of this transaction, and only its connection may be used */
  lock?: HeadLock
  quotaLeft: number
}

export interface Append extends Decided {
  tenant_id: string
  auditKey: AuditKey
  /** the policy version on which the decision was made; NaN if there is no decision yet */
  policy_version: number
  /** Undefined if this process lacks the state of this version, which never happens under a lock. */
  decide: (on: DecideOn) => Promise<Decided | undefined>
}

interface Shared extends Pick<CommitterOptions, 'sql' | 'clock' | 'guard' | 'observe'> {
  recent: RecentCommits
  appends: Appends
  all: { entries: number }
}

export class TenantLog {
  readonly #queue: AppendQueue
  #draining: Promise<void> | undefined
  /** by `performance.now()`; until then another process is assumed to write this tenant too */
  #sharedUntil = 0
  readonly #reads = new Set<Promise<unknown>>()
  #nextRead: Promise<number> | undefined

  constructor(
    private readonly shared: Shared,
    private readonly tenant_id: string,
  ) {
    this.#queue = new AppendQueue(shared.all)
  }

  append(append: Append): Promise<void> {
    const committed = this.#queue.add(append)
    this.#draining ??= this.#drain()
    return committed
  }

  /** Calls of one turn of the event loop share a read that starts after all of them. @throws AuditWriteError */
  currentPolicyVersion(auditKey: AuditKey): Promise<number> {
    this.#nextRead ??= this.#readPolicyVersion(auditKey)
    return this.#nextRead
  }

  async drained(): Promise<void> {
    await this.#draining
  }

  async #drain(): Promise<void> {
    const { appends, observe, recent } = this.shared
    await turn() // gathers the calls that arrive in this turn of the event loop
    for (;;) {
      await appends.gathering()
      const group = this.#queue.take()
      if (group.length === 0) break
      const startedAt = performance.now()
      try {
        await this.#queue.whileAwaited(this.#commit(group))
        const seconds = (performance.now() - startedAt) / 1_000
        this.#queue.answer()
        const drafts = draftsOf(group)
        if (drafts.length === 0) continue
        recent.succeeded(drafts.length)
        observe?.({ actions: drafts.map(({ action }) => action), seconds })
      } catch (error) {
        this.shared.guard.outcomeUnknown(this.tenant_id)
        recent.failed(error)
        this.#queue.answer(auditWriteError(error))
      }
    }
    this.#draining = undefined
  }

  async #commit(group: readonly Waiting[]): Promise<void> {
    this.shared.guard.assertServed(this.tenant_id)
    if (performance.now() >= this.#sharedUntil && !group.some(needsLock) && (await this.#swapHead(group))) return
    // A change, a quota, another process that writes this tenant, or a state that this process lacks: compare-and-swap
    // alone could starve these.
    await this.#appendLocked(group)
  }

  /** Appends by compare-and-swap; returns false, having written nothing, if the group needs the lock. */
  async #swapHead(group: readonly Waiting[]): Promise<boolean> {
    const { appends, clock, guard } = this.shared
    const head = await this.#recentHead(group)
    assertAwaited(group)
    for (const waiting of awaited(group)) {
      if (waiting.policy_version === head.policy_version) continue
      if (!(await isDecidedAgain(waiting, head.policy_version))) return false
    }
    if (group.some(needsLock)) return false
    const drafts = draftsOf(awaited(group))
    if (drafts.length === 0) return false
    const time = clock.read(head)
    const extension = extendInStretches(head, { auditKey: auditKeyOf(group), now: time })
    await extension.add(drafts)
    const { entries, head: next } = extension.seal(head.policy_version)
    if (await appends.append({ previous: head, next, entries, time })) {
      guard.committed(next)
      return true
    }
    this.#sharedUntil = performance.now() + SHARED_MS
    return false
  }

  // A tampered row fails its change, and the rollback also undoes the others, so each is tried again alone.
  async #appendLocked(group: readonly Waiting[]): Promise<void> {
    try {
      await this.#appendTogether(group)
    } catch (error) {
      if (group.length === 1 || !group.some(isUnderLock) || !isNotWritten(error)) throw error
      for (const waiting of group) {
        if (waiting.isGivenUp) continue
        try {
          await this.#appendTogether([waiting])
        } catch (error) {
          this.shared.guard.outcomeUnknown(this.tenant_id)
          waiting.decided = { entries: [], refused: auditWriteError(error) }
        }
      }
    }
  }

  // One transaction: after a crash the database has all rows, entries and the new head, or none of them.
  async #appendTogether(group: readonly Waiting[]): Promise<void> {
    const { sql, clock, guard } = this.shared
    const { tenant_id } = this
    const auditKey = auditKeyOf(group)
    const callbacks: ((head: Head) => void)[] = []
    const next = await beginKnown(sql, async (transaction) => {
      const head = await guard.readHead(transaction, { tenant_id, auditKey }, lockHead)
      const lock: HeadLock = { sql: transaction, head, onCommit: (callback) => void callbacks.push(callback) }
      const time = clock.read(head)
      const created_at = laterTime(head.created_at, time)
      const meter = createMeter(transaction, tenant_id, created_at.slice(0, 7))
      const extension = extendInStretches(head, { auditKey, now: time })
      let { policy_version } = head
      for (const waiting of group) {
        if (waiting.isGivenUp) continue
        if (waiting.policy_version !== policy_version)
          await decideAgain(waiting, { policy_version, lock, quotaLeft: Number.POSITIVE_INFINITY })
        const quotaLeft = await meter.left(waiting.decided)
        if (countEncrypts(waiting.decided) > quotaLeft) await decideAgain(waiting, { policy_version, lock, quotaLeft })
        const { refused, change, entries } = waiting.decided
        if (refused) continue
        const first = await extension.add(entries)
        if (change) {
          if (!first) throw new Error('a change has no entry')
          policy_version += await change(lock, { entry_id: first.id, entry_hash: first.hash, created_at }) // chain.md 6
        }
        meter.count(waiting.decided)
      }
      const chained = extension.seal(policy_version)
      if (chained.entries.length === 0) return head
      await appendToLocked(transaction, clock, { previous: head, next: chained.head, entries: chained.entries, time })
      assertAwaited(group)
      return chained.head
    })
    guard.committed(next)
    for (const callback of callbacks) callback(next)
  }

  // A decision on a newer policy version shows that the known head is outdated.
  async #recentHead(group: readonly Waiting[]): Promise<Head> {
    const { sql, guard } = this.shared
    const { tenant_id } = this
    const known = guard.knownHead(tenant_id)
    if (known && group.every(({ policy_version }) => policy_version <= known.policy_version)) return known
    return guard.readHead(sql, { tenant_id, auditKey: auditKeyOf(group) })
  }

  async #readPolicyVersion(auditKey: AuditKey): Promise<number> {
    const until = performance.now() + DATABASE_DEADLINE_MS
    await turn()
    while (this.#reads.size >= READS_AT_ONCE) await Promise.race(this.#reads).catch(() => undefined) // each has a deadline
    this.#nextRead = undefined
    this.shared.guard.assertServed(this.tenant_id)
    const { sql, guard } = this.shared
    const read = withDeadline(guard.readHead(sql, { tenant_id: this.tenant_id, auditKey }), until - performance.now())
    this.#reads.add(read)
    try {
      return (await read).policy_version
    } finally {
      this.#reads.delete(read)
    }
  }
}

/** Lets other tenants' calls run in between if continuing the chain takes long. */
function extendInStretches(head: Head, options: Parameters<typeof beginExtension>[1]) {
  const extension = beginExtension(head, options)
  const pause = createStretches()
  return {
    async add(drafts: readonly EntryDraft[]): Promise<ChainedEntry | undefined> {
      let first: ChainedEntry | undefined
      for (const draft of drafts) {
        const due = pause()
        if (due) await due
        const added = extension.add(draft)
        first ??= added
      }
      return first
    },
    seal: extension.seal,
  }
}

function assertAwaited(group: readonly Waiting[]): void {
  if (group.every(({ isGivenUp }) => isGivenUp))
    throw new AuditWriteError('the callers stopped waiting for these entries')
}

/** Returns whether this process has the state of this policy version. */
async function isDecidedAgain(waiting: Waiting, policy_version: number): Promise<boolean> {
  let decided: Decided | undefined
  try {
    decided = await waiting.append.decide({ policy_version, quotaLeft: Number.POSITIVE_INFINITY })
  } catch (error) {
    decided = { entries: [], refused: error instanceof Error ? error : new Error(String(error)) } // fails this call only
  }
  if (!decided) return false
  waiting.decided = decided
  waiting.policy_version = policy_version
  return true
}

/** The new decision depends on uncommitted changes: after a rollback it must not count as made on any version. */
async function decideAgain(waiting: Waiting, on: DecideOn & { lock: HeadLock }): Promise<void> {
  waiting.policy_version = Number.NaN
  const decided = await waiting.append.decide(on)
  if (!decided) throw new Error('a call was not decided under the lock of the head')
  waiting.decided = decided
}

/** The count of `encrypt` entries is exact, since no other process writes while the head is locked. */
function createMeter(sql: Transaction, tenant_id: string, month: string) {
  let used: number | undefined
  return {
    async left(decided: Decided): Promise<number> {
      if (!isMetered(decided) || decided.encryptQuota == null) return Number.POSITIVE_INFINITY
      used ??= (await countMonth(sql, tenant_id, month)).find(({ action }) => action === 'encrypt')?.entries ?? 0
      return Math.max(0, decided.encryptQuota - used)
    },
    count(decided: Decided): void {
      if (used !== undefined) used += countEncrypts(decided)
    },
  }
}

function needsLock(waiting: Waiting): boolean {
  return !waiting.decided.refused && (isUnderLock(waiting) || isMetered(waiting.decided))
}

function isMetered(decided: Decided): boolean {
  return decided.encryptQuota != null && countEncrypts(decided) > 0
}

function countEncrypts({ entries }: Decided): number {
  return entries.reduce((sum, { action }) => (action === 'encrypt' ? sum + 1 : sum), 0)
}

function awaited(group: readonly Waiting[]): Waiting[] {
  return group.filter(({ isGivenUp }) => !isGivenUp)
}

function draftsOf(group: readonly Waiting[]): EntryDraft[] {
  return group.flatMap(({ decided }) => (decided.refused ? [] : decided.entries))
}

function isNotWritten(error: unknown): boolean {
  return error instanceof TamperedRowError || isRolledBack(error instanceof AuditWriteError ? error.cause : error)
}

// If the connection ended before COMMIT was sent, the transaction was rolled back; after a deadline it may still commit.
async function beginKnown<T>(sql: Sql, work: (transaction: Transaction) => Promise<T>): Promise<T> {
  let isDone = false
  try {
    return (await sql.begin(async (transaction) => {
      const result = await work(transaction)
      isDone = true
      return result
    })) as T
  } catch (error) {
    if (isDone || !isUnreachable(error) || error instanceof DatabaseDeadlineError) throw error
    throw auditWriteError(error, { mayBeWritten: false })
  }
}

function auditKeyOf([first]: readonly Waiting[]): AuditKey {
  if (!first) throw new Error('an empty group')
  return first.append.auditKey
}

/**
 * Extends a log without the committer. Locks the head in a transaction, follows the log to its end, and runs `work`,
 * which may take long and returns the head that it wrote, if any. @throws ChainAlarmError, or what `work` throws
 */
export async function extendLocked(
  { sql, committer: { guard } }: { sql: Sql; committer: { guard: Guard } },
  log: { tenant_id: string; auditKey: AuditKey },
  work: (transaction: Transaction, previous: Head) => Promise<Head | undefined>,
): Promise<Head | undefined> {
  const next = await untilFollowed(() =>
    withoutDeadlines(sql).begin(async (transaction) =>
      work(transaction, await guard.readHead(transaction, log, lockHead)),
    ),
  )
  if (next) guard.committed(next)
  return next
}
