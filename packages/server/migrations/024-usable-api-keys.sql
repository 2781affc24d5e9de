-- Counts the API keys of a tenant that can be used, whatever number of them was revoked or has expired.
create index api_keys_usable on api_keys (tenant_id, expires_at) where revoked_at is null;
