/**
 * How often each version of a key wrapped, and when it last opened something. Both come from the counts of the entries,
 * which are committed with the entries, so a use costs no further write, and none is lost.
 */
import type { Action } from '@eaas/protocol'
import type { PageOf, Queryable } from './db.js'
import type { KeyPlace, KeyRow } from './keys.js'

/** The actions that write an entry for each DEK that a KEK sealed, including those of a rewrap and of server mode. */
const WRAPS: Action[] = ['key.wrap', 'encrypt']
/** The actions that write an entry for each DEK opened for a caller; a rewrap moves the DEK off the version that it opens. */
const OPENS: Action[] = ['key.unwrap', 'decrypt']

/** What a version did; `opened_on` is the last UTC day on which it opened something, YYYY-MM-DD. */
type VersionUse = { version: number; wraps: number; opened_on: string | null }

/** Leaves out versions that did nothing. */
export function listVersionUses(sql: Queryable, { tenant_id, key_id }: KeyPlace): Promise<VersionUse[]> {
  return sql<VersionUse[]>`
    select key_version as version,
           coalesce(pg_catalog.sum(entries) filter (where action = any(${WRAPS}::text[])), 0)::bigint as wraps,
           pg_catalog.max(day) filter (where action = any(${OPENS}::text[])) as opened_on
    from audit_counts
    where tenant_id = ${tenant_id} and key_id = ${key_id} and action = any(${[...WRAPS, ...OPENS]}::text[])
    group by key_version`
}

type CurrentVersion = KeyPlace & Pick<KeyRow, 'current_version'>

export async function countWraps(
  sql: Queryable,
  { tenant_id, key_id, current_version }: CurrentVersion,
): Promise<number> {
  const [row] = await sql<{ wraps: number }[]>`
    select coalesce(pg_catalog.sum(entries), 0)::bigint as wraps from audit_counts
    where tenant_id = ${tenant_id} and key_id = ${key_id} and key_version = ${current_version}
      and action = any(${WRAPS}::text[])`
  return row?.wraps ?? 0
}

/** A key that wraps, and how many DEKs its current version wrapped. */
export type WrappingKey = CurrentVersion & { wraps: number }

/**
 * A page of the keys that wrap, of all tenants. `wraps` is 0 for a key that was not used since the day `since`,
 * whatever it wrapped before: an unused key does not come nearer to a limit.
 */
export function listWrappingKeys(sql: Queryable, since: string, page: PageOf<KeyPlace>): Promise<WrappingKey[]> {
  const { after, limit } = page
  return sql<WrappingKey[]>`
    select k.tenant_id, k.key_id, k.current_version, case when exists (
             select from audit_counts as c
             where c.tenant_id = k.tenant_id and c.key_id = k.key_id and c.day >= ${since}::date
           ) then (
             select coalesce(pg_catalog.sum(c.entries), 0)::bigint from audit_counts as c
             where c.tenant_id = k.tenant_id and c.key_id = k.key_id and c.key_version = k.current_version
               and c.action = any(${WRAPS}::text[])
           ) else 0 end as wraps
    from keys as k
    where k.status = 'active' ${after ? sql`and (k.tenant_id, k.key_id) > (${after.tenant_id}, ${after.key_id})` : sql``}
    order by k.tenant_id, k.key_id limit ${limit}`
}
