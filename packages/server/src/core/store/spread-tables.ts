/** A PostgreSQL that spans machines by its extension Citus: docs/scaling.md. */
import type { Queryable } from './db.js'

/** Whether the tables are spread over machines. Only a superuser makes the table that says so. */
export async function areTablesSpread(sql: Queryable): Promise<boolean> {
  const [catalog] = await sql<{ found: boolean }[]>`
    select pg_catalog.to_regclass('pg_catalog.pg_dist_partition') is not null as found`
  if (!catalog?.found) return false
  const [table] = await sql<{ found: boolean }[]>`
    select exists (
      select from pg_catalog.pg_dist_partition where logicalrelid = pg_catalog.to_regclass('heads')
    ) as found`
  return table?.found ?? false
}
