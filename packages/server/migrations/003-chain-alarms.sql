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
