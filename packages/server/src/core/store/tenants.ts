import { INSTALLATION_ID, MAX_NAME_CHARACTERS, type wire } from '@eaas/protocol'
import type { PurgeMark } from '../audit/formats/chain.js'
import { assertInserted, exists, type Queryable, type Transaction } from './db.js'
import { newestEntryOfTenant, type WithNewestEntry } from './newest-entry.js'
import { onlyRow } from './tampered-row.js'

/**
 * Only an active tenant is served. A deleted one has no key material and no valid API key, and never becomes active
 * again. Nothing is appended to the log of one that is moving or moved, except by the move.
 */
type TenantStatus = 'active' | 'suspended' | 'deleted' | 'moving' | 'moved'

/** The current audit key and 255 before it. */
export const MOST_AUDIT_KEY_BYTES = 18_680

export interface TenantRow {
  tenant_id: string
  name: string
  envelope_only: boolean
  monthly_encrypt_quota: number | null
  /** how server mode reads a plaintext by default */
  plaintext_encoding: wire.PlaintextEncoding
  status: TenantStatus
  /** all audit keys of its log, sealed (key-hierarchy.md 8) */
  wrapped_audit_key: Uint8Array
  created_at: string
  entry_id: number
  mac: Uint8Array
}

// As for heads, at most one character or byte beyond what a server writes is read: a longer value breaks the row's MAC.
function tenantColumns(sql: Queryable) {
  return sql`tenants.tenant_id, pg_catalog.substr(tenants.name, 1, ${MAX_NAME_CHARACTERS + 1}::integer) as name, tenants.envelope_only,
    tenants.monthly_encrypt_quota, pg_catalog.substr(tenants.plaintext_encoding, 1, 33) as plaintext_encoding,
    pg_catalog.substr(tenants.status, 1, 33) as status,
    pg_catalog.substr(tenants.wrapped_audit_key, 1, ${MOST_AUDIT_KEY_BYTES + 1}::integer) as wrapped_audit_key, tenants.created_at, tenants.entry_id,
    pg_catalog.substr(tenants.mac, 1, 33) as mac`
}

/** Lists the sealed keys of these logs, which may include the installation's own. */
export async function listWrappedAuditKeys(
  sql: Queryable,
  tenants: readonly string[],
): Promise<Pick<TenantRow, 'tenant_id' | 'wrapped_audit_key'>[]> {
  const rows = await sql<Pick<TenantRow, 'tenant_id' | 'wrapped_audit_key'>[]>`
    select tenant_id, pg_catalog.substr(wrapped_audit_key, 1, ${MOST_AUDIT_KEY_BYTES + 1}::integer) as wrapped_audit_key
    from tenants where tenant_id = any(${tenants}::uuid[])`
  if (!tenants.includes(INSTALLATION_ID)) return rows
  const wrapped_audit_key = await findWrappedAuditKey(sql, INSTALLATION_ID)
  return wrapped_audit_key ? [...rows, { tenant_id: INSTALLATION_ID, wrapped_audit_key }] : rows
}

/** Finds the sealed keys of a log, which may be the installation's own; undefined if there is no such log. */
export async function findWrappedAuditKey(sql: Queryable, tenant_id: string): Promise<Uint8Array | undefined> {
  const [row] = await sql<{ wrapped_audit_key: Uint8Array }[]>`
    select pg_catalog.substr(wrapped_audit_key, 1, ${MOST_AUDIT_KEY_BYTES + 1}::integer) as wrapped_audit_key from tenants where tenant_id = ${tenant_id}
    union all select wrapped_audit_key from instance where id = 1 and ${tenant_id} = ${INSTALLATION_ID} limit 1`
  return row?.wrapped_audit_key
}

export async function insertTenant(sql: Queryable, row: TenantRow): Promise<void> {
  const result = await sql`
    insert into tenants (tenant_id, name, envelope_only, monthly_encrypt_quota, plaintext_encoding, status, wrapped_audit_key,
                         created_at, entry_id, mac)
    values (${row.tenant_id}, ${row.name}, ${row.envelope_only}, ${row.monthly_encrypt_quota}, ${row.plaintext_encoding},
            ${row.status}, ${row.wrapped_audit_key}, ${row.created_at}, ${row.entry_id}, ${row.mac})`
  assertInserted(result, 'tenants')
}

export async function updateTenant(sql: Transaction, row: TenantRow): Promise<boolean> {
  const result = await sql`
    update tenants
    set envelope_only = ${row.envelope_only}, monthly_encrypt_quota = ${row.monthly_encrypt_quota},
        plaintext_encoding = ${row.plaintext_encoding}, status = ${row.status},
        entry_id = ${row.entry_id}, mac = ${row.mac}
    where tenant_id = ${row.tenant_id}`
  return result.count === 1
}

/** Oldest first, all by default; the caller checks the MACs of their rows. */
export async function listTenants(
  sql: Queryable,
  { limit, offset }: { limit?: number; offset?: number } = {},
): Promise<TenantRow[]> {
  return sql<TenantRow[]>`
    select ${tenantColumns(sql)}
    from tenants order by created_at, tenant_id limit ${limit ?? null} offset ${offset ?? 0}`
}

