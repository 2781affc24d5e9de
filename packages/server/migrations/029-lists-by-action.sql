-- The entries of a key with an action in the order of their ids: a hash of 64 bits stands for tenant, key and action, so an entry takes 28 bytes, whatever their number.
create index if not exists audit_log_key_action_hash on audit_log (uuid_hash_extended(key_id, hashtextextended(action, uuid_hash(tenant_id)::bigint)), id);
drop index if exists audit_log_key_action_block;
-- The total of an action is summed from its own days and keys, not from those of all actions.
create index if not exists audit_counts_action on audit_counts (tenant_id, action, day);
