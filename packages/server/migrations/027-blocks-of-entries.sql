-- Indexes by the block of 4,096 ids that an entry is in: its entries have equal index tuples, which PostgreSQL stores once with 6 bytes for each.
create index if not exists audit_log_key_block on audit_log (tenant_id, key_id, (id / 4096));
-- Without it, a rare action on a key of many entries is looked for through all of them.
create index if not exists audit_log_key_action_block on audit_log (tenant_id, key_id, action, (id / 4096));
create index if not exists audit_log_action_block on audit_log (tenant_id, action, (id / 4096));
-- The times of each 256th entry, and of those with which times go back: between two of these they never do.
create index if not exists audit_log_sampled_time on audit_log (tenant_id, created_at, id) where mod(id, 256) = 0 or action = 'audit.clock_accepted';
drop index if exists audit_log_key, audit_log_key_action, audit_log_action, audit_log_time;
