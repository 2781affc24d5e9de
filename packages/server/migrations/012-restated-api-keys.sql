-- The newest entry about an API key may be one that a purge made it restate.
drop index audit_log_api_key;
create index audit_log_api_key on audit_log (tenant_id, (substring(metadata, '"api_key_id":"([^"]*)"')), id)
  where metadata is not null and action in ('api_key.create', 'api_key.update', 'api_key.revoke', 'api_key.restate');
