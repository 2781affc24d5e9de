-- The tables of the service. tenant_id stands first in every primary key and in every where clause, so that tenants can
-- be spread over shards. Rows that grant rights carry a mac and the id of the audit entry that wrote them.
-- Schemas 1 to 30 were never released: the first file's number is the oldest schema that is served and migrated.

-- ANALYZE copies values of a column into pg_statistic, from where destroying a key would not remove them: so columns of secrets have `statistics 0`.

-- The keys that seal all other secrets, each wrapped under the root key. The newest seals what is new; an older one stays until nothing is sealed under it.
create table store_keys (
  number integer primary key check (number > 0),
  wrapped bytea not null,
  created_at timestamptz(3) not null,
  refused_at timestamptz(3) -- when a server that runs could not open a new store key: it never seals anything then
);
alter table store_keys alter column wrapped set statistics 0;

-- In the tables of secrets, store_key is the one that seals a row's secret, read from the sealed bytes: none can be removed that is still needed.
-- It is null for a destroyed secret.

create table instance (
  id integer primary key check (id = 1),
  wrapped_pepper bytea not null,
  wrapped_signing_key bytea not null,
  created_at timestamptz(3) not null,
  wrapped_audit_key bytea, -- of the installation's own log (audit/formats/anchor.md)
  store_key integer references store_keys generated always as (
    case when get_byte(wrapped_pepper, 0) = 2 then (get_byte(wrapped_pepper, 1) << 24) | (get_byte(wrapped_pepper, 2) << 16) | (get_byte(wrapped_pepper, 3) << 8) | get_byte(wrapped_pepper, 4) end
  ) stored,
  -- The pepper of API keys is replaced with the store key. The former one stays until each API key was used, revoked or has expired; null once it is gone.
  pepper integer not null default 1,
  pepper_since timestamptz(3),
  wrapped_former_pepper bytea,
  backed_up_at timestamptz(3) -- when the newest backup was taken; operators read it, and nothing else depends on it, so it is under no mac
);
alter table instance
  alter column wrapped_pepper set statistics 0,
  alter column wrapped_signing_key set statistics 0,
  alter column wrapped_audit_key set statistics 0,
  alter column wrapped_former_pepper set statistics 0;

create table tenants (
  tenant_id uuid primary key,
  name text not null unique,
  envelope_only boolean not null,
  monthly_encrypt_quota bigint,
  wrapped_audit_key bytea not null,
  created_at timestamptz(3) not null,
  entry_id bigint not null,
  mac bytea not null,
  -- What /v1/encrypt and /v1/decrypt take the plaintext for where a call does not say: utf8 or base64.
  plaintext_encoding text not null default 'utf8',
  status text not null default 'active', -- whether the tenant is served: active, suspended or deleted
  store_key integer references store_keys generated always as (
    case when get_byte(wrapped_audit_key, 0) = 2 then (get_byte(wrapped_audit_key, 1) << 24) | (get_byte(wrapped_audit_key, 2) << 16) | (get_byte(wrapped_audit_key, 3) << 8) | get_byte(wrapped_audit_key, 4) end
  ) stored,
  -- The id of the installation's own log belongs to no tenant.
  constraint tenants_not_installation check (tenant_id <> 'ffffffff-ffff-ffff-ffff-ffffffffffff')
);
alter table tenants alter column wrapped_audit_key set statistics 0;

-- The end of each tenant's chain, and the version of its policy: the state of its keys, API keys and settings.
create table heads (
  tenant_id uuid primary key,
  last_id bigint not null,
  hash bytea not null,
  policy_version bigint not null,
  created_at timestamptz(3) not null,
  mac bytea not null
);

-- Copies of rows of heads, taken together, which the newest anchor of the installation's log covers; the MACs are those of the heads.
create table anchored_heads (
  tenant_id uuid primary key,
  last_id bigint not null,
  hash bytea not null,
  policy_version bigint not null,
  created_at timestamptz(3) not null,
  mac bytea not null
);

-- Tenants that are not served because their chain in the database is not the one that a server witnessed (audit/formats/chain.md 10).
-- `last_id`, `hash` and `policy_version` are of the head that was witnessed; last_id is 0 where none was.
create table chain_alarms (
  tenant_id uuid primary key,
  reason text not null,
  last_id bigint not null,
  hash bytea not null,
  policy_version bigint not null,
  raised_at timestamptz(3) not null,
  mac bytea not null
);

