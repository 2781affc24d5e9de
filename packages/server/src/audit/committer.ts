/**
 * The only writer of the audit chains. Each tenant has a queue; whatever waits is chained in memory and appended in one
 * statement (group commit): while one batch commits, the next one gathers. A caller's promise resolves when its entries
 * are committed and not before.
 *
 * A batch is appended under the policy version that its decisions were made on. When the version has moved, nothing is
 * written and the callers are told `stale`: they decide again. So what one process acknowledged, every other process acts on.
 */
import type { KeyObject } from 'node:crypto'
import type { Action } from '@eaas/protocol'
import { appendEntries, countMonth, lockHead } from '../store/audit.js'
import type { Sql, Transaction } from '../store/db.js'
import { DATABASE_DEADLINE_MS, withDeadline } from '../store/deadline.js'
import { AuditWriteError, auditWriteError } from './append-errors.js'
import { AppendQueue, type Waiting } from './append-queue.js'
import { type EntryDraft, extendChain, type Head, laterTime } from './chain.js'
import { HeadWatch } from './head-watch.js'
import { turn } from './turn.js'

/** Reads of a tenant's policy version at once; calls that come meanwhile share the next one. */
const READS_AT_ONCE = 8
/** After a lost race, how long a batch takes the row lock first, in milliseconds: another process writes this tenant. */
const SHARED_MS = 5_000

/** What one call wants to have on record. */
export interface Append {
  tenant_id: string
  auditKey: KeyObject
  /** the policy version that the decision was made on */
  policy_version: number
  entries: readonly EntryDraft[]
  /**
   * Writes the rows of a management change, in the transaction of its entries; `entry_id` is the id of the first of them.
   * May use the transaction only.
   */
  change?: ((sql: Transaction, at: { entry_id: number; created_at: string }) => Promise<void>) | undefined
  /** how many `encrypt` entries the tenant may have in a month (UTC); null is any number */
  encryptQuota?: number | null
}

/**
 * Committed; or nothing was written, because the policy version is another one by now, or because the encrypt entries are
 * more than the quota leaves.
 */
export type Outcome = 'committed' | 'stale' | { quotaLeft: number }

export interface Committer {
  /** Appends entries. @throws AuditWriteError, OverloadError */
  append(append: Append): Promise<Outcome>
  /**
   * The policy version in the database now; calls that wait together share one read.
   *
   * @throws AuditWriteError after an alarm, DatabaseDeadlineError, or the database's own error
   */
  currentPolicyVersion(tenant: { tenant_id: string; auditKey: KeyObject }): Promise<number>
  /** How many entries wait to be committed, of all tenants. */
  waiting(): number
  /** The tenants that are no longer served because their chain in the database is not the one that was written. */
  alarmed(): readonly string[]
  /** Resolves when nothing waits any more. */
  drain(): Promise<void>
}

export interface CommitterOptions {
  sql: Sql
  /** milliseconds since 1970 */
  now: () => number
  /** told once, when a tenant's chain in the database turns out to be cut, rolled back or forged */
  onAlarm: (tenant_id: string, reason: string) => void
  /** told of each batch after its commit, for metrics */
  observe?: ((commit: Commit) => void) | undefined
}

/** A batch that was committed. */
export interface Commit {
  /** of each entry */
  actions: readonly Action[]
  seconds: number
}

interface TenantLog {
  queue: AppendQueue
  draining: Promise<void> | undefined
  head: HeadWatch
  /** until when another process is taken to write this tenant too, by `performance.now()` */
  sharedUntil: number
  /** reads of the policy version that are under way, and the one that is shared by whoever asks now */
  reads: Set<Promise<unknown>>
  nextRead: Promise<number> | undefined
}

