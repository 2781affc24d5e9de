/** The one row that belongs to the whole installation. */
import { INSTALLATION_ID } from '@eaas/protocol'
import { hasTable, type Queryable, type Transaction } from './db.js'
import type { CurrentTenant } from './tenants.js'

export type InstanceRow = { wrapped_pepper: Uint8Array; wrapped_signing_key: Uint8Array; created_at: string }

/** Finds the installation's row; undefined before the first start, even if its table does not exist yet. */
export async function findInstance(sql: Queryable): Promise<InstanceRow | undefined> {
  if (!(await hasTable(sql, 'instance'))) return undefined
  const [row] = await sql<InstanceRow[]>`
    select wrapped_pepper, wrapped_signing_key, created_at from instance where id = 1`
  return row
}

export async function insertInstance(sql: Queryable, row: InstanceRow): Promise<boolean> {
  const result = await sql`
    insert into instance (id, wrapped_pepper, wrapped_signing_key, created_at)
    values (1, ${row.wrapped_pepper}, ${row.wrapped_signing_key}, ${row.created_at})
    on conflict (id) do nothing`
  return result.count === 1
}

export async function findInstallationKey(sql: Queryable): Promise<Uint8Array | undefined> {
  const [row] = await sql<{ wrapped_audit_key: Uint8Array | null }[]>`
    select wrapped_audit_key from instance where id = 1`
  return row?.wrapped_audit_key ?? undefined
}

export async function setInstallationKey(sql: Transaction, wrapped_audit_key: Uint8Array): Promise<void> {
  await sql`update instance set wrapped_audit_key = ${wrapped_audit_key} where id = 1`
}

/** The metadata of the entries with signed statements about new signing keys, in order. */
export async function listKeyChanges(sql: Queryable): Promise<string[]> {
  const rows = await sql<{ metadata: string | null }[]>`
    select pg_catalog.substr(metadata, 1, 4096) as metadata from audit_log
    where tenant_id = ${INSTALLATION_ID} and action = 'installation.secrets_rotate' order by id`
  return rows.map(({ metadata }) => metadata ?? '')
}

type InstallationRow = Pick<CurrentTenant, 'policy_version' | 'last_id' | 'head_hash'> &
  Pick<CurrentTenant['tenant'], 'wrapped_audit_key' | 'created_at'>

/** The installation as a tenant without a row in `tenants`, so that the same code reads, verifies and exports its log. */
export async function findCurrentInstallation(sql: Queryable): Promise<CurrentTenant | undefined> {
  const [row] = await sql<InstallationRow[]>`
    select i.wrapped_audit_key, i.created_at, coalesce(h.policy_version, 0)::bigint as policy_version,
           coalesce(h.last_id, 0)::bigint as last_id, h.hash as head_hash
    from instance i left join heads h on h.tenant_id = ${INSTALLATION_ID}
    where i.id = 1 and i.wrapped_audit_key is not null`
  if (!row) return undefined
  const { wrapped_audit_key, created_at, ...end } = row
  const tenant = {
    tenant_id: INSTALLATION_ID,
    name: 'installation',
    envelope_only: true,
    monthly_encrypt_quota: null,
    plaintext_encoding: 'utf8',
    status: 'active',
    wrapped_audit_key,
    created_at,
    entry_id: 0,
    newest_entry: 0,
    mac: new Uint8Array(),
  } as const
  return { tenant, ...end, mark: undefined } // its log is never purged
}

/** Seconds since the newest noted backup; null if there is none, or if its time is infinite or in the future. */
export async function findBackupAge(sql: Queryable): Promise<number | null> {
  const [row] = await sql<{ seconds: number | null }[]>`
    select extract(epoch from pg_catalog.clock_timestamp() - backed_up_at)::float8 as seconds
    from instance where id = 1 and pg_catalog.isfinite(backed_up_at) and backed_up_at <= pg_catalog.clock_timestamp()`
  return row?.seconds ?? null
}
