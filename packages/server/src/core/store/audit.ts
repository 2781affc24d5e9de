/** The audit log and the heads of its chains. */
import type { ChainedEntry } from '@eaas/audit/formats'
import { type Action, COUNTED_AS_UNWRAP, isUuid, type LogAction } from '@eaas/protocol'
import type { Head } from '../audit/formats/chain.js'
import { assertInserted, exists, type Fragment, type Queryable, readInteger, readTime, type Transaction } from './db.js'
import { writeArray, writeColumns } from './entry-columns.js'
import { onlyRow } from './tampered-row.js'

/** The key id under which entries without a key are counted. */
export const NIL_UUID = '00000000-0000-0000-0000-000000000000'

/**
 * The columns of a head `h`. An attacker who writes rows can make a value as long as memory, and heads are read each
 * second: so only one byte more than a server writes is read of a hash or MAC, which still makes it differ.
 */
export function headColumns(sql: Queryable) {
  return sql`h.tenant_id, h.last_id, pg_catalog.substr(h.hash, 1, 33) as hash, h.policy_version, h.created_at,
    pg_catalog.substr(h.mac, 1, 33) as mac`
}

/** @throws TamperedRowError if there are several */
export async function findHead(sql: Queryable, tenant_id: string): Promise<Head | undefined> {
  return onlyRow(await listTenantHeads(sql, tenant_id), `the head of tenant ${tenant_id}`)
}

/** At most two heads are read; there is a second one only if the primary key was dropped. */
export function listTenantHeads(sql: Queryable, tenant_id: string): Promise<Head[]> {
  return sql<Head[]>`select ${headColumns(sql)} from heads h where h.tenant_id = ${tenant_id} limit 2`
}

/** Locks the head until the transaction ends. @throws TamperedRowError if there are several */
export async function lockHead(sql: Transaction, tenant_id: string): Promise<Head | undefined> {
  const rows = await sql<Head[]>`
    select ${headColumns(sql)} from heads h where h.tenant_id = ${tenant_id} limit 2 for update`
  return onlyRow(rows, `the head of tenant ${tenant_id}`)
}

export function listHeads(sql: Queryable): Promise<Head[]> {
  return sql<Head[]>`select ${headColumns(sql)} from heads h order by h.tenant_id`
}

export async function insertHead(sql: Transaction, head: Head): Promise<void> {
  const result = await sql`
    insert into heads (tenant_id, last_id, hash, policy_version, created_at, mac)
    values (${head.tenant_id}, ${head.last_id}, ${head.hash}, ${head.policy_version}, ${head.created_at}, ${head.mac})`
  assertInserted(result, 'heads')
}

/** In milliseconds; more than any two times can differ by. */
export const ANY_SKEW_MS = 1e15

/** What to append to one log, in which the head moves from `previous` to `next`. */
export interface Append {
  previous: Head
  next: Head
  entries: readonly ChainedEntry[]
  /** in milliseconds; `time` is by the server's clock, and the entries' own times may be ahead of it */
  clock: { time: number; toleranceMs: number }
}

/** `database_time` is of the database's clock, in milliseconds since 1970. */
export type Appended = { isMoved: boolean; database_time: number }

/**
 * Appends entries in one statement: moves the head from `previous` to `next`, inserts the entries and counts them.
 * Changes nothing if the head in the database is not `previous` or is locked, or if the database's clock differs from
 * the server's by more than the tolerance. It does not wait for the lock: the driver may have sent other tenants'
 * statements behind it. A join with the locked row would take 5 % more of the database's CPU time.
 *
 * The statement fails, so that nothing is written, if a trigger dropped an entry: it counts what was inserted. A rule
 * that writes elsewhere makes it fail because it can't return `tableoid`. An entry that a trigger altered is found by
 * verification; to check it here would take 10 % to 17 % more of that time.
 */
