/** Writes the entries of all calls. Each tenant has a log with a queue of its own (tenant-log.ts). */
import type { LogAction } from '@eaas/protocol'
import { isRolledBack, type Sql } from '../../store/db.js'
import type { AuditKey } from '../formats/chain.js'
import type { Guard } from '../guard.js'
import type { Clock } from './clock.js'
import { createSeparateAppends, createSharedAppends, type TenantsPerStatement } from './send-appends.js'
import { type Append, TenantLog } from './tenant-log.js'

export type Committer = ReturnType<typeof createCommitter>

export interface CommitterOptions {
  sql: Sql
  clock: Clock
  /** `one` for a database that spans machines; `many` by default */
  tenantsPerStatement?: TenantsPerStatement
  guard: Guard
  observe?: ((commit: Commit) => void) | undefined
}

export type Commit = { actions: readonly LogAction[]; seconds: number }

export function createCommitter({ tenantsPerStatement = 'many', ...options }: CommitterOptions) {
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
    guard: options.guard,
    clock: options.clock,
    recent,
    /**
     * Without entries, waits until the decision is known to be made on the current state. @throws AuditWriteError,
     * OverloadError, or the decision's refusal
     */
    append: (append: Append): Promise<void> => logOf(append.tenant_id).append(append),
    currentPolicyVersion: ({ tenant_id, auditKey }: { tenant_id: string; auditKey: AuditKey }): Promise<number> =>
      logOf(tenant_id).currentPolicyVersion(auditKey),
    /** The number of entries of all tenants that wait to be committed. */
    waiting: (): number => all.entries,
    async drain(): Promise<void> {
      await Promise.all([...logs.values()].map((log) => log.drained()))
    },
  }
}

/**
 * SQLSTATEs that concern one tenant or one moment: serialization and deadlock (class 40), a name that is taken (23505),
 * a store key that was rotated meanwhile (23503), a lock or a statement that took too long (55P03, 57014).
 */
const PASSING = /^(?:40...|2350[35]|55P03|57014)$/

export class RecentCommits {
  /** times by `performance.now()` */
  succeededAt = Number.NEGATIVE_INFINITY
  failedAt = Number.NEGATIVE_INFINITY
  /** the last refusal by the database, with its SQLSTATE */
  refused: { at: number; code: string } | undefined
  entries = 0

  succeeded(entries: number): void {
    this.entries += entries
    this.succeededAt = performance.now()
    this.refused = undefined
  }

  /** Keeps the code of a refusal by the database. Other errors, such as a deadline, do not show what is wrong. */
  failed(error: unknown): void {
    this.failedAt = performance.now()
    const code = (error as { code?: unknown }).code
    if (isRolledBack(error) && typeof code === 'string' && !PASSING.test(code)) {
      this.refused = { at: this.failedAt, code }
    }
  }
}
