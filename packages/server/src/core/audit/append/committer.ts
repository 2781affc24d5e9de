/** Writes the entries of all calls: each tenant has a log, with a queue of its own (tenant-log.ts). */
import type { LogAction } from '@eaas/protocol'
import { isRolledBack, type Sql } from '../../store/db.js'
import type { AuditKey } from '../formats/chain.js'
import type { Guard } from '../guard.js'
import type { Clock } from './clock.js'
import { createSeparateAppends, createSharedAppends, type TenantsPerStatement } from './send-appends.js'
import { type Append, TenantLog } from './tenant-log.js'

export interface Committer {
  /**
   * Appends the entries of a decision, or of the decision that replaced it; without entries, waits until the decision
   * is known to be made on the current state. @throws AuditWriteError, OverloadError, or the reason of its refusal
   */
  append(append: Append): Promise<void>
  /**
   * The policy version in the database now; calls that wait together share one read.
   *
   * @throws AuditWriteError after an alarm, DatabaseDeadlineError, or the database's own error
   */
  currentPolicyVersion(tenant: { tenant_id: string; auditKey: AuditKey }): Promise<number>
  /** How many entries of all tenants wait to be committed. */
  waiting(): number
  /** says which head a log is continued from, and which tenants are served */
  readonly guard: Guard
  /** the clock that entries are dated by */
  readonly clock: Clock
  /** How the last groups ended. */
  readonly recent: RecentCommits
  /** Resolves when no append waits any more. */
  drain(): Promise<void>
}

export interface CommitterOptions {
  sql: Sql
  /** dates the entries */
  clock: Clock
  /** `one` for a database that spans machines; many by default */
  tenantsPerStatement?: TenantsPerStatement
  guard: Guard
  /** called with each group after its commit, for metrics */
  observe?: ((commit: Commit) => void) | undefined
}

/** A group that was committed. */
export interface Commit {
  /** of each entry */
  actions: readonly LogAction[]
  seconds: number
}

/** Creates the committer; one per process. */
export function createCommitter({ tenantsPerStatement = 'many', ...options }: CommitterOptions): Committer {
  const logs = new Map<string, TenantLog>()
  const all = { entries: 0 }
  const recent = new RecentCommits()
  const appends = (tenantsPerStatement === 'many' ? createSharedAppends : createSeparateAppends)(options)
  const shared = { ...options, appends, recent, all }

  function logOf(tenant_id: string): TenantLog {
    let log = logs.get(tenant_id)
    if (!log) {
      log = new TenantLog(shared, tenant_id)
      logs.set(tenant_id, log)
    }
    return log
  }

  return {
    append: (append) => logOf(append.tenant_id).append(append),
    currentPolicyVersion: ({ tenant_id, auditKey }) => logOf(tenant_id).currentPolicyVersion(auditKey),
    waiting: () => all.entries,
    recent,
    guard: options.guard,
    clock: options.clock,
    async drain() {
      await Promise.all([...logs.values()].map((log) => log.drained()))
    },
  }
}

/**
 * SQLSTATEs of errors that belong to one tenant or one moment: serialization and deadlock (class 40), a name taken
 * (23505), a store key that was rotated meanwhile (23503), a lock or a statement that took too long (55P03, 57014).
 */
const PASSING = /^(?:40...|2350[35]|55P03|57014)$/

/** How the last commits ended, for /health. */
export class RecentCommits {
  /** when a group was committed last, by `performance.now()` */
  succeededAt = Number.NEGATIVE_INFINITY
  /** when a group last failed, for whatever reason */
  failedAt = Number.NEGATIVE_INFINITY
  /** when the database last refused a group, and with which SQLSTATE */
  refused: { at: number; code: string } | undefined

  /** how many entries this process committed */
  entries = 0

  succeeded(entries: number): void {
    this.entries += entries
    this.succeededAt = performance.now()
    this.refused = undefined
  }

  /** Records a failure. One that is not a refusal by the database, such as a deadline, does not show what is wrong. */
  failed(error: unknown): void {
    this.failedAt = performance.now()
    const code = (error as { code?: unknown }).code
    if (isRolledBack(error) && typeof code === 'string' && !PASSING.test(code)) {
      this.refused = { at: this.failedAt, code }
    }
  }
}
