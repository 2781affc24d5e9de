/**
 * The interface to the guard, which detects that a log in the database is not the one that servers wrote, and says
 * which head the core may continue a log from.
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
  /** Call it after a commit with an unknown outcome: no head is known until one is read. */
  outcomeUnknown(tenant_id: string): void
  /** The head that the log must contain according to an alarm about it. */
  lostHead(tenant_id: string): Witness | undefined
  /** The tenants that are not served because their log is not the one that servers wrote. */
  alarmedTenants(): string[]
  /** The logs whose last entry is ahead of this clock, the furthest ahead first. */
  ahead(clock: { isAhead(last: { created_at: string }): boolean }): { tenant_id: string; created_at: string }[]
  readonly comparisons: {
    /** whether comparisons have failed for so long that no tenant is served */
    readonly isOverdue: boolean
    /** the tenants that are not served only because their comparisons failed for too long */
    readonly overdueTenants: readonly string[]
    /** milliseconds since the last complete round of comparisons began */
    readonly age: number
  }
}

/** The newest anchor that covers a tenant, and the links from kept checkpoints to it (export.md 8, 9). */
export type Covering = { anchor: ExportAnchor; links: ExportLinks | undefined }

/** The ids of entries of the installation's log that an export links to its anchor. */
export interface ToLink {
  /** left out if they cannot be linked */
  known: readonly number[]
  /** if none of them can be linked, the export is refused */
  demanded: readonly number[]
}
