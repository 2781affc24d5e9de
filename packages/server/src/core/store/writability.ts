/** What the database promises now: whether it takes writes, whether an acknowledged commit is on disk, and its time. */
import { randomUUID } from 'node:crypto'
import { ANY_SKEW_MS, appendByStatements } from './append.js'
import { insertHead } from './audit.js'
import { isPartUnreachable, isSpread, type Queryable, type Sql } from './db.js'
import { GRANTED_TABLES } from './grants.js'
import { hidingTables } from './tampered-row.js'

/** Why a write would fail; `detail` is for the operator and contains nothing secret. */
type WriteObstacle = { part: 'read_only' | 'schema'; detail: string }

/** The tables that calls write, with the privileges that they need. */
const WRITTEN = {
  heads: ['update'],
  audit_log: ['insert'],
  audit_counts: ['insert', 'update'],
  tenants: ['update'],
  keys: ['insert', 'update'],
  key_versions: ['insert', 'update'],
  api_keys: ['insert', 'update'],
  budget_uses: ['insert', 'update'],
}
const NEEDED = Object.entries(WRITTEN).flatMap(([table, each]) => each.map((privilege) => ({ table, privilege })))

export const WHEN_READ_ONLY =
  'turn default_transaction_read_only off where it is set: by alter role, alter database or in postgresql.conf'

type State = Record<'in_recovery' | 'is_read_only', boolean> &
  Record<'closed' | 'unread' | 'hiding' | 'missing', string[]>

/** Finds out, by reading only, why the database takes no writes; undefined if nothing prevents them. */
export async function findWriteObstacle(sql: Queryable): Promise<WriteObstacle | undefined> {
  const [row] = await sql<State[]>`
    select pg_catalog.pg_is_in_recovery() as in_recovery, pg_catalog.current_setting('transaction_read_only') = 'on' as is_read_only,
           array(
             select distinct t.name from unnest(${NEEDED.map(({ table }) => table)}::text[], ${NEEDED.map(({ privilege }) => privilege)}::text[]) as t (name, privilege)
             where not coalesce(pg_catalog.has_table_privilege(pg_catalog.to_regclass(t.name)::oid, t.privilege), false)
           ) as closed,
           array(
             select t.name from pg_catalog.unnest(${[...GRANTED_TABLES]}::text[]) as t (name)
             join pg_catalog.pg_class as c on c.oid = pg_catalog.to_regclass(t.name)::oid
             where not pg_catalog.has_table_privilege(c.oid, 'select') and exists (
               select from pg_catalog.pg_attribute as a
               where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
                 and not pg_catalog.has_column_privilege(c.oid, a.attnum, 'select'))
           ) as unread,
           ${hidingTables(sql)} as hiding,
           array(
             select t.name from pg_catalog.unnest(${[...GRANTED_TABLES]}::text[]) as t (name) where pg_catalog.to_regclass(t.name) is null
           ) as missing`
  if (!row) throw new Error('the database did not say whether it accepts writes')
  if (row.in_recovery) return { part: 'read_only', detail: 'the database is a standby, which accepts no writes' }
  if (row.is_read_only) return { part: 'read_only', detail: `the database is read-only: ${WHEN_READ_ONLY}` }
  const obstacles = [
    { tables: row.missing, say: (names: string) => `tables are missing: ${names}. Restore a backup` },
    { tables: row.hiding, say: (names: string) => `rows may be hidden from this role: ${names}` },
    { tables: row.unread, say: (names: string) => `this role may not read these tables: ${names}` },
    { tables: row.closed, say: (names: string) => `this role may not write these tables: ${names}` },
  ]
  const found = obstacles.find(({ tables }) => tables.length > 0)
  return found && { part: 'schema', detail: found.say(found.tables.join(', ')) }
}

/**
 * Writes zero rows into the tables that each call writes, which waits for their locks as a call does, and then commits
 * a write that changes nothing. That commit is never acknowledged while a synchronous standby is missing, so the caller
 * sets a deadline. Locks only the row on which migrations take turns, and no table meanwhile.
 *
 * A database that spans machines may accept zero rows but no append. There, this appends to the log of a tenant that
 * does not exist, and rolls back. A machine that is down is not reported here, since it says nothing about the others:
 * the comparison of the logs finds whose calls are refused.
 */
export async function probeCommit(sql: Sql): Promise<void> {
  try {
    if (isSpread(sql)) await tryAppend(sql)
    else
      await sql`
        with head as (update heads set last_id = last_id where false),
             entry as (insert into audit_log (tenant_id) select h.tenant_id from heads as h where false)
        insert into audit_counts (tenant_id) select h.tenant_id from heads as h where false`
    await sql`update schema_version set version = version where id = 1`
  } catch (error) {
    if (!isSpread(sql) || !isPartUnreachable(error)) throw error
  }
}

async function tryAppend(sql: Sql): Promise<void> {
  const head = { last_id: 0, policy_version: 0, created_at: new Date(0).toISOString(), hash: ZEROS, mac: ZEROS }
  const previous = { ...head, tenant_id: randomUUID() }
  const next = { ...previous, last_id: 1 }
  const entry = { action: 'key.wrap' as const, key_id: null, key_version: null, actor: '', ip_address: null }
  const appended = sql.begin(async (transaction) => {
    await insertHead(transaction, previous)
    const entries = [{ ...entry, ...next, id: 1, metadata: null }]
    const clock = { time: 0, toleranceMs: ANY_SKEW_MS }
    const { isMoved } = await appendByStatements(transaction, { previous, next, entries, clock })
    throw isMoved ? ROLLED_BACK : new Error('the database does not append to a log')
  })
  await appended.catch((error: unknown) => {
    if (error !== ROLLED_BACK) throw error
  })
}

const ZEROS = new Uint8Array(32)
/** Ends a transaction that must not be committed. */
export const ROLLED_BACK = new Error('rolled back')

/** Whether the commit that guards a DEK reaches the disk before the DEK leaves: `synchronous` or `asynchronous`. */
export type Durability = 'synchronous' | 'asynchronous'

export async function findDurability(sql: Queryable): Promise<Durability> {
  const [row] = await sql<{ fsync: string; full_page_writes: string; synchronous_commit: string }[]>`
    select pg_catalog.current_setting('fsync') as fsync, pg_catalog.current_setting('full_page_writes') as full_page_writes,
           pg_catalog.current_setting('synchronous_commit') as synchronous_commit`
  return row?.fsync === 'on' && row.full_page_writes === 'on' && row.synchronous_commit !== 'off'
    ? 'synchronous'
    : 'asynchronous'
}

/** The time of the database's clock, in milliseconds since 1970. */
export async function findDatabaseTime(sql: Queryable): Promise<number> {
  const [row] = await sql<{ now: string }[]>`select pg_catalog.now()`
  if (!row) throw new Error('the database did not return its time')
  return Date.parse(row.now)
}
