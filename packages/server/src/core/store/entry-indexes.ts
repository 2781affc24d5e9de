/**
 * Queries with exactly the expressions of the indexes of `audit_log`: by blocks of ids and by sampled times (migration
 * 027), and by the hash of a key with an action (029). Each reads a few blocks, whatever PostgreSQL expects to find.
 */
import { type Fragment, isSpread, type Queryable } from './db.js'

/** The entries after one id, up to and including another; none if that is not after it. */
export type Range = { after_id: number; through_id: number }

type BlockPage = { limit: number; offset?: number; order?: 'asc' | 'desc' }

/**
 * What follows `from audit_log` for a page of entries. The condition names the first columns of an index, which is read
 * in its order up to the block in which the page ends; only these blocks are sorted. A condition on the id must say `is
 * true`, or PostgreSQL could read a range of the primary key instead.
 */
export function pageOfBlocks(
  sql: Queryable,
  tenant_id: string | Fragment,
  condition: Fragment,
  { limit, offset = 0, order = 'desc' }: BlockPage,
): Fragment {
  const isAscending = order === 'asc'
  const direction = isAscending ? sql`asc` : sql`desc`
  return sql`
    where tenant_id = ${tenant_id} and ${condition}
      and id / 4096 ${isAscending ? sql`<=` : sql`>=`} coalesce(
        (select id / 4096 from audit_log where tenant_id = ${tenant_id} and ${condition}
         order by id / 4096 ${direction} limit 1 offset ${offset + limit - 1}),
        ${isAscending ? Number.MAX_SAFE_INTEGER : 0}::bigint)
    order by id / 4096 ${direction}, id ${direction} limit ${limit} offset ${offset}`
}

/** With a lower estimate than these bounds give, PostgreSQL would read the logs of all tenants for a page with an offset. */
export function withinBlocks(sql: Queryable, { after_id, through_id }: Range): Fragment {
  return sql`
    id / 4096 >= ${after_id}::bigint / 4096 and id / 4096 <= ${through_id}::bigint / 4096
    and (id > ${after_id} and id <= ${through_id}) is true`
}

/**
 * In the index of a key with an action, entries are in the order of their ids. Combine this only with conditions on the id: with
 * others, PostgreSQL would expect too few entries and sort them all. Hashes may collide, so check each entry that is shown.
 */
export function ofKeyAndAction(
  sql: Queryable,
  { tenant_id, key_id, action }: Record<'tenant_id' | 'key_id' | 'action', string | Fragment>,
): Fragment {
  const hash = (tenant: string | Fragment, key: string | Fragment, of: string | Fragment) => sql`
    pg_catalog.uuid_hash_extended(
      ${key}::uuid, pg_catalog.hashtextextended(${of}::text, pg_catalog.uuid_hash(${tenant}::uuid)::bigint))`
  const byHash: Fragment = sql`${hash(sql`tenant_id`, sql`key_id`, sql`action`)} = ${hash(tenant_id, key_id, action)}`
  // The hash is unique to one tenant, but without the tenant's id a database that spans machines would ask all of them.
  return isSpread(sql) ? sql`tenant_id = ${tenant_id} and ${byHash}` : byHash
}

/** The entries of the index of times within a bound, such as `>= …`. */
export function sampledWithin(sql: Queryable, tenant_id: string | Fragment, bound: Fragment): Fragment {
  return sql`select id from audit_log where tenant_id = ${tenant_id} and created_at ${bound} and id > 0 and ${isSampled(sql)}`
}

/**
 * The last id of a log whose time is within a bound, such as `<= …`; null if there is none. Times never go back from
 * one sampled entry to the next, so this entry is before the one that follows the last sampled one within the bound. It
 * is the latest such entry if times never go back in the log.
 */
export function lastIdWithin(
  sql: Queryable,
  tenant_id: string | Fragment,
  bound: Fragment,
  { isOrdered }: { isOrdered: boolean },
): Fragment {
  const sampled = sampledWithin(sql, tenant_id, bound)
  const last = isOrdered
    ? sql`(${sampled} order by created_at desc, id desc limit 1)`
    : sql`(select pg_catalog.max(id) from (${sampled} offset 0) as sampled)`
  return sql`(
    select id from audit_log
    where tenant_id = ${tenant_id} and created_at ${bound} and id > 0 and id < coalesce(
      (select id from audit_log where tenant_id = ${tenant_id} and id > coalesce(${last}, 0) and ${isSampled(sql)} order by id limit 1),
      ${Number.MAX_SAFE_INTEGER}::bigint)
    order by id desc limit 1)`
}

function isSampled(sql: Queryable): Fragment {
  return sql`(pg_catalog.mod(id, 256) = 0 or action = 'audit.clock_accepted')`
}
