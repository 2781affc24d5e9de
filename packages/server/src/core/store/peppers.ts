/** The peppers of API keys, in the installation's row, and which API keys need the former one. */
import type { Queryable } from './db.js'
import { countSealed, LEARN_SECONDS } from './store-keys.js'

interface PepperRow {
  pepper: number
  wrapped_pepper: Uint8Array
  /** the pepper before this one, while an API key needs it */
  wrapped_former_pepper: Uint8Array | null
  /** whether every process had time to read the newest pepper, so that digests may be made under it */
  may_digest: boolean
}

export async function getPeppers(sql: Queryable): Promise<PepperRow> {
  const [row] = await sql<PepperRow[]>`
    select pepper, wrapped_pepper, wrapped_former_pepper,
           coalesce(pepper_since + ${LEARN_SECONDS} * interval '1 second' <= pg_catalog.clock_timestamp(), true) as may_digest
    from instance where id = 1`
  if (!row) throw new Error("the installation's row is missing")
  return row
}

/** The pepper of an installation that a tenant was in earlier. */
export interface TenantPepperRow {
  tenant_id: string
  /** from 1 for each tenant; its API keys have the negative number */
  number: number
  wrapped_pepper: Uint8Array
}

export function listTenantPeppers(sql: Queryable, tenant_id?: string): Promise<TenantPepperRow[]> {
  return sql<TenantPepperRow[]>`
    select tenant_id, number, pg_catalog.substr(wrapped_pepper, 1, 256) as wrapped_pepper from tenant_peppers
    ${tenant_id === undefined ? sql`` : sql`where tenant_id = ${tenant_id}`} order by tenant_id, number`
}

/** Deletes the former peppers of each tenant whose API keys no longer need them, as `deleteFormerPepper` does. */
export async function deleteTenantPeppers(sql: Queryable, now: number): Promise<void> {
  await sql`
    delete from tenant_peppers as p
    where exists (select from tenants as t where t.tenant_id = p.tenant_id and t.status = 'active')
      and not exists (
        select from api_keys as a
        where a.tenant_id = p.tenant_id and a.pepper = -p.number and a.revoked_at is null and ${isUnexpired(sql, now)})`
}

/** Replaces an API key's digest by one under another pepper, if the row is unchanged since it was read. */
export async function renewDigest(
  sql: Queryable,
  { tenant_id, api_key_id, mac }: { tenant_id: string; api_key_id: string; mac: Uint8Array },
  next: { digest: string; pepper: number; mac: Uint8Array },
): Promise<void> {
  await sql`
    update api_keys set digest = ${next.digest}, pepper = ${next.pepper}, mac = ${next.mac}
    where tenant_id = ${tenant_id} and api_key_id = ${api_key_id} and mac = ${mac}`
}

/**
 * Counts the API keys that need the former pepper. Leaves out those used since it was replaced, revoked ones, those of
 * moved tenants, and those expired by both the database's clock and `now`, in milliseconds since 1970.
 */
export async function countWaiting(sql: Queryable, now: number): Promise<number> {
  const [row] = await sql<{ pepper: number }[]>`
    select pepper from instance where id = 1 and wrapped_former_pepper is not null`
  return row ? countOfEarlier(sql, row.pepper, now) : 0
}

/** Counts the rows that are sealed under an earlier store key, and the API keys that need the former pepper. */
export async function countFormer(sql: Queryable, now: number): Promise<{ sealed: number; api_keys: number }> {
  const sealed = (await countSealed(sql)).slice(0, -1).reduce((sum, { rows }) => sum + rows, 0)
  return { sealed, api_keys: await countWaiting(sql, now) }
}

/** Deletes the former pepper if no API key needs it. It stays for a minute, for calls that are under way. */
export async function deleteFormerPepper(sql: Queryable, now: number): Promise<void> {
  const [row] = await sql<{ pepper: number }[]>`
    select pepper from instance where id = 1 and wrapped_former_pepper is not null
      and pepper_since < pg_catalog.clock_timestamp() - interval '1 minute'`
  if (!row || (await countOfEarlier(sql, row.pepper, now)) > 0) return
  await sql`update instance set wrapped_former_pepper = null where id = 1 and pepper = ${row.pepper}`
}

async function countOfEarlier(sql: Queryable, pepper: number, now: number): Promise<number> {
  const [row] = await sql<{ waiting: number }[]>`
    select pg_catalog.count(*)::integer as waiting from api_keys as a
    where pepper > 0 and pepper < ${pepper} and revoked_at is null and ${isUnexpired(sql, now)}
      and not exists (select from tenants as t where t.tenant_id = a.tenant_id and t.status = 'moved')`
  if (!row) throw new Error('the API keys that need the former pepper could not be counted')
  return row.waiting
}

function isUnexpired(sql: Queryable, now: number) {
  return sql`(expires_at is null or expires_at > least(pg_catalog.clock_timestamp(), ${new Date(now).toISOString()}::timestamptz))`
}