create table audit_log (
  tenant_id uuid not null,
  id bigint not null,
  action text not null,
  key_id uuid,
  key_version integer,
  actor text not null,
  ip_address text,
  metadata text,
  created_at timestamptz(3) not null,
  hash bytea not null,
  mac bytea not null,
  primary key (tenant_id, id)
);
-- Indexes by the block of 4,096 ids that an entry is in: its entries have equal index tuples, which PostgreSQL stores once with 6 bytes for each.
create index audit_log_key_block on audit_log (tenant_id, key_id, (id / 4096));
create index audit_log_action_block on audit_log (tenant_id, action, (id / 4096));
-- The entries of a key with an action in the order of their ids: a hash of 64 bits stands for tenant, key and action, so an entry takes 28 bytes, whatever their number.
-- Without it, a rare action on a key of many entries is looked for through all of them.
create index audit_log_key_action_hash on audit_log (uuid_hash_extended(key_id, hashtextextended(action, uuid_hash(tenant_id)::bigint)), id);
-- The times of each 256th entry, and of those with which times go back: between two of these they never do.
create index audit_log_sampled_time on audit_log (tenant_id, created_at, id) where mod(id, 256) = 0 or action = 'audit.clock_accepted';
-- The newest entry about an API key, which its row must name: without an index, all entries about API keys would be read. It may be one that a purge made it restate.
-- Each append evaluates the condition for each of its entries. Nearly all are of calls and have no metadata: compared first, it saves them
-- the comparisons of text, which took PostgreSQL about 5 % of the time of an append.
create index audit_log_api_key on audit_log (tenant_id, (substring(metadata, '"api_key_id":"([^"]*)"')), id)
  where metadata is not null and action in ('api_key.create', 'api_key.update', 'api_key.revoke', 'api_key.restate');

-- How many entries there are by day, action and key: totals without counting, and what usage is billed by.
-- An entry without a key is counted under the nil UUID. Of the entries that were counted, `purged` are those that a purge took:
-- usage is billed by what was done, so it stays.
create table audit_counts (
  tenant_id uuid not null,
  day date not null,
  action text not null,
  key_id uuid not null,
  entries bigint not null,
  purged bigint not null default 0,
  -- Which version of its key an entry names, 0 for none: so the counts say how often each version wrapped, and on which day it opened something last.
  key_version integer not null default 0,
  -- Which API key opened the values: the nil UUID in rows of other actions, and in those that count what a purge took.
  api_key_id uuid not null default '00000000-0000-0000-0000-000000000000',
  primary key (tenant_id, day, action, key_id, key_version, api_key_id)
);
create index audit_counts_key on audit_counts (tenant_id, key_id, day);
-- The total of an action is summed from its own days and keys, not from those of all actions.
create index audit_counts_action on audit_counts (tenant_id, action, day);

-- What each purge took: the chain is verified from the last one on.
create table purge_marks (
  tenant_id uuid not null,
  purged_through bigint not null,
  hash bytea not null,
  entries bigint not null,
  cutoff timestamptz(3) not null,
  created_at timestamptz(3) not null,
  previous_mac bytea not null,
  mac bytea not null,
  primary key (tenant_id, purged_through)
);

create table keys (
  tenant_id uuid not null,
  key_id uuid not null,
  name text not null,
  algorithm text not null,
  status text not null,
  current_version integer not null,
  rotation_interval_days integer,
  next_rotation_at timestamptz(3),
  destroy_at timestamptz(3),
  wrapped_hash_key bytea,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  entry_id bigint not null,
  mac bytea not null,
  min_unwrap_version integer not null default 1, -- wrapped keys of older versions than this one no longer open
  store_key integer references store_keys generated always as (
    case when get_byte(wrapped_hash_key, 0) = 2 then (get_byte(wrapped_hash_key, 1) << 24) | (get_byte(wrapped_hash_key, 2) << 16) | (get_byte(wrapped_hash_key, 3) << 8) | get_byte(wrapped_hash_key, 4) end
  ) stored,
  min_unwrap_since timestamptz(3), -- since when the versions below min_unwrap_version are closed: null if none ever was
  destroyed_through integer not null default 0, -- the versions through this one are destroyed
  primary key (tenant_id, key_id),
  unique (tenant_id, name),
  constraint keys_not_installation check (tenant_id <> 'ffffffff-ffff-ffff-ffff-ffffffffffff')
);
alter table keys alter column wrapped_hash_key set statistics 0;
-- Every process asks every few seconds what is due: without an index, by reading all keys of all tenants. Of a key that waits for its
-- destruction, destroy_at counts; of an active one, next_rotation_at.
create index keys_due on keys ((coalesce(destroy_at, next_rotation_at)), tenant_id, key_id)
  where status in ('active', 'pending_destruction') and coalesce(destroy_at, next_rotation_at) is not null;
