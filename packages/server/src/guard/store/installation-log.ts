/** The installation's own log, as the jobs read it. */
import { INSTALLATION_ID } from '@eaas/protocol'
import type { Queryable } from '../../core/store/db.js'

/**
 * The entry of the newest verification of every log by a server; the caller authenticates it. Before the
 * first one, the log's first entry.
 */
export async function findVerificationId(sql: Queryable): Promise<number> {
  const [row] = await sql<{ id: number | null }[]>`
    select pg_catalog.max(id) as id from audit_log
    where tenant_id = ${INSTALLATION_ID} and action = 'installation.verify' and actor = 'system'`
  return row?.id ?? 1
}
