-- The tables of the service. tenant_id stands first in every primary key and in every where clause, so that tenants can
-- be spread over shards. Rows that grant rights carry a mac (audit/formats/row-mac.ts) and the id of the audit entry that wrote them.

create table instance (
  id integer primary key check (id = 1),
  wrapped_pepper bytea not null,
  wrapped_signing_key bytea not null,
  created_at timestamptz(3) not null
);

create table tenants (
  tenant_id uuid primary key,
  name text not null unique,
  envelope_only boolean not null,
  monthly_encrypt_quota bigint,
  wrapped_audit_key bytea not null,
  created_at timestamptz(3) not null,
  entry_id bigint not null,
  mac bytea not null
);

-- The end of each tenant's chain, and the version of its policy: the state of its keys, API keys and settings.
create table heads (
  tenant_id uuid primary key,
  last_id bigint not null,
  hash bytea not null,
  policy_version bigint not null,
  created_at timestamptz(3) not null,
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
create index audit_log_key on audit_log (tenant_id, key_id, id);
-- Without it, a rare action on a key of many entries is looked for through all of them.
create index audit_log_key_action on audit_log (tenant_id, key_id, action, id);
create index audit_log_action on audit_log (tenant_id, action, id);
create index audit_log_time on audit_log (tenant_id, created_at, id);

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
  primary key (tenant_id, day, action, key_id)
);
create index audit_counts_key on audit_counts (tenant_id, key_id, day);

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
  primary key (tenant_id, key_id),
  unique (tenant_id, name)
);

create table key_versions (
  tenant_id uuid not null,
  key_id uuid not null,
  version integer not null,
  status text not null,
  wrapped_kek bytea,
  created_at timestamptz(3) not null,
  entry_id bigint not null,
  mac bytea not null,
  primary key (tenant_id, key_id, version)
);

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
  primary key (tenant_id, api_key_id),
  unique (tenant_id, digest)
);