-- Long lists are read in pages: without these two, each page would sort all rows of the tenant.
create index keys_listed on keys (tenant_id, created_at, key_id);

create table key_versions (
  tenant_id uuid not null,
  key_id uuid not null,
  version integer not null,
  status text not null,
  wrapped_kek bytea,
  created_at timestamptz(3) not null,
  entry_id bigint not null,
  mac bytea not null,
  store_key integer references store_keys generated always as (
    case when get_byte(wrapped_kek, 0) = 2 then (get_byte(wrapped_kek, 1) << 24) | (get_byte(wrapped_kek, 2) << 16) | (get_byte(wrapped_kek, 3) << 8) | get_byte(wrapped_kek, 4) end
  ) stored,
  primary key (tenant_id, key_id, version)
);
alter table key_versions alter column wrapped_kek set statistics 0;

-- The API keys of tenants. Those of operators are rows of the installation, under MACs and the newest entries of its own log as those of tenants are.
create table api_keys (
  tenant_id uuid not null,
  api_key_id uuid not null,
  digest text not null,
  name text not null,
  prefix text not null,
  permissions text[] not null,
  allowed_ips text[] not null,
  expires_at timestamptz(3),
  revoked_at timestamptz(3),
  created_at timestamptz(3) not null,
  entry_id bigint not null,
  mac bytea not null,
  -- When it was last let in, to about a minute; null where it never was. Told to people only: no mac covers it, nothing is decided by it.
  last_used_at timestamptz(3),
  pepper integer not null default 1, -- under which pepper the digest is
  keys text[], -- the keys and folders of names that it is limited to; null where it may use all
  -- How many values it may open and hash in a minute and in a day, as JSON text; null for as many as it likes.
  budgets text,
  primary key (tenant_id, api_key_id),
  unique (tenant_id, digest)
);
create index api_keys_listed on api_keys (tenant_id, created_at, api_key_id);
-- Counts the API keys of a tenant that can be used, whatever number of them was revoked or has expired.
create index api_keys_usable on api_keys (tenant_id, expires_at) where revoked_at is null;

-- The peppers of the installations that a tenant was in before. An API key whose digest is under number n of them has -n as its pepper.
-- A row is written before the tenant arrives, so that every process has read it by then, and goes once no API key needs it.
create table tenant_peppers (
  tenant_id uuid not null,
  number integer not null check (number > 0),
  wrapped_pepper bytea not null,
  created_at timestamptz(3) not null,
  store_key integer references store_keys generated always as (
    case when get_byte(wrapped_pepper, 0) = 2 then (get_byte(wrapped_pepper, 1) << 24) | (get_byte(wrapped_pepper, 2) << 16) | (get_byte(wrapped_pepper, 3) << 8) | get_byte(wrapped_pepper, 4) end
  ) stored,
  primary key (tenant_id, number)
);
alter table tenant_peppers alter column wrapped_pepper set statistics 0;

-- What API keys used of their budgets in the last minute and on the last day in which they did. No mac covers it.
create table budget_uses (
  tenant_id uuid not null,
  api_key_id uuid not null,
  kind text not null,
  minute timestamptz(3) not null,
  in_minute bigint not null,
  day date not null,
  in_day bigint not null,
  -- The limit of the window that refused last in the minute and on the day of the row; null if none did. The first refusal under a limit gets an entry.
  minute_over bigint,
  day_over bigint,
  primary key (tenant_id, api_key_id, kind)
);

-- How many calls of each API key wrote no entry, by day and kind. Told to people only: no mac covers it.
create table unrecorded_calls (
  tenant_id uuid not null,
  day date not null,
  api_key_id uuid not null,
  kind text not null,
  calls bigint not null,
  -- From which address the calls came: '' where a server counted them together, because an API key was used from more than it counts apart.
  ip_address text not null default '',
  primary key (tenant_id, day, api_key_id, kind, ip_address)
);