/** Makes the committer; one a process. */
export function createCommitter({ sql, now, onAlarm, observe }: CommitterOptions): Committer {
  const logs = new Map<string, TenantLog>()
  const all = { entries: 0 }

  function logOf(tenant_id: string): TenantLog {
    let log = logs.get(tenant_id)
    if (!log) {
      const head = new HeadWatch(tenant_id, onAlarm)
      const queue = new AppendQueue(all)
      log = { queue, draining: undefined, head, sharedUntil: 0, reads: new Set(), nextRead: undefined }
      logs.set(tenant_id, log)
    }
    return log
  }

  function append(append: Append): Promise<Outcome> {
    const log = logOf(append.tenant_id)
    const outcome = log.queue.add(append)
    log.draining ??= drainLog(log)
    return outcome
  }

  async function drainLog(log: TenantLog): Promise<void> {
    await turn() // gathers what arrives in this turn of the event loop
    for (let batch = log.queue.take(); batch.length > 0; batch = log.queue.take()) {
      const startedAt = performance.now()
      try {
        const outcomes = await log.queue.whileAwaited(commit(log, batch))
        const seconds = (performance.now() - startedAt) / 1_000
        log.queue.resolve(outcomes)
        report(batch, outcomes, seconds)
      } catch (error) {
        log.head.forget() // the outcome is unknown
        log.queue.reject(auditWriteError(error))
      }
    }
    log.draining = undefined
  }

  function report(batch: readonly Waiting[], outcomes: readonly Outcome[], seconds: number): void {
    if (!observe) return
    const actions = batch.flatMap(({ append }, at) =>
      outcomes[at] === 'committed' ? append.entries.map(({ action }) => action) : [],
    )
    if (actions.length > 0) observe({ actions, seconds })
  }

  async function commit(log: TenantLog, batch: readonly Waiting[]): Promise<Outcome[]> {
    log.head.demandNoAlarm()
    const [first] = batch
    if (first?.append.change) return [await commitChange(log, first)]
    if (performance.now() >= log.sharedUntil && !batch.some(isMetered)) {
      const head = await recentHead(log, batch)
      demandAwaited(batch)
      const attempt = chainOnto(head, batch, Number.POSITIVE_INFINITY)
      if (!attempt.entries) return attempt.outcomes
      if (await appendEntries(sql, { previous: head, next: attempt.next, entries: attempt.entries })) {
        log.head.witness(attempt.next)
        return attempt.outcomes
      }
      log.sharedUntil = performance.now() + SHARED_MS
    }
    // Another process writes this tenant too: take turns by the row lock, compare-and-swap alone would starve. Under the
    // lock the count against a quota is exact.
    const { head, outcomes } = await sql.begin(async (transaction) => {
      const previous = await log.head.read(transaction, firstAppend(batch).auditKey, lockHead)
      const attempt = chainOnto(previous, batch, await findQuotaLeft(transaction, previous, batch))
      if (!attempt.entries) return { head: previous, outcomes: attempt.outcomes }
      await mustAppend(transaction, previous, attempt)
      demandAwaited(batch)
      return { head: attempt.next, outcomes: attempt.outcomes }
    })
    log.head.witness(head)
    return outcomes
  }

  // One transaction: the rows of the change, its entries, the head with the next policy version. A crash before the commit
  // leaves none of them, a crash after it all of them.
  async function commitChange(log: TenantLog, waiting: Waiting): Promise<Outcome> {
    const { auditKey, entries: drafts, policy_version, change } = waiting.append
    const next = await sql.begin(async (transaction) => {
      const head = await log.head.read(transaction, auditKey, lockHead)
      if (head.policy_version !== policy_version) return undefined
      const chained = extendChain(head, drafts, { auditKey, now: now(), policy_version: policy_version + 1 })
      await change?.(transaction, { entry_id: head.last_id + 1, created_at: chained.head.created_at })
      await mustAppend(transaction, head, { entries: chained.entries, next: chained.head })
      demandAwaited([waiting])
      return chained.head
    })
    if (next === undefined) return 'stale'
    log.head.witness(next)
    return 'committed'
  }

  // Decides of each append whether it still holds, and chains those that do.
  function chainOnto(head: Head, batch: readonly Waiting[], quotaLeft: number) {
    let left = quotaLeft
    const outcomes = batch.map(({ append }): Outcome => {
      if (append.policy_version !== head.policy_version) return 'stale'
      const encrypts = countEncrypts(append)
      if (encrypts > left) return { quotaLeft: left }
      left -= encrypts
      return 'committed'
    })
    const drafts = batch.flatMap(({ append }, at) => (outcomes[at] === 'committed' ? append.entries : []))
    if (drafts.length === 0) return { outcomes }
    const chained = extendChain(head, drafts, { auditKey: firstAppend(batch).auditKey, now: now() })
    return { outcomes, entries: chained.entries, next: chained.head }
  }

  // Of the month in which the entries will be counted: that is not the clock's where the clock went back.
  async function findQuotaLeft(transaction: Transaction, previous: Head, batch: readonly Waiting[]): Promise<number> {
    const append = batch.find(isMetered)?.append
    if (append?.encryptQuota == null) return Number.POSITIVE_INFINITY
    const month = laterTime(previous.created_at, now()).slice(0, 7)
    const used = await countMonth(transaction, append.tenant_id, month)
    return Math.max(0, append.encryptQuota - (used.find(({ action }) => action === 'encrypt')?.entries ?? 0))
  }

  // The known head serves while every decision of the batch was made on its policy version. Where they differ, either may
  // be the older one: the database tells.
  async function recentHead(log: TenantLog, batch: readonly Waiting[]): Promise<Head> {
    const { known } = log.head
    if (known && batch.every(({ append }) => append.policy_version === known.policy_version)) return known
    return log.head.read(sql, firstAppend(batch).auditKey)
  }

  function currentPolicyVersion(tenant: { tenant_id: string; auditKey: KeyObject }): Promise<number> {
    const log = logOf(tenant.tenant_id)
    // Callers of one turn share a read that starts after all of them asked.
    log.nextRead ??= readPolicyVersion(log, tenant.auditKey)
    return log.nextRead
  }

  async function readPolicyVersion(log: TenantLog, auditKey: KeyObject): Promise<number> {
    const until = performance.now() + DATABASE_DEADLINE_MS
    await turn()
    while (log.reads.size >= READS_AT_ONCE) await Promise.race(log.reads).catch(() => undefined) // each has a deadline
    log.nextRead = undefined
    log.head.demandNoAlarm()
    const read = withDeadline(log.head.readPolicyVersion(sql, auditKey), until - performance.now())
    log.reads.add(read)
    try {
      return await read
    } finally {
      log.reads.delete(read)
    }
  }

  return {
    append,
    currentPolicyVersion,
    waiting: () => all.entries,
    alarmed: () => [...logs].flatMap(([tenant_id, log]) => (log.head.isAlarmed ? [tenant_id] : [])),
    async drain() {
      await Promise.all([...logs.values()].map((log) => log.draining))
    },
  }
}

// What nobody waits for any more is rolled back while that can be.
function demandAwaited(batch: readonly Waiting[]): void {
  if (batch.every(({ isGivenUp }) => isGivenUp)) throw new AuditWriteError('nobody waits for these entries any more')
}

async function mustAppend(
  sql: Transaction,
  previous: Head,
  { entries, next }: Pick<ReturnType<typeof extendChain>, 'entries'> & { next: Head },
): Promise<void> {
  if (!(await appendEntries(sql, { previous, next, entries }))) {
    throw new AuditWriteError('the head of the audit chain changed under its own lock')
  }
}

function isMetered({ append }: { append: Append }): boolean {
  return append.encryptQuota != null && countEncrypts(append) > 0
}

function countEncrypts({ entries }: Append): number {
  return entries.reduce((sum, { action }) => (action === 'encrypt' ? sum + 1 : sum), 0)
}

function firstAppend(batch: readonly { append: Append }[]): Append {
  const [first] = batch
  if (!first) throw new Error('an empty batch')
  return first.append
}
