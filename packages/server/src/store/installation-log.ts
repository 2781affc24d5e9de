/** The installation's own log, as the jobs read it. */
import { INSTALLATION_ID } from '@eaas/protocol'
import type { Queryable } from './db.js'
import { pageOfBlocks } from './entry-indexes.js'

/**
 * The entry of the newest verification of every log by a server; the caller authenticates it. Before the
 * first one, the log's first entry.
 */
export async function findVerificationId(sql: Queryable): Promise<number> {
  const [row] = await sql<{ id: number }[]>`
    select id from audit_log
    ${pageOfBlocks(sql, INSTALLATION_ID, sql`action = 'installation.verify' and actor = 'system'`, { limit: 1 })}`
  return row?.id ?? 1
}
