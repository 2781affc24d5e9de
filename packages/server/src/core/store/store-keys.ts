import type { Queryable, Transaction } from './db.js'

/** How long a new store key or pepper is not used, so that every process, which reads them once a second, has it by then. */
export const LEARN_SECONDS = 10
/** How long a server may refuse a new store key: its refusal is committed before anything is sealed under that key. */
const REFUSE_SECONDS = LEARN_SECONDS - 2

export interface StoreKeyRow {
  number: number
  /** the key and its number, wrapped by the provider of the root key */
  wrapped: Uint8Array
  created_at: string
}

/** Oldest first. `may_seal` is true once every process had time to read the key, unless one could not open it. */
export function listStoreKeys(sql: Queryable): Promise<(StoreKeyRow & { may_seal: boolean; is_refused: boolean })[]> {
  return sql`
    with k as (
      select s.number, pg_catalog.substr(s.wrapped, 1, 65536) as wrapped, s.created_at,
             s.number = pg_catalog.min(s.number) over () as is_oldest,
             s.refused_at is not null as has_refusal
      from store_keys s
    )
    select number, wrapped, created_at, has_refusal and not is_oldest as is_refused,
           is_oldest or (created_at + ${LEARN_SECONDS} * interval '1 second' <= pg_catalog.clock_timestamp()
                         and not has_refusal) as may_seal
    from k
    order by number`
}

/** Refuses the store keys after a number, which this server cannot open, unless something may be sealed under them. */
export async function refuseStoreKeysAfter(sql: Queryable, number: number): Promise<void> {
  await sql`
    update store_keys set refused_at = pg_catalog.statement_timestamp()
    where number > ${number} and refused_at is null
      and created_at > pg_catalog.statement_timestamp() - ${REFUSE_SECONDS} * interval '1 second'`
}

/** Inserts a store key, dated by the database's clock; false if its number is taken. */
export async function insertStoreKey(
  sql: Transaction,
  { number, wrapped }: Omit<StoreKeyRow, 'created_at'>,
): Promise<boolean> {
  const result = await sql`
    insert into store_keys (number, wrapped, created_at) values (${number}, ${wrapped}, pg_catalog.statement_timestamp())
    on conflict (number) do nothing`
  return result.count === 1
}

const FOREIGN_KEY_VIOLATION = '23503'

/** Whether the database refused a row because its store key is gone, or refused to delete a store key that a row needs. */
export function isStoreKeyGone(error: unknown): boolean {
  const { code, constraint_name } = (error ?? {}) as { code?: unknown; constraint_name?: unknown }
  return code === FOREIGN_KEY_VIOLATION && /_store_key_fkey$/.test(String(constraint_name))
}

/** How many rows have secrets that are sealed under each store key, oldest first. */
export function countSealed(sql: Queryable): Promise<{ number: number; created_at: string; rows: number }[]> {
  return sql`
    select k.number, k.created_at, coalesce(pg_catalog.sum(s.rows), 0)::integer as rows
    from store_keys as k left join (
      select store_key, pg_catalog.count(*) as rows from instance group by store_key
      union all select store_key, pg_catalog.count(*) from tenants group by store_key
      union all select store_key, pg_catalog.count(*) from keys group by store_key
      union all select store_key, pg_catalog.count(*) from key_versions group by store_key
      union all select store_key, pg_catalog.count(*) from tenant_peppers group by store_key
    ) as s on s.store_key = k.number
    group by k.number, k.created_at order by k.number`
}
