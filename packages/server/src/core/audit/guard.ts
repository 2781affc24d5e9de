/**
 * The door to the guard, which detects that a log in the database is not the one that servers wrote. The core asks it
 * which head a log may be continued from.
 */
import type { ExportAnchor, ExportLinks } from '@eaas/audit/formats'
import type { Queryable } from '../store/db.js'
import type { AuditKey, Head, Witness } from './formats/chain.js'

export interface Guard {
  /** @throws ChainAlarmError, ComparisonOverdueError while the tenant is not served */
  assertServed(tenant_id: string): void
  knownHead(tenant_id: string): Head | undefined
  /** The head that servers wrote; `find` may also lock it. @throws ChainAlarmError, UnfollowedLogError */
  readHead<Where extends Queryable>(
    sql: Where,
    log: { tenant_id: string; auditKey: AuditKey },
    find?: (sql: Where, tenant_id: string) => Promise<Head | undefined>,
  ): Promise<Head>
  committed(head: Head): void
  /** Of a commit: no head is known then until one is read. */
  outcomeUnknown(tenant_id: string): void
  /** The head that the log must contain according to an alarm about it. */
  lostHead(tenant_id: string): Witness | undefined
  /** Their log is not the one that was written, so they are not served. */
  alarmedTenants(): string[]
  /** The logs whose last entry is ahead of this clock, the furthest first. */
  ahead(clock: { isAhead(last: { created_at: string }): boolean }): { tenant_id: string; created_at: string }[]
  readonly comparisons: {
    /** whether no tenant is served, because they have failed for too long */
    readonly isOverdue: boolean
    /** the tenants that are not served for that reason alone */
    readonly overdueTenants: readonly string[]
    /** milliseconds since the last whole round began */
    readonly age: number
  }
}

/** The newest anchor that covers a tenant, and what links kept checkpoints to it (export.md 8, 9). */
export type Covering = { anchor: ExportAnchor; links: ExportLinks | undefined }

/** By their ids, the entries of the installation's log that an export is to link to its anchor. */
export interface ToLink {
  /** left out if they cannot be linked */
  known: readonly number[]
  /** if none of them can be linked, the export is refused */
  demanded: readonly number[]
}
