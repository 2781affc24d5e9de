/** What the database is configured to promise, and whether it answers. */
import type { Queryable } from './db.js'
import { withDeadline } from './deadline.js'

/** Whether the commit that guards a DEK reaches the disk before the DEK leaves: `synchronous` or `asynchronous`. */
export type Durability = 'synchronous' | 'asynchronous'

/** Whether a commit is on disk when it is acknowledged. */
export async function findDurability(sql: Queryable): Promise<Durability> {
  const [row] = await sql<{ fsync: string; full_page_writes: string; synchronous_commit: string }[]>`
    select current_setting('fsync') as fsync, current_setting('full_page_writes') as full_page_writes,
           current_setting('synchronous_commit') as synchronous_commit`
  return row?.fsync === 'on' && row.full_page_writes === 'on' && row.synchronous_commit !== 'off'
    ? 'synchronous'
    : 'asynchronous'
}

/** What is in force, when the database answers within some milliseconds. Why it does not, the calls that failed have logged. */
export function durabilityWithin(find: () => Promise<Durability>, ms: number): Promise<Durability | undefined> {
  return withDeadline(find(), ms).catch(() => undefined)
}

/** What time it is for the database, in milliseconds since 1970. */
export async function findDatabaseTime(sql: Queryable): Promise<number> {
  const [row] = await sql<{ now: string }[]>`select now()`
  if (!row) throw new Error('the database gave no time')
  return Date.parse(row.now)
}

/** Whether this role may make tables, which a migration does. */
export async function mayCreateTables(sql: Queryable): Promise<boolean> {
  const [row] = await sql<{ may: boolean }[]>`
    select coalesce(has_schema_privilege(current_schema(), 'create'), false) as may`
  return row?.may ?? false
}

/** What time it is for the database, and the time of the newest audit entry of all. */
export async function findClock(sql: Queryable): Promise<{ database_now: string; newest_entry: string | null }> {
  const [table] = await sql<{ found: boolean }[]>`select to_regclass('heads') is not null as found`
  const [row] = table?.found
    ? await sql<{ database_now: string; newest_entry: string | null }[]>`
        select now() as database_now, (select max(created_at) from heads) as newest_entry`
    : await sql<{ database_now: string; newest_entry: string | null }[]>`
        select now() as database_now, null::timestamptz as newest_entry`
  if (!row) throw new Error('the database gave no time')
  return row
}