export async function appendEntries(sql: Queryable, { previous, next, entries, clock }: Append): Promise<Appended> {
  const counts = countByKind(entries)
  const [first] = entries
  if (first === undefined) throw new Error('there is nothing to append')
  const columns = await writeColumns([{ entries }])
  const [result] = await sql<Appended[]>`
    with locked as (
      select tenant_id from heads
      where tenant_id = ${next.tenant_id} and last_id = ${previous.last_id} and hash = ${previous.hash}
        and policy_version = ${previous.policy_version} and mac = ${previous.mac}
        and pg_catalog.abs(extract(epoch from pg_catalog.clock_timestamp()) * 1000 - ${clock.time}::float8)
          <= ${Math.min(clock.toleranceMs, ANY_SKEW_MS)}::float8
      for update skip locked
    ), moved as (
      update heads
      set last_id = ${next.last_id}, hash = ${next.hash}, policy_version = ${next.policy_version},
          created_at = ${next.created_at}, mac = ${next.mac}
      where tenant_id = ${next.tenant_id} and exists (select from locked)
      returning tenant_id, tableoid
    ), inserted as (
      insert into audit_log (tenant_id, id, action, key_id, key_version, actor, ip_address, metadata, created_at, hash, mac)
      select moved.tenant_id, e.id, e.action, e.key_id, e.key_version, e.actor, e.ip_address, e.metadata,
             ${first.created_at}::timestamptz, e.hash, e.mac
      from moved, unnest(
        ${columns.id}::bigint[], ${columns.action}::text[], ${columns.key_id}::uuid[],
        ${columns.key_version}::integer[], ${columns.actor}::text[], ${columns.ip_address}::text[],
        ${columns.metadata}::text[], ${columns.hash}::bytea[], ${columns.mac}::bytea[]
      ) as e (id, action, key_id, key_version, actor, ip_address, metadata, hash, mac)
      returning tableoid
    ), counted as (
      insert into audit_counts as c (tenant_id, day, action, key_id, key_version, api_key_id, entries)
      select moved.tenant_id, (${first.created_at}::timestamptz at time zone 'UTC')::date, n.action, n.key_id, n.key_version, n.api_key_id, n.entries
      from moved, unnest(
        ${writeArray(counts.map((kind) => kind.action))}::text[], ${writeArray(counts.map((kind) => kind.key_id))}::uuid[],
        ${writeArray(counts.map((kind) => kind.key_version))}::integer[], ${writeArray(counts.map((kind) => kind.api_key_id))}::uuid[],
        ${writeArray(counts.map((kind) => kind.entries))}::bigint[]
      ) as n (action, key_id, key_version, api_key_id, entries)
      on conflict (tenant_id, day, action, key_id, key_version, api_key_id) do update set entries = c.entries + excluded.entries
    )
    select case when written = given then given > 0
             else ('the database dropped audit entries: ' || written || ' of ' || given || ' were written')::boolean end as "isMoved",
           (extract(epoch from pg_catalog.clock_timestamp()) * 1000)::float8 as database_time
    from (select pg_catalog.count(*) as written from inserted) as i,
         (select pg_catalog.count(*) * ${entries.length}::bigint as given from moved) as m`
  if (!result) throw new Error('the database did not say whether it appended')
  return result
}

/** 0 and `NIL_UUID` stand for none. */
type Kind = { action: LogAction; key_id: string; key_version: number; api_key_id: string; entries: number }

/** Counts entries as `audit_counts` does. Groups are long, so it builds no text for each entry. */
export function countByKind(entries: readonly ChainedEntry[]): Kind[] {
  const byKey = new Map<string | null, Kind[]>()
  for (const entry of entries) {
    const kinds = byKey.get(entry.key_id) ?? []
    if (kinds.length === 0) byKey.set(entry.key_id, kinds)
    findKind(kinds, entry).entries += 1
  }
  return [...byKey.values()].flat()
}

