/**
 * Appends to one log or to many in one statement. On a database that spans machines, each machine would get a copy of all parts of
 * a shared statement, at three times the CPU time. There, each statement appends to one log and goes to the machine of its tenant.
 */
import type { ChainedEntry } from '@eaas/audit/formats'
import { COUNTED_AS_UNWRAP, isUuid, type LogAction } from '@eaas/protocol'
import type { Head } from '../audit/formats/chain.js'
import { NIL_UUID } from './audit.js'
import { assertInserted, type Queryable, type Sql, type Transaction } from './db.js'
import { writeArray, writeBytes, writeColumns } from './entry-columns.js'

/** In milliseconds; above any possible difference of two times. */
export const ANY_SKEW_MS = 1e15

export interface Append {
  previous: Head
  next: Head
  entries: readonly ChainedEntry[]
  /** in milliseconds; `time` is by the server's clock; the entries' own times may be ahead of it */
  clock: { time: number; toleranceMs: number }
}

/** `database_time` is of the database's clock, in milliseconds since 1970. */
export type Appended = { isMoved: boolean; database_time: number }

/**
 * Appends entries in one statement: moves the head from `previous` to `next`, inserts the entries and counts them.
 * Changes nothing if the head in the database is not `previous` or is locked, or if the database's clock differs from
 * the server's by more than the tolerance. It does not wait for the lock, since the driver may have sent other tenants'
 * statements behind it. A join with the locked row would take 5 % more of the database's CPU time.
 *
 * The statement counts what it inserted, and fails, so that nothing is written, if a trigger dropped an entry. If a
 * rule writes elsewhere, the statement fails because `tableoid` is missing. Verification finds an entry that a trigger
 * altered: a check here would take 10 % to 17 % more of that time.
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

function countByKind(entries: readonly ChainedEntry[]): Kind[] {
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

/** The positions of the appends that were made, and the time of the database's clock, in milliseconds since 1970. */
type AppendedToMany = { moved: number[]; database_time: number }

/**
 * Appends for each tenant as `appendEntries` does for one. Skips tenants whose head is locked or is not the previous
 * one, so that no tenant waits for another's lock. Two such statements never wait for each other. If an entry of any
 * tenant was dropped, the whole statement fails.
 */
export async function appendToMany(
  sql: Queryable,
  appends: readonly Omit<Append, 'clock'>[],
  clock: Append['clock'],
): Promise<AppendedToMany> {
  const columns = await writeColumns(appends)
  const previous = appends.map((append) => append.previous)
  const next = appends.map((append) => append.next)
  const counts = appends.flatMap(({ entries }, append) => countByKind(entries).map((kind) => ({ append, ...kind })))
  const [result] = await sql<AppendedToMany[]>`
    with appends as (
      select * from unnest(
        ${writeArray(appends.map((_, at) => at))}::integer[], ${writeArray(next.map(({ tenant_id }) => tenant_id))}::uuid[],
        ${writeArray(previous.map(({ last_id }) => last_id))}::bigint[], ${writeBytes(previous.map(({ hash }) => hash))}::bytea[],
        ${writeArray(previous.map(({ policy_version }) => policy_version))}::bigint[], ${writeBytes(previous.map(({ mac }) => mac))}::bytea[],
        ${writeArray(next.map(({ last_id }) => last_id))}::bigint[], ${writeBytes(next.map(({ hash }) => hash))}::bytea[],
        ${writeArray(next.map(({ policy_version }) => policy_version))}::bigint[], ${writeBytes(next.map(({ mac }) => mac))}::bytea[],
        ${writeArray(next.map(({ created_at }) => created_at))}::timestamptz[]
      ) as a (append, tenant_id, previous_id, previous_hash, previous_version, previous_mac, last_id, hash, policy_version, mac, created_at)
      where pg_catalog.abs(extract(epoch from pg_catalog.clock_timestamp()) * 1000 - ${clock.time}::float8)
        <= ${Math.min(clock.toleranceMs, ANY_SKEW_MS)}::float8
    ), locked as (
      select a.append, a.tenant_id, a.last_id - a.previous_id as entries, a.last_id, a.hash, a.policy_version, a.mac, a.created_at
      from appends as a, lateral (
        select from heads as h
        where h.tenant_id = a.tenant_id and h.last_id = a.previous_id and h.hash = a.previous_hash
          and h.policy_version = a.previous_version and h.mac = a.previous_mac
        for update skip locked
      ) as h
    ), moved as (
      update heads as h
      set last_id = l.last_id, hash = l.hash, policy_version = l.policy_version, created_at = l.created_at, mac = l.mac
      from locked as l where h.tenant_id = l.tenant_id
      returning l.append, l.entries, h.tenant_id, h.created_at, h.tableoid
    ), inserted as (
      insert into audit_log (tenant_id, id, action, key_id, key_version, actor, ip_address, metadata, created_at, hash, mac)
      select m.tenant_id, e.id, e.action, e.key_id, e.key_version, e.actor, e.ip_address, e.metadata, m.created_at, e.hash, e.mac
      from unnest(
        ${columns.append}::integer[], ${columns.id}::bigint[], ${columns.action}::text[], ${columns.key_id}::uuid[],
        ${columns.key_version}::integer[], ${columns.actor}::text[], ${columns.ip_address}::text[],
        ${columns.metadata}::text[], ${columns.hash}::bytea[], ${columns.mac}::bytea[]
      ) as e (append, id, action, key_id, key_version, actor, ip_address, metadata, hash, mac)
      join moved as m on m.append = e.append
      returning tableoid
    ), counted as (
      insert into audit_counts as c (tenant_id, day, action, key_id, key_version, api_key_id, entries)
      select m.tenant_id, (m.created_at at time zone 'UTC')::date, n.action, n.key_id, n.key_version, n.api_key_id, n.entries
      from unnest(
        ${writeArray(counts.map((kind) => kind.append))}::integer[], ${writeArray(counts.map((kind) => kind.action))}::text[],
        ${writeArray(counts.map((kind) => kind.key_id))}::uuid[], ${writeArray(counts.map((kind) => kind.key_version))}::integer[],
        ${writeArray(counts.map((kind) => kind.api_key_id))}::uuid[], ${writeArray(counts.map((kind) => kind.entries))}::bigint[]
      ) as n (append, action, key_id, key_version, api_key_id, entries)
      join moved as m on m.append = n.append
      on conflict (tenant_id, day, action, key_id, key_version, api_key_id) do update set entries = c.entries + excluded.entries
    )
    select case when written = given then appends
             else ('the database dropped audit entries: ' || written || ' of ' || given || ' were written')::integer[] end as moved,
           (extract(epoch from pg_catalog.clock_timestamp()) * 1000)::float8 as database_time
    from (select pg_catalog.count(*) as written from inserted) as i,
         (select coalesce(pg_catalog.sum(entries), 0) as given, coalesce(pg_catalog.array_agg(append), '{}') as appends
          from moved) as m`
  if (!result) throw new Error('the database did not say whether it appended')
  return result
}

