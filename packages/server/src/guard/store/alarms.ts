import type { LogAction } from '@eaas/protocol'
import type { ChainAlarm, Witness } from '../../core/audit/formats/chain.js'
import { headColumns } from '../../core/store/audit.js'
import { isSpread, type Queryable, type Transaction } from '../../core/store/db.js'
import { TamperedRowError } from '../../core/store/tampered-row.js'
import { MOST_AUDIT_KEY_BYTES } from '../../core/store/tenants.js'
import type { HeadWithKey } from './anchors.js'

export const MAX_REASON = 1_000 // the longest reason of an alarm, in characters
// An attacker who adds rows to hide an alarm could also delete its row; the process that found the fault still raises it.
const MAX_ALARMS = 10_000

/** In the order of tenants' ids. The caller checks the MACs. */
export function listAlarms(sql: Queryable, limit = MAX_ALARMS): Promise<ChainAlarm[]> {
  return sql<ChainAlarm[]>`select ${alarmColumns(sql)} from chain_alarms a order by a.tenant_id limit ${limit}`
}

// As with heads, an attacker who writes rows can make a value as long as memory. A truncated one has no valid MAC.
function alarmColumns(sql: Queryable) {
  return sql`a.tenant_id, pg_catalog."left"(a.reason, ${MAX_REASON}::integer) as reason, a.last_id,
    pg_catalog.substr(a.hash, 1, 33) as hash, a.policy_version, a.raised_at, pg_catalog.substr(a.mac, 1, 33) as mac`
}

export async function lockAlarm(sql: Transaction, tenant_id: string): Promise<ChainAlarm | undefined> {
  const [row] = await sql<ChainAlarm[]>`
    select ${alarmColumns(sql)} from chain_alarms a where a.tenant_id = ${tenant_id} limit 1 for update`
  return row
}

/** Keeps an existing alarm unless the new one witnessed a later head. */
export async function writeAlarm(sql: Queryable, alarm: ChainAlarm): Promise<void> {
  await sql`
    insert into chain_alarms as a (tenant_id, reason, last_id, hash, policy_version, raised_at, mac)
    values (${alarm.tenant_id}, ${alarm.reason}, ${alarm.last_id}, ${alarm.hash}, ${alarm.policy_version},
            ${alarm.raised_at}, ${alarm.mac})
    on conflict (tenant_id) do update
    set reason = excluded.reason, last_id = excluded.last_id, hash = excluded.hash,
        policy_version = excluded.policy_version, raised_at = excluded.raised_at, mac = excluded.mac
    where excluded.last_id > a.last_id`
}

export async function replaceAlarm(sql: Transaction, alarm: ChainAlarm): Promise<void> {
  await sql`
    update chain_alarms
    set reason = ${alarm.reason}, last_id = ${alarm.last_id}, hash = ${alarm.hash}, policy_version = ${alarm.policy_version},
        raised_at = ${alarm.raised_at}, mac = ${alarm.mac}
    where tenant_id = ${alarm.tenant_id}`
}

export async function deleteAlarm(sql: Transaction, tenant_id: string): Promise<void> {
  await sql`delete from chain_alarms where tenant_id = ${tenant_id}`
}

/** Returns false if the row no longer exists. */
export async function deleteAlarmRow(sql: Queryable, { tenant_id, mac }: ChainAlarm): Promise<boolean> {
  const { count } = await sql`delete from chain_alarms as a where a.tenant_id = ${tenant_id} and a.mac = ${mac}`
  return count > 0
}

/** Newest first; the caller authenticates the entries. */
export async function listAcceptanceIds(
  sql: Queryable,
  tenant_id: string,
  action: LogAction = 'audit.rollback_accepted',
): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    select id from audit_log where tenant_id = ${tenant_id} and action = ${action} order by id desc`
  return rows.map(({ id }) => id)
}

interface ComparedHead {
  tenant_id: string
  is_contradicted: boolean // whether the log lacks the witnessed entry, or its head is an earlier or another one
  head: HeadWithKey | undefined // not authenticated, with the wrapped key that authenticates it
}

/** Reads both tables for each tenant, and so fails while a lock on one keeps this process from reading it. */
export async function compareWitnesses(
  sql: Queryable,
  witnesses: readonly (Witness & { tenant_id: string })[],
): Promise<ComparedHead[]> {
  // The id is the witness's: that of the head is null if there is no head.
  const tenants = witnesses.map((witness) => witness.tenant_id)
  const ids = witnesses.map((witness) => witness.last_id)
  const rows = await sql<(HeadWithKey & { is_contradicted: boolean; is_there: boolean })[]>`
    select ${headColumns(sql)}, w.tenant_id, h.last_id is not null as is_there,
           pg_catalog.substr(t.wrapped_audit_key, 1, ${MOST_AUDIT_KEY_BYTES + 1}::integer) as wrapped_audit_key,
           e.hash is distinct from w.hash or coalesce(
             h.last_id < w.id or h.policy_version < w.policy_version or (h.last_id = w.id and h.hash <> w.hash), true
           ) as is_contradicted
    from unnest(
      ${tenants}::uuid[], ${ids}::bigint[],
      ${sql.array(witnesses.map((witness) => witness.hash))}::bytea[], ${witnesses.map((witness) => witness.policy_version)}::bigint[]
    ) as w (tenant_id, id, hash, policy_version)
    left join (
      select a.tenant_id, a.id, a.hash from unnest(${tenants}::uuid[], ${ids}::bigint[]) as p (tenant_id, id)
      join audit_log as a on a.tenant_id = p.tenant_id and a.id = p.id ${isSpread(sql) ? sql`where a.tenant_id = any(${tenants}::uuid[])` : sql``}
    ) as e on e.tenant_id = w.tenant_id and e.id = w.id
    left join (select * from heads where tenant_id = any(${tenants}::uuid[])) as h on h.tenant_id = w.tenant_id
    left join (select tenant_id, wrapped_audit_key from tenants where tenant_id = any(${tenants}::uuid[])) as t on t.tenant_id = w.tenant_id
    where e.hash is distinct from w.hash
      or coalesce(h.last_id <> w.id or h.policy_version <> w.policy_version or h.hash <> w.hash, true)
    limit ${2 * witnesses.length}`
  // Each witness yields one row. Beyond that, several rows of one could have displaced another's at the limit.
  if (rows.length > witnesses.length) throw new TamperedRowError('the database holds heads or entries more than once')
  return rows.map(({ tenant_id, is_contradicted, is_there, ...rest }) => ({
    tenant_id,
    is_contradicted,
    head: is_there ? { tenant_id, ...rest } : undefined,
  }))
}
