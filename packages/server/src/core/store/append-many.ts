/**
 * Appends to the logs of many tenants in one statement. An engine that shards by tenant would have to run it on many
 * shards.
 */
import { ANY_SKEW_MS, type Append, countByKind } from './audit.js'
import type { Queryable } from './db.js'
import { writeArray, writeBytes, writeColumns } from './entry-columns.js'

interface AppendedToMany {
  /** the positions of the appends that were made */
  moved: number[]
  /** the time of the database's clock, in milliseconds since 1970 */
  database_time: number
}

/**
 * Appends for each tenant as `appendEntries` does for one. Those whose head is locked are left out too, because a wait
 * for one tenant would be a wait for all: so two such statements never wait for each other.
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
