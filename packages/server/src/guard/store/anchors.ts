/** The newest anchor and verification in the installation's log, and the anchored heads beside the present ones. */
import { INSTALLATION_ID } from '@eaas/protocol'
import type { Head, PurgeMark } from '../../core/audit/formats/chain.js'
import { headColumns } from '../../core/store/audit.js'
import type { Queryable, Transaction } from '../../core/store/db.js'
import { pageOfBlocks } from '../../core/store/entry-indexes.js'
import { MOST_AUDIT_KEY_BYTES } from '../../core/store/tenants.js'

export interface AnchoredHead extends Head {
  is_there: boolean // whether the tenant has a row
  is_contradicted: boolean // whether the log ends before this head, has another entry there, or lacks it after a purge
}

/** By tenants' ids. The caller compares them with the anchor. Reads at most one more than `tenants`. */
export function listAnchoredHeads(sql: Queryable, tenants?: number): Promise<AnchoredHead[]> {
  return sql<AnchoredHead[]>`
    select a.tenant_id, a.last_id, pg_catalog.substr(a.hash, 1, 33) as hash, a.policy_version, a.created_at,
           pg_catalog.substr(a.mac, 1, 33) as mac, t.tenant_id is not null as is_there,
           t.tenant_id is null or h.last_id is null or h.last_id < a.last_id or e.hash is distinct from a.hash
             as is_contradicted
    from anchored_heads a
    left join tenants t on t.tenant_id = a.tenant_id
    left join heads h on h.tenant_id = a.tenant_id
    left join audit_log e on e.tenant_id = a.tenant_id and e.id = a.last_id
    order by a.tenant_id limit ${tenants === undefined ? null : tenants + 1}`
}

export async function findAnchorId(sql: Queryable): Promise<number | undefined> {
  const tenant_id = INSTALLATION_ID
  const [row] = await sql<{ id: number }[]>`
    select id from audit_log ${pageOfBlocks(sql, tenant_id, sql`action = 'installation.anchor'`, { limit: 1 })}`
  return row?.id
}

/** The newest verification of all logs by a server, or else the log's first entry. The caller authenticates it. */
export async function findVerificationId(sql: Queryable): Promise<number> {
  const [row] = await sql<{ id: number | null }[]>`
    select pg_catalog.max(id) as id from audit_log
    where tenant_id = ${INSTALLATION_ID} and action = 'installation.verify' and actor = 'system'`
  return row?.id ?? 1
}

// Whether a head `h` differs from the anchored `a`. The anchor's root proves only id and hash, so the MAC of `a` proves
// nothing: an attacker may have copied it from the head.
function differs(sql: Queryable) {
  return sql`(a.last_id, a.hash, a.policy_version, a.created_at, a.mac)
    is distinct from (h.last_id, h.hash, h.policy_version, h.created_at, h.mac)`
}

export interface CurrentHead extends Head {
  wrapped_audit_key: Uint8Array
  is_changed: boolean // whether it differs from the anchored head
  last_entry: number // the last entry of the log; it is the head's unless one of the two was rolled back
}

/** One statement reads the heads with the ends of their logs. */
export function listCurrentHeads(sql: Queryable): Promise<CurrentHead[]> {
  return sql<CurrentHead[]>`
    select ${headColumns(sql)}, pg_catalog.substr(t.wrapped_audit_key, 1, ${MOST_AUDIT_KEY_BYTES + 1}::integer) as wrapped_audit_key,
           ${differs(sql)} as is_changed, coalesce(e.id, h.last_id) as last_entry
    from heads h join tenants t on t.tenant_id = h.tenant_id
    left join anchored_heads a on a.tenant_id = h.tenant_id
    left join lateral (
      select id from audit_log where audit_log.tenant_id = h.tenant_id order by id desc limit 1
    ) as e on true`
}

/** The tenants whose newest entry is older than `since` and not covered by the newest anchor. */
export async function findUncovered(sql: Queryable, since: string): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select t.name from heads h join tenants t on t.tenant_id = h.tenant_id
    left join anchored_heads a on a.tenant_id = h.tenant_id
    where h.created_at < ${since} and ${differs(sql)} order by h.created_at`
  return rows.map(({ name }) => name)
}

export async function replaceAnchoredHeads(
  sql: Transaction,
  { changed, removed }: { changed: readonly Head[]; removed: readonly string[] },
): Promise<void> {
  if (removed.length > 0) await sql`delete from anchored_heads where tenant_id = any(${[...removed]}::uuid[])`
  if (changed.length === 0) return
  await sql`
    insert into anchored_heads (tenant_id, last_id, hash, policy_version, created_at, mac)
    select n.tenant_id, n.last_id, n.hash, n.policy_version, n.created_at, n.mac
    from unnest(
      ${changed.map((head) => head.tenant_id)}::uuid[], ${changed.map((head) => head.last_id)}::bigint[],
      ${sql.array(changed.map((head) => head.hash))}::bytea[], ${changed.map((head) => head.policy_version)}::bigint[],
      ${changed.map((head) => head.created_at)}::timestamptz[], ${sql.array(changed.map((head) => head.mac))}::bytea[]
    ) as n (tenant_id, last_id, hash, policy_version, created_at, mac)
    on conflict (tenant_id) do update
    set last_id = excluded.last_id, hash = excluded.hash, policy_version = excluded.policy_version,
        created_at = excluded.created_at, mac = excluded.mac`
}

export async function clearAnchoredHeads(sql: Transaction): Promise<void> {
  await sql`delete from anchored_heads`
}

export async function listTenantsWithHeads(sql: Queryable, after: string, limit: number): Promise<string[]> {
  const rows = await sql<{ tenant_id: string }[]>`
    select tenant_id from heads where tenant_id > ${after} order by tenant_id limit ${limit}`
  return rows.map(({ tenant_id }) => tenant_id)
}

/** A head with its audit key, which is null for the installation's own log, and if the tenant has no row. */
export type HeadWithKey = Head & { wrapped_audit_key: Uint8Array | null }

export function listHeadsWithKeys(sql: Queryable, tenant_ids: readonly string[]): Promise<HeadWithKey[]> {
  return sql<HeadWithKey[]>`
    select ${headColumns(sql)}, pg_catalog.substr(t.wrapped_audit_key, 1, ${MOST_AUDIT_KEY_BYTES + 1}::integer) as wrapped_audit_key
    from heads h left join tenants t on t.tenant_id = h.tenant_id
    where h.tenant_id = any(${[...tenant_ids]}::uuid[]) limit ${2 * tenant_ids.length}`
}

export async function putHead(sql: Transaction, head: Head): Promise<void> {
  await sql`
    insert into heads (tenant_id, last_id, hash, policy_version, created_at, mac)
    values (${head.tenant_id}, ${head.last_id}, ${head.hash}, ${head.policy_version}, ${head.created_at}, ${head.mac})
    on conflict (tenant_id) do update
    set last_id = excluded.last_id, hash = excluded.hash, policy_version = excluded.policy_version,
        created_at = excluded.created_at, mac = excluded.mac`
}

export async function findLastMarks(sql: Queryable, tenant_ids: readonly string[]): Promise<Map<string, PurgeMark>> {
  const rows = await sql<PurgeMark[]>`
    select distinct on (tenant_id) tenant_id, purged_through, hash, entries, cutoff, created_at, previous_mac, mac
    from purge_marks where tenant_id = any(${[...tenant_ids]}::uuid[]) order by tenant_id, purged_through desc`
  return new Map(rows.map((mark) => [mark.tenant_id, mark]))
}