function findKind(kinds: Kind[], { action, key_id, key_version, actor }: ChainedEntry): Kind {
  const version = key_version ?? 0
  const find = (id: string) =>
    kinds.find((kind) => kind.api_key_id === id && kind.key_version === version && kind.action === action)
  // For other actions, counts by API key would only multiply the rows that totals sum.
  const caller = COUNTED_AS_UNWRAP.includes(action) ? actor : NIL_UUID
  const known = find(caller)
  if (known) return known
  const api_key_id = isUuid(caller) ? caller : NIL_UUID
  const kind = find(api_key_id) ?? { action, key_id: key_id ?? NIL_UUID, key_version: version, api_key_id, entries: 0 }
  if (kind.entries === 0) kinds.push(kind)
  return kind
}

/** @throws TamperedRowError if there are several */
export async function findEntryHash(sql: Queryable, tenant_id: string, id: number): Promise<Uint8Array | undefined> {
  const rows = await sql<{ hash: Uint8Array }[]>`
    select hash from audit_log where tenant_id = ${tenant_id} and id = ${id}`
  return onlyRow(rows, `entry ${id} of tenant ${tenant_id}`)?.hash
}

/** `metadata` is null too if it is longer than any that a server writes. */
export type ToldEntry = { id: number; action: string; metadata: string | null }

/** Which entries to list: in order after an id, with one of the actions, and with metadata that holds the text. */
type Told = { actions: readonly LogAction[]; text?: string | undefined; after_id: number; limit: number }

export function listEntriesOf(
  sql: Queryable,
  tenant_id: string,
  { actions, text = '', after_id, limit }: Told,
): Promise<ToldEntry[]> {
  return sql<ToldEntry[]>`
    select id, action, metadata from (
      select id, action,
             case when pg_catalog.octet_length(metadata) <= ${MAX_METADATA}::integer then metadata end as metadata
      from audit_log
      where tenant_id = ${tenant_id} and action = any(${[...actions]}::text[])
        and id / 4096 >= ${after_id}::bigint / 4096 and id > ${after_id}
    ) as told
    where metadata is null or pg_catalog.strpos(metadata, ${text}) > 0
    order by id limit ${limit}`
}

/** Whether there is an entry from a day on, `YYYY-MM-DD` in UTC, whose metadata has these texts. */
export async function hasEntrySince(
  sql: Queryable,
  { tenant_id, action, day, texts }: { tenant_id: string; action: LogAction; day: string; texts: readonly string[] },
): Promise<boolean> {
  const rows: Fragment = sql`
    select from audit_log
    where tenant_id = ${tenant_id} and action = ${action} and created_at >= ${day}::date::timestamp at time zone 'UTC'
      and not exists (
        select from pg_catalog.unnest(${[...texts]}::text[]) as t (text) where pg_catalog.strpos(audit_log.metadata, t.text) = 0)`
  return exists(sql, rows)
}

/** The largest id of a tenant's entries, whoever wrote them; 0 if there are none. */
export async function findLastId(sql: Queryable, tenant_id: string): Promise<number> {
  const [row] = await sql<{ id: number }[]>`
    select id from audit_log where tenant_id = ${tenant_id} order by id desc limit 1`
  return row?.id ?? 0
}

/** The smallest id of a tenant's entries, whoever wrote them; 1 if there are none, or if it is larger. */
export async function findFirstId(sql: Queryable, tenant_id: string): Promise<number> {
  const [row] = await sql<{ id: number }[]>`
    select id from audit_log where tenant_id = ${tenant_id} and id < 1 order by id limit 1`
  return row?.id ?? 1
}

/** No server writes longer metadata, in bytes: the longest is of a change of an API key, with its lists twice. */
export const MAX_METADATA = 16_384
/** No actor and no address is longer, in characters. */
const MAX_ORIGIN = 1_024

/** An entry as the database writes it in JSON. */
type EntryFields = [
  id: number,
  action: Action,
  key_id: string | null,
  key_version: number | null,
  actor: string,
  ip_address: string | null,
  metadata: string | null,
  created_at: string,
  hash: string,
  mac: string,
]

/** The entries of a log after `after_id` up to and including `through_id`. */
type Stretch = { tenant_id: string; after_id: number; through_id: number }

