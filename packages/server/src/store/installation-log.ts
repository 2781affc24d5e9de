/** The installation's own log, as the jobs read it. */
import { INSTALLATION_ID } from '@eaas/protocol'
import type { Queryable } from './db.js'

/** The ids and hashes of the log's entries through an id, in order. */
export function listEntryHashes(sql: Queryable, through_id: number): Promise<{ id: number; hash: Uint8Array }[]> {
  return sql<{ id: number; hash: Uint8Array }[]>`
    select id, hash from audit_log where tenant_id = ${INSTALLATION_ID} and id <= ${through_id} order by id`
}

/** The time of the newest verification of every log by a server; before the first one, the time of the log's first entry. */
export async function findVerificationTime(sql: Queryable): Promise<string | undefined> {
  const [row] = await sql<{ created_at: string | null }[]>`
    select coalesce(
      (select max(created_at) from audit_log
       where tenant_id = ${INSTALLATION_ID} and action = 'installation.verify' and actor = 'system'),
      (select created_at from audit_log where tenant_id = ${INSTALLATION_ID} and id = 1)
    ) as created_at`
  return row?.created_at ?? undefined
}
