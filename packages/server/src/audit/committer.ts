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
import { withDeadline } from '../store/deadline.js'
import { AuditWriteError, auditWriteError, OverloadError } from './append-errors.js'
import { type EntryDraft, extendChain, type Head } from './chain.js'
import { HeadWatch } from './head-watch.js'

/** Entries in one statement at most. */
const BATCH_ENTRIES = 512
/** Appends that may wait for one tenant; more are refused at once. */
const QUEUE_LIMIT = 10_000
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
  /** The policy version in the database now; calls that wait together share one read. @throws AuditWriteError */
  currentPolicyVersion(tenant: { tenant_id: string; auditKey: KeyObject }): Promise<number>
  /** How many entries wait for a commit, of all tenants. */
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

interface Waiting {
  append: Append
  resolve: (outcome: Outcome) => void
  reject: (error: Error) => void
}

interface TenantLog {
  queue: Waiting[]
  draining: Promise<void> | undefined
  head: HeadWatch
  /** until when another process is taken to write this tenant too, milliseconds since 1970 */
  sharedUntil: number
  nextRead: Promise<number> | undefined
}

/** Makes the committer; one a process. */
export function createCommitter({ sql, now, onAlarm, observe }: CommitterOptions): Committer {
  const logs = new Map<string, TenantLog>()

  function logOf(tenant_id: string): TenantLog {
    let log = logs.get(tenant_id)
    if (!log) {
      const head = new HeadWatch(tenant_id, onAlarm)
      log = { queue: [], draining: undefined, head, sharedUntil: 0, nextRead: undefined }
      logs.set(tenant_id, log)
    }
    return log
  }

  function append(append: Append): Promise<Outcome> {
    const log = logOf(append.tenant_id)
    if (log.queue.length >= QUEUE_LIMIT)
      return Promise.reject(new OverloadError('too many calls wait for the audit log'))
    return new Promise((resolve, reject) => {
      log.queue.push({ append, resolve, reject })
      log.draining ??= drainLog(log)
    })
  }

  async function drainLog(log: TenantLog): Promise<void> {
    await turn() // gathers what arrives in this turn of the event loop
    while (log.queue.length > 0) {
      const batch = takeBatch(log.queue)
      const startedAt = performance.now()
      try {
        const outcomes = await withDeadline(commit(log, batch))
        const seconds = (performance.now() - startedAt) / 1_000
        batch.forEach((waiting, at) => {
          waiting.resolve(outcomes[at] ?? 'stale')
        })
        report(batch, outcomes, seconds)
      } catch (error) {
        log.head.forget() // the outcome is unknown
        for (const waiting of batch) waiting.reject(auditWriteError(error))
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
    if (first?.append.change) return [await commitChange(log, first.append)]
    if (now() >= log.sharedUntil && !batch.some(isMetered)) {
      const head = await recentHead(log, batch)
      const attempt = chainOnto(head, batch, Number.POSITIVE_INFINITY)
      if (!attempt.entries) return attempt.outcomes
      if (await appendEntries(sql, { previous: head, next: attempt.next, entries: attempt.entries })) {
        log.head.witness(attempt.next)
        return attempt.outcomes
      }
      log.sharedUntil = now() + SHARED_MS
    }
    // Another process writes this tenant too: take turns by the row lock, compare-and-swap alone would starve. Under the
    // lock the count against a quota is exact.
    const { head, outcomes } = await sql.begin(async (transaction) => {
      const previous = await log.head.read(transaction, firstAppend(batch).auditKey, lockHead)
      const attempt = chainOnto(previous, batch, await findQuotaLeft(transaction, batch))
      if (!attempt.entries) return { head: previous, outcomes: attempt.outcomes }
      await mustAppend(transaction, previous, attempt)
      return { head: attempt.next, outcomes: attempt.outcomes }
    })
    log.head.witness(head)
    return outcomes
  }

  // One transaction: the rows of the change, its entries, the head with the next policy version. A crash before the commit
  // leaves none of them, a crash after it all of them.
  async function commitChange(log: TenantLog, append: Append): Promise<Outcome> {
    const { auditKey, entries: drafts, policy_version, change } = append
    const next = await sql.begin(async (transaction) => {
      const head = await log.head.read(transaction, auditKey, lockHead)
      if (head.policy_version !== policy_version) return undefined
      const chained = extendChain(head, drafts, { auditKey, now: now(), policy_version: policy_version + 1 })
      await change?.(transaction, { entry_id: head.last_id + 1, created_at: chained.head.created_at })
      await mustAppend(transaction, head, { entries: chained.entries, next: chained.head })
      return chained.head
    })
    if (next === undefined) {
      log.head.forget()
      return 'stale'
    }
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

  async function findQuotaLeft(transaction: Transaction, batch: readonly Waiting[]): Promise<number> {
    const append = batch.find(isMetered)?.append
    if (append?.encryptQuota == null) return Number.POSITIVE_INFINITY
    const month = new Date(now()).toISOString().slice(0, 7)
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
    log.nextRead ??= turn().then(() => {
      log.nextRead = undefined
      return readPolicyVersion(log, tenant.auditKey)
    })
    return log.nextRead
  }

  async function readPolicyVersion({ head }: TenantLog, auditKey: KeyObject): Promise<number> {
    head.demandNoAlarm()
    try {
      return await withDeadline(head.readPolicyVersion(sql, auditKey))
    } catch (error) {
      throw auditWriteError(error)
    }
  }

  return {
    append,
    currentPolicyVersion,
    waiting: () => [...logs.values()].reduce((sum, { queue }) => sum + countEntries(queue), 0),
    alarmed: () => [...logs].flatMap(([tenant_id, log]) => (log.head.isAlarmed ? [tenant_id] : [])),
    async drain() {
      await Promise.all([...logs.values()].map((log) => log.draining))
    },
  }
}

/** Takes a management change alone, or all plain appends up to the next change or the size limit. */
function takeBatch(queue: Waiting[]): Waiting[] {
  if (queue[0]?.append.change) return queue.splice(0, 1)
  let entries = 0
  let size = 0
  for (const { append } of queue) {
    entries += append.entries.length
    if (append.change || (entries > BATCH_ENTRIES && size > 0)) break
    size += 1
  }
  return queue.splice(0, size)
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

function countEntries(queue: readonly Waiting[]): number {
  return queue.reduce((sum, { append }) => sum + append.entries.length, 0)
}

function countEncrypts({ entries }: Append): number {
  return entries.reduce((sum, { action }) => (action === 'encrypt' ? sum + 1 : sum), 0)
}

function firstAppend(batch: readonly { append: Append }[]): Append {
  const [first] = batch
  if (!first) throw new Error('an empty batch')
  return first.append
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
