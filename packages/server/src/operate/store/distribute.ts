/** Spreads the tables over the machines of a PostgreSQL with the extension Citus: docs/scaling.md. */
import { type Queryable, type Sql, withoutLimits } from '../../core/store/db.js'
import { GRANTED_TABLES } from '../../core/store/grants.js'

/** Tables that each machine has completely, since they belong to no tenant or each server reads them each second. */
const ON_EACH_MACHINE = ['store_keys', 'instance', 'schema_version', 'chain_alarms']
/** Its placement decides on which machine the rows of a tenant are, in all spread tables. */
const FIRST = 'tenants'
const TABLES = [
  ...ON_EACH_MACHINE,
  FIRST,
  ...GRANTED_TABLES.filter((name) => name !== FIRST && !ON_EACH_MACHINE.includes(name)),
]

export class NoCitusError extends Error {
  override readonly name = 'NoCitusError'
}

/**
 * Spreads the tables, as their owner and while no server runs; returns those that were not spread before. May be repeated
 * after an interruption, or after a migration that created a table.
 *
 * No machine can check that a name is unique on all, so that constraint of `tenants` is dropped; servers take turns to
 * create tenants. The rows that the tables had here, with sealed secrets, stay in their files until these are truncated.
 *
 * @throws NoCitusError
 */
export async function distributeTables(sql: Sql): Promise<string[]> {
  const [extension] = await sql<{ found: boolean }[]>`
    select exists (select from pg_catalog.pg_extension where extname = 'citus') as found`
  if (!extension?.found)
    throw new NoCitusError(
      'This database has no Citus: as its administrator, run create extension citus, and add the machines',
    )
  return withoutLimits(sql, 'eaas migrate --distribute', async (session) => {
    await session`begin`
    try {
      const tables = await spread(session)
      await session`commit`
      // All of them, because an earlier run may have ended before this.
      for (const table of TABLES)
        await session`select pg_catalog.truncate_local_data_after_distributing_table(${table}::regclass)`
      return tables
    } catch (error) {
      await session`rollback`.catch(() => undefined) // the session may be gone
      throw error
    }
  })
}

/** Lists the tables that are not spread, in an order in which they can be. */
export async function listUnspread(sql: Queryable): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select t.name from pg_catalog.unnest(${TABLES}::text[]) with ordinality as t (name, at)
    where not exists (select from pg_catalog.pg_dist_partition where logicalrelid = pg_catalog.to_regclass(t.name))
    order by t.at`
  return rows.map(({ name }) => name)
}

async function spread(session: Queryable): Promise<string[]> {
  await session`select version from schema_version where id = 1 for update` // migrations and this take turns
  await session`set local citus.multi_shard_modify_mode to 'sequential'`
  await session`alter table tenants drop constraint if exists tenants_name_key`
  const tables = await listUnspread(session)
  for (const name of tables) {
    if (ON_EACH_MACHINE.includes(name)) await session`select pg_catalog.create_reference_table(${name}::regclass)`
    else if (name === FIRST) await session`select pg_catalog.create_distributed_table(${name}::regclass, 'tenant_id')`
    else
      await session`select pg_catalog.create_distributed_table(${name}::regclass, 'tenant_id', colocate_with => ${FIRST})`
  }
  return tables
}
