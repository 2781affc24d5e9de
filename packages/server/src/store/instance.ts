/** The one row that belongs to the whole installation. */
import type { Queryable, Transaction } from './db.js'

export interface InstanceRow {
  wrapped_pepper: Uint8Array
  wrapped_signing_key: Uint8Array
  created_at: string
}

/** Finds the installation's row; undefined before the first start, even if its table does not exist yet. */
export async function findInstance(sql: Queryable): Promise<InstanceRow | undefined> {
  const [table] = await sql<{ found: boolean }[]>`select to_regclass('instance') is not null as found`
  if (!table?.found) return undefined
  const [row] = await sql<
    InstanceRow[]
  >`select wrapped_pepper, wrapped_signing_key, created_at from instance where id = 1`
  return row
}

/** Inserts the installation's row; keeps the one that another process inserted first. */
export async function insertInstance(sql: Queryable, row: InstanceRow): Promise<void> {
  await sql`
    insert into instance (id, wrapped_pepper, wrapped_signing_key, created_at)
    values (1, ${row.wrapped_pepper}, ${row.wrapped_signing_key}, ${row.created_at})
    on conflict (id) do nothing`
}

/** Locks the installation's row until the transaction ends, for work that only one process may do at a time. */
export async function lockInstance(sql: Transaction): Promise<void> {
  await sql`select id from instance where id = 1 for update`
}
