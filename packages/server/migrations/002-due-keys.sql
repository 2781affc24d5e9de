-- Every process asks every few seconds what is due: without an index, by reading all keys of all tenants. Of a key that waits for its
-- destruction, destroy_at counts; of an active one, next_rotation_at.
create index keys_due on keys ((coalesce(destroy_at, next_rotation_at)), tenant_id, key_id)
  where status in ('active', 'pending_destruction') and coalesce(destroy_at, next_rotation_at) is not null;
