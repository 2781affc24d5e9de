/**
 * Compares every tenant's log with the newest anchor of the installation's log (anchor.md 4): a tenant that is missing, or whose
 * log no longer holds the anchored head, is alarmed about. So one tenant cannot go back, or go missing, alone.
 */
import type { KeyObject } from 'node:crypto'
import { INSTALLATION_ID } from '@eaas/protocol'
import { listRecordedTenants } from '../store/anchors.js'
import type { Sql } from '../store/db.js'
import { findMissingTenants } from '../store/tenants.js'
import { ChainAlarmError } from './append-errors.js'
import { isKeptHeadAuthentic } from './chain.js'
import type { HeadWatch } from './head-watch.js'
import type { HeadWatches } from './head-watches.js'
import { type Anchor, AnchorFault, readAnchor } from './newest-anchor.js'
import { TamperedRowError } from './row-mac.js'
import { TENANT_GONE } from './shared-alarms.js'
import { verifyLog } from './verify.js'

export interface AnchorWatchOptions {
  sql: Sql
  watches: HeadWatches
  installationKey: KeyObject
  rowKey: KeyObject
  /** undefined if there is no such tenant */
  findAuditKey: (tenant_id: string) => Promise<KeyObject | undefined>
}

/**
 * Compares once; raises the alarms. A fixed number of statements, and further ones only for tenants that contradict the anchor.
 * Returns the errors of single tenants. @throws the database's own error
 */
export async function compareWithAnchor({
  sql,
  watches,
  installationKey: auditKey,
  rowKey,
  findAuditKey,
}: AnchorWatchOptions): Promise<unknown[]> {
  const own = watches.get(INSTALLATION_ID)
  const anchor = await readAnchor(sql, auditKey).catch((error: unknown) => {
    if (!(error instanceof AnchorFault)) throw error
    own.learn({ reason: error.message, witness: own.witnessed })
  })
  if (own.alarm) return []
  // From the anchor to the end: else a newer anchor could be hidden.
  const after_id = anchor ? anchor.entry.id - 1 : undefined
  const { valid, reason, broken_at } = await verifyLog(sql, { tenant_id: INSTALLATION_ID, auditKey, rowKey, after_id })
  if (!valid) {
    own.learn({ reason: `the installation's log is not valid: ${reason}, entry ${broken_at}`, witness: own.witnessed })
    return []
  }
  const errors = anchor ? await examineContradicted(anchor, { sql, watches, findAuditKey }) : []
  // Not only those of the anchor: an acceptance of this log's own rollback may have begun the anchors afresh.
  for (const tenant_id of await findMissingTenants(sql, await listRecordedTenants(sql))) {
    watches.get(tenant_id).learn({ reason: TENANT_GONE, witness: undefined })
  }
  return errors
}

async function examineContradicted(
  { heads }: Anchor,
  { sql, watches, findAuditKey }: Pick<AnchorWatchOptions, 'sql' | 'watches' | 'findAuditKey'>,
): Promise<unknown[]> {
  const errors: unknown[] = []
  for (const head of heads) {
    if (!head.is_contradicted) continue
    const watch: HeadWatch = watches.get(head.tenant_id)
    watch.remember(head)
    try {
      const auditKey = await findAuditKey(head.tenant_id)
      if (auditKey && !isKeptHeadAuthentic(auditKey, head.tenant_id, head)) {
        watch.learn({ reason: 'the anchored head was changed outside the server', witness: head })
      } else if (auditKey) await watch.read(sql, auditKey)
      else if (!head.is_there) watch.learn({ reason: TENANT_GONE, witness: head })
    } catch (error) {
      if (error instanceof ChainAlarmError) continue // the watch has raised the alarm
      if (!(error instanceof TamperedRowError)) errors.push(error)
      watch.learn({ reason: 'the audit key of the tenant was changed outside the server', witness: head })
    }
  }
  return errors
}
