/**
 * The newest entry that records a row which grants rights (chain.md 9), read in the same statement as the row. A change
 * writes both in one transaction, so every reader sees both or neither. Entries that a purge deleted do not count, even
 * if their rows are still there or were restored. The entries are not authenticated here.
 */
import type { Queryable } from './db.js'
import { ofKeyAndAction, pageOfBlocks } from './entry-indexes.js'
import { TamperedRowError } from './tampered-row.js'

/** A row with the newest entry that records it; null if the log has none. */
export type WithNewestEntry<Row> = Row & { newest_entry: number | null }

export function newestEntryOfKey(sql: Queryable, tenant_id: string) {
  return sql`(
    select pg_catalog.max(newest.id)
    from pg_catalog.unnest(array['key.create', 'key.rotate', 'key.update', 'key.enable', 'key.disable', 'key.destroy',
                                 'key.rotation_policy', 'key.restate']) as change (action),
    lateral (
      select id from audit_log
      where ${ofKeyAndAction(sql, { tenant_id, key_id: sql`keys.key_id`, action: sql`change.action` })}
        and id > ${purgedOf(sql, tenant_id)}
      order by id desc limit 1
    ) as newest
  )::bigint as newest_entry`
}

/** With the expression of the index audit_log_api_key. */
export function newestEntryOfApiKey(sql: Queryable, tenant_id: string) {
  return sql`(
    select a.id from audit_log as a
    where a.tenant_id = ${tenant_id}
      and pg_catalog.substring(a.metadata, '"api_key_id":"([^"]*)"') = api_keys.api_key_id::text
      and a.id > ${purgedOf(sql, tenant_id)} and a.metadata is not null
      and a.action in ('api_key.create', 'api_key.update', 'api_key.revoke', 'api_key.restate')
    order by a.id desc limit 1
  )::bigint as newest_entry`
}

/** Entry 1 writes a row of `tenants`, and so do each `tenant.update` and each `tenant.restate`. */
export function newestEntryOfTenant(sql: Queryable, tenant_id: string) {
  return sql`coalesce(
    (
      select pg_catalog.max(newest.id) from pg_catalog.unnest(array['tenant.update', 'tenant.restate']) as change (action),
      lateral (
        select id from audit_log ${pageOfBlocks(
          sql,
          tenant_id,
          sql`action = change.action and (id > ${purgedOf(sql, tenant_id)}) is true`,
          { limit: 1 },
        )}
      ) as newest
    ),
    (select a.id from audit_log as a where a.tenant_id = ${tenant_id} and a.id = 1 and ${purgedOf(sql, tenant_id)} = 0)
  )::bigint as newest_entry`
}

/** The last entry of a tenant that a purge deleted; 0 if there was none. */
function purgedOf(sql: Queryable, tenant_id: string) {
  return sql`coalesce((select pg_catalog.max(m.purged_through) from purge_marks as m where m.tenant_id = ${tenant_id}), 0)`
}

/** `what` names the row to people. */
type NamedRow = WithNewestEntry<{ tenant_id: string; entry_id: number; what: string }>

export async function findOutdatedRow(sql: Queryable, tenant_id: string): Promise<NamedRow | undefined> {
  const [row] = await sql<NamedRow[]>`
    select tenant_id, entry_id, what, newest_entry from (
      select tenant_id, entry_id, 'the settings' as what, ${newestEntryOfTenant(sql, tenant_id)} from tenants where tenant_id = ${tenant_id}
      union all
      select tenant_id, entry_id, 'key ' || key_id, ${newestEntryOfKey(sql, tenant_id)} from keys where tenant_id = ${tenant_id}
      union all
      select tenant_id, entry_id, 'API key ' || api_key_id, ${newestEntryOfApiKey(sql, tenant_id)} from api_keys where tenant_id = ${tenant_id}
    ) as recorded
    where newest_entry is distinct from entry_id
    limit 1`
  return row
}

/**
 * Returns the error of a row that does not name the newest entry about it: an attacker who can write to the database restored an
 * older row, whose MAC is valid (chain.md 11). The log has an entry about each row, since a purge restates those that it deletes.
 */
export function findPutBack(
  { tenant_id, entry_id, newest_entry }: WithNewestEntry<{ tenant_id: string; entry_id: number }>,
  what: string,
): TamperedRowError | undefined {
  if (entry_id === newest_entry) return undefined
  return new TamperedRowError(
    `an older row of ${what} of tenant ${tenant_id} was put back outside the server: it names entry ${entry_id}, and ` +
      `${newest_entry === null ? 'no entry' : `entry ${newest_entry}`} is the last about it`,
  )
}