/**
 * Reads the first `limit` entries of a stretch in order. One JSON text takes half the time that the driver needs for as
 * many rows. As for heads, at most one character more than a server writes is read, so that a page fits into memory.
 */
export async function readChain(
  sql: Queryable,
  { tenant_id, after_id, through_id, limit }: Stretch & { limit: number },
): Promise<ChainedEntry[]> {
  const [row] = await sql<{ entries: EntryFields[] | null }[]>`
    select ${entriesJson(sql)} as entries
    from (
      select ${entryColumns(sql)} from audit_log
      where tenant_id = ${tenant_id} and id > ${after_id} and id <= ${through_id}
      order by id limit ${limit}
    ) as stretch`
  return readEntries(tenant_id, row?.entries)
}

/** The same for several logs, of each the first `limit` ids, by tenant. A log without an entry there is left out. */
export async function readChains(
  sql: Queryable,
  stretches: readonly Stretch[],
  limit: number,
): Promise<Map<string, ChainedEntry[]>> {
  const rows = await sql<{ tenant_id: string; entries: EntryFields[] | null }[]>`
    select tenant_id, ${entriesJson(sql)} as entries
    from (
      select tenant_id, ${entryColumns(sql)}
      from unnest(
        ${stretches.map((stretch) => stretch.tenant_id)}::uuid[], ${stretches.map((stretch) => stretch.after_id)}::bigint[],
        ${stretches.map(({ after_id, through_id }) => Math.min(through_id, after_id + limit))}::bigint[]
      ) as s (of_tenant, after_id, through_id)
      join audit_log on tenant_id = of_tenant and id > after_id and id <= through_id
      limit ${stretches.length * limit}
    ) as stretch
    group by tenant_id`
  return new Map(rows.map(({ tenant_id, entries }) => [tenant_id, readEntries(tenant_id, entries)]))
}

function entriesJson(sql: Queryable) {
  return sql`pg_catalog.json_agg(pg_catalog.json_build_array(
      id, action, key_id, key_version, actor, ip_address, metadata, created_at,
      pg_catalog.encode(hash, 'hex'), pg_catalog.encode(mac, 'hex')
    ) order by id)`
}

function entryColumns(sql: Queryable) {
  return sql`id, pg_catalog.substr(action, 1, ${MAX_ORIGIN + 1}::integer) as action, key_id, key_version,
             pg_catalog.substr(actor, 1, ${MAX_ORIGIN + 1}::integer) as actor,
             pg_catalog.substr(ip_address, 1, ${MAX_ORIGIN + 1}::integer) as ip_address,
             pg_catalog.substr(metadata, 1, ${MAX_METADATA + 1}::integer) as metadata, created_at,
             pg_catalog.substr(hash, 1, 33) as hash, pg_catalog.substr(mac, 1, 33) as mac`
}

function readEntries(tenant_id: string, entries: readonly EntryFields[] | null | undefined): ChainedEntry[] {
  return (entries ?? []).map(
    ([id, action, key_id, key_version, actor, ip_address, metadata, created_at, hash, mac]): ChainedEntry => ({
      tenant_id,
      id: readInteger(id),
      action,
      key_id,
      key_version,
      actor,
      ip_address,
      metadata,
      created_at: readTime(created_at),
      hash: Buffer.from(hash, 'hex'),
      mac: Buffer.from(mac, 'hex'),
    }),
  )
}

type ActionCount = { action: Action; entries: number }

/** Counts the entries of a month, `YYYY-MM` in UTC. Purged entries are included. */
export async function countMonth(sql: Queryable, tenant_id: string, month: string): Promise<ActionCount[]> {
  const first = `${month}-01`
  return sql<ActionCount[]>`
    select action, pg_catalog.sum(entries)::bigint as entries from audit_counts
    where tenant_id = ${tenant_id} and day >= ${first}::date and day < ${first}::date + interval '1 month'
    group by action order by action`
}