/** Rows of one statement. The session keeps a prepared statement for each number of rows. */
const ROWS_AT_ONCE = 64

export function appendInTransaction(sql: Sql, append: Append): Promise<Appended> {
  return sql.begin((transaction) => appendByStatements(transaction, append)) as Promise<Appended>
}

export async function appendByStatements(sql: Transaction, append: Append): Promise<Appended> {
  const { previous, clock } = append
  const [locked] = await sql<{ database_time: number }[]>`
    select ${milliseconds(sql)} as database_time from heads
    where tenant_id = ${previous.tenant_id} and last_id = ${previous.last_id} and hash = ${previous.hash}
      and policy_version = ${previous.policy_version} and mac = ${previous.mac}
    for update skip locked`
  const tolerance = Math.min(clock.toleranceMs, ANY_SKEW_MS)
  if (locked && Math.abs(locked.database_time - clock.time) <= tolerance) {
    await write(sql, append)
    return { isMoved: true, ...locked }
  }
  const [now] = await sql<{ database_time: number }[]>`select ${milliseconds(sql)} as database_time`
  if (!now) throw new Error('the database did not return its time')
  return { isMoved: false, ...(locked ?? now) }
}

function milliseconds(sql: Transaction) {
  return sql`(extract(epoch from pg_catalog.clock_timestamp()) * 1000)::float8`
}

async function write(sql: Transaction, { next, entries }: Append): Promise<void> {
  const { tenant_id } = next
  const [first] = entries
  if (!first) throw new Error('there is nothing to append')
  const { created_at } = first
  const day = created_at.slice(0, 'YYYY-MM-DD'.length)
  const rows = entries.map((entry) => ({ ...entry, tenant_id, created_at }))
  const counts = countByKind(entries).map((kind) => ({ ...kind, tenant_id, day }))
  // Sent together. A failure of one ends the transaction, whatever the others answer.
  await Promise.all([
    sql`
      update heads
      set last_id = ${next.last_id}, hash = ${next.hash}, policy_version = ${next.policy_version},
          created_at = ${next.created_at}, mac = ${next.mac}
      where tenant_id = ${tenant_id}`.then((result) => assertInserted(result, 'heads')),
    ...inParts(rows).map((part) =>
      sql`
      insert into audit_log ${sql(part, 'tenant_id', 'id', 'action', 'key_id', 'key_version', 'actor', 'ip_address', 'metadata', 'created_at', 'hash', 'mac')}`.then(
        (result) => assertInserted(result, 'audit_log', part.length),
      ),
    ),
    ...inParts(counts).map(
      (part) => sql`
      insert into audit_counts ${sql(part, 'tenant_id', 'day', 'action', 'key_id', 'key_version', 'api_key_id', 'entries')}
      on conflict (tenant_id, day, action, key_id, key_version, api_key_id) do update set entries = audit_counts.entries + excluded.entries`,
    ),
  ])
}

function inParts<Row>(rows: readonly Row[]): Row[][] {
  const parts: Row[][] = []
  for (let at = 0; at < rows.length; at += ROWS_AT_ONCE) parts.push(rows.slice(at, at + ROWS_AT_ONCE))
  return parts
}
