/** The rows of tenants. */
import type { wire } from '@eaas/protocol'
import type { Queryable, Transaction } from './db.js'

/** Only an active tenant is served. A deleted one has no key material and no valid API key, and never becomes active again. */
export type TenantStatus = 'active' | 'suspended' | 'deleted'

export interface TenantRow {
  tenant_id: string
  name: string
  envelope_only: boolean
  monthly_encrypt_quota: number | null
  /** how server mode reads a plaintext if the call does not say */
  plaintext_encoding: wire.PlaintextEncoding
  status: TenantStatus
  wrapped_audit_key: Uint8Array
  created_at: string
  entry_id: number
  mac: Uint8Array
}

/** Inserts a tenant. */
export async function insertTenant(sql: Queryable, row: TenantRow): Promise<void> {
  await sql`
    insert into tenants (tenant_id, name, envelope_only, monthly_encrypt_quota, plaintext_encoding, status, wrapped_audit_key,
                         created_at, entry_id, mac)
    values (${row.tenant_id}, ${row.name}, ${row.envelope_only}, ${row.monthly_encrypt_quota}, ${row.plaintext_encoding},
            ${row.status}, ${row.wrapped_audit_key}, ${row.created_at}, ${row.entry_id}, ${row.mac})`
}

/** Updates a tenant's columns that can change; returns whether the row exists. */
export async function updateTenant(sql: Transaction, row: TenantRow): Promise<boolean> {
  const result = await sql`
    update tenants
    set envelope_only = ${row.envelope_only}, monthly_encrypt_quota = ${row.monthly_encrypt_quota},
        plaintext_encoding = ${row.plaintext_encoding}, status = ${row.status},
        entry_id = ${row.entry_id}, mac = ${row.mac}
    where tenant_id = ${row.tenant_id}`
  return result.count === 1
}

/** All tenants, oldest first; the caller checks the MACs of their rows. */
export async function listTenants(sql: Queryable): Promise<TenantRow[]> {
  return sql<TenantRow[]>`
    select tenant_id, name, envelope_only, monthly_encrypt_quota, plaintext_encoding, status, wrapped_audit_key,
           created_at, entry_id, mac
    from tenants order by created_at, tenant_id`
}

/** Finds a tenant by its id. */
export async function findTenant(sql: Queryable, tenant_id: string): Promise<TenantRow | undefined> {
  const [row] = await sql<TenantRow[]>`
    select tenant_id, name, envelope_only, monthly_encrypt_quota, plaintext_encoding, status, wrapped_audit_key,
           created_at, entry_id, mac
    from tenants where tenant_id = ${tenant_id}`
  return row
}

/** A tenant with the policy version and the end of the chain at the time of reading, and the last entry that a purge took. */
export interface CurrentTenant extends TenantRow {
  policy_version: number
  last_id: number
  head_hash: Uint8Array | null
  purged_through: number
}

/** Finds a tenant with what its state depends on. If the head is missing, versions and ids are 0; the next append then raises the alarm. */
export async function findCurrentTenant(sql: Queryable, tenant_id: string): Promise<CurrentTenant | undefined> {
  const [row] = await sql<CurrentTenant[]>`
    select t.tenant_id, t.name, t.envelope_only, t.monthly_encrypt_quota, t.plaintext_encoding, t.status,
           t.wrapped_audit_key, t.created_at, t.entry_id, t.mac,
           coalesce(h.policy_version, 0)::bigint as policy_version, coalesce(h.last_id, 0)::bigint as last_id,
           h.hash as head_hash,
           (select coalesce(max(m.purged_through), 0)::bigint from purge_marks m where m.tenant_id = t.tenant_id)
             as purged_through
    from tenants t left join heads h on h.tenant_id = t.tenant_id
    where t.tenant_id = ${tenant_id}`
  return row
}

/** Which of these tenants have no row. */
export async function findMissingTenants(sql: Queryable, tenant_ids: readonly string[]): Promise<string[]> {
  const rows = await sql<{ tenant_id: string }[]>`
    select w.tenant_id from unnest(${[...tenant_ids]}::uuid[]) as w (tenant_id)
    where not exists (select 1 from tenants as t where t.tenant_id = w.tenant_id)`
  return rows.map(({ tenant_id }) => tenant_id)
}

/** Finds a tenant by its name. */
export async function findTenantByName(sql: Queryable, name: string): Promise<{ tenant_id: string } | undefined> {
  const [row] = await sql<{ tenant_id: string }[]>`select tenant_id from tenants where name = ${name}`
  return row
}

/** Whether there is any tenant yet. */
export async function hasTenants(sql: Queryable): Promise<boolean> {
  const [row] = await sql<{ found: boolean }[]>`select exists (select 1 from tenants) as found`
  return row?.found ?? false
}
