-- The keys that seal all other secrets, each wrapped under the root key. The newest seals what is new; an older one stays until nothing is sealed under it.
create table store_keys (
  number integer primary key check (number > 0),
  wrapped bytea not null,
  created_at timestamptz(3) not null
);
alter table store_keys alter column wrapped set statistics 0;

-- Which one seals a row's secret, read from the sealed bytes: none can be removed that is still needed. Null for a destroyed secret, and for one that the root
-- key itself sealed (format 1), which the server seals again in this migration's transaction.
alter table instance add column store_key integer references store_keys generated always as (
  case when get_byte(wrapped_pepper, 0) = 2 then (get_byte(wrapped_pepper, 1) << 24) | (get_byte(wrapped_pepper, 2) << 16) | (get_byte(wrapped_pepper, 3) << 8) | get_byte(wrapped_pepper, 4) end
) stored;
alter table tenants add column store_key integer references store_keys generated always as (
  case when get_byte(wrapped_audit_key, 0) = 2 then (get_byte(wrapped_audit_key, 1) << 24) | (get_byte(wrapped_audit_key, 2) << 16) | (get_byte(wrapped_audit_key, 3) << 8) | get_byte(wrapped_audit_key, 4) end
) stored;
alter table keys add column store_key integer references store_keys generated always as (
  case when get_byte(wrapped_hash_key, 0) = 2 then (get_byte(wrapped_hash_key, 1) << 24) | (get_byte(wrapped_hash_key, 2) << 16) | (get_byte(wrapped_hash_key, 3) << 8) | get_byte(wrapped_hash_key, 4) end
) stored;
alter table key_versions add column store_key integer references store_keys generated always as (
  case when get_byte(wrapped_kek, 0) = 2 then (get_byte(wrapped_kek, 1) << 24) | (get_byte(wrapped_kek, 2) << 16) | (get_byte(wrapped_kek, 3) << 8) | get_byte(wrapped_kek, 4) end
) stored;
