-- Long lists are read in pages: without these, each page would sort all rows of the tenant.
create index keys_listed on keys (tenant_id, created_at, key_id);
create index api_keys_listed on api_keys (tenant_id, created_at, api_key_id);
