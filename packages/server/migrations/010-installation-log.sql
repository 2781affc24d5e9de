-- The installation's own log (audit/formats/anchor.md): the key of its chain, and the heads that its newest anchor covers. Its id belongs to no tenant.
alter table instance add column wrapped_audit_key bytea;
alter table tenants add constraint tenants_not_installation check (tenant_id <> 'ffffffff-ffff-ffff-ffff-ffffffffffff');
alter table keys add constraint keys_not_installation check (tenant_id <> 'ffffffff-ffff-ffff-ffff-ffffffffffff');
alter table api_keys add constraint api_keys_not_installation check (tenant_id <> 'ffffffff-ffff-ffff-ffff-ffffffffffff');

-- Copies of rows of heads, taken together; the MACs are those of the heads.
create table anchored_heads (
  tenant_id uuid primary key,
  last_id bigint not null,
  hash bytea not null,
  policy_version bigint not null,
  created_at timestamptz(3) not null,
  mac bytea not null
);