export async function findTenant(sql: Queryable, tenant_id: string): Promise<TenantRow | undefined> {
  return onlyRow(await listTenantRows(sql, tenant_id), `tenant ${tenant_id}`, { tenant_id })
}

/** Lists the rows of a tenant: several only if the primary key was dropped. */
export function listTenantRows(sql: Queryable, tenant_id: string): Promise<TenantRow[]> {
  return sql<TenantRow[]>`
    select ${tenantColumns(sql)}
    from tenants where tenant_id = ${tenant_id}`
}

/** A tenant with the policy version, the end of the chain and the mark of the last purge at the time of reading. */
export interface CurrentTenant {
  tenant: WithNewestEntry<TenantRow>
  policy_version: number
  last_id: number
  head_hash: Uint8Array | null
  /** not authenticated */
  mark: PurgeMark | undefined
}

/** If the head is missing, versions and ids are 0; the next append then raises the alarm. */
export async function findCurrentTenant(sql: Queryable, tenant_id: string): Promise<CurrentTenant | undefined> {
  const rows = await sql<Row[]>`
    select ${tenantColumns(sql)}, ${newestEntryOfTenant(sql, tenant_id)},
           coalesce(h.policy_version, 0)::bigint as policy_version, coalesce(h.last_id, 0)::bigint as last_id,
           pg_catalog.substr(h.hash, 1, 33) as head_hash, m.purged_through, m.hash as mark_hash, m.entries, m.cutoff, m.created_at as marked_at,
           m.previous_mac, m.mac as mark_mac
    from tenants left join heads h on h.tenant_id = ${tenant_id} left join lateral (
      select purged_through, pg_catalog.substr(hash, 1, 33) as hash, entries, cutoff, created_at,
             pg_catalog.substr(previous_mac, 1, 33) as previous_mac, pg_catalog.substr(mac, 1, 33) as mac
      from purge_marks where purge_marks.tenant_id = ${tenant_id} order by purged_through desc limit 1
    ) as m on true
    where tenants.tenant_id = ${tenant_id}`
  const row = onlyRow(rows, `tenant ${tenant_id}, or its head,`, { tenant_id })
  if (!row) return undefined
  const { policy_version, last_id, head_hash, purged_through, mark_hash, marked_at, mark_mac, ...rest } = row
  const { entries, cutoff, previous_mac, ...tenant } = rest
  const current = { tenant, policy_version, last_id, head_hash }
  if (purged_through === null) return { ...current, mark: undefined } // the left join then left its columns empty
  const mark = { tenant_id, purged_through, entries, cutoff, previous_mac }
  return { ...current, mark: { ...mark, hash: mark_hash, created_at: marked_at, mac: mark_mac } }
}

type MarkColumns = Pick<PurgeMark, 'entries' | 'cutoff' | 'previous_mac'> &
  Record<'mark_hash' | 'mark_mac', Uint8Array> & { purged_through: number | null; marked_at: string }
type Row = WithNewestEntry<TenantRow> & Pick<CurrentTenant, 'policy_version' | 'last_id' | 'head_hash'> & MarkColumns

export async function listTenantIds(sql: Queryable): Promise<string[]> {
  const rows = await sql<{ tenant_id: string }[]>`select tenant_id from tenants order by tenant_id`
  return rows.map(({ tenant_id }) => tenant_id)
}

/** The statuses of these tenants, as far as they have a row; not authenticated here. */
export async function findStatuses(sql: Queryable, tenant_ids: readonly string[]): Promise<Map<string, string>> {
  const rows = await sql<Pick<TenantRow, 'tenant_id' | 'status'>[]>`
    select tenant_id, pg_catalog.substr(status, 1, 33) as status from tenants
    where tenant_id = any(${[...tenant_ids]}::uuid[]) limit ${2 * tenant_ids.length}`
  return new Map(rows.map(({ tenant_id, status }) => [tenant_id, status]))
}

/** Which of these tenants have no row. The installation counts as present. */
export async function findMissingTenants(sql: Queryable, tenant_ids: readonly string[]): Promise<string[]> {
  const rows = await sql<{ tenant_id: string }[]>`
    select distinct tenant_id from tenants where tenant_id = any(${[...tenant_ids]}::uuid[])`
  const found = new Set(rows.map(({ tenant_id }) => tenant_id))
  return tenant_ids.filter((tenant_id) => tenant_id !== INSTALLATION_ID && !found.has(tenant_id))
}

/** The caller compares the name with the authenticated row of the id. @throws TamperedRowError if there are several */
export async function findTenantByName(sql: Queryable, name: string): Promise<{ tenant_id: string } | undefined> {
  const rows = await sql<{ tenant_id: string }[]>`select tenant_id from tenants where name = ${name}`
  return onlyRow(rows, `a tenant named ${name}`)
}

export function hasTenants(sql: Queryable): Promise<boolean> {
  return exists(sql, sql`select 1 from tenants`)
}
