-- The newest entry about an API key, which its row must name: without an index, all entries about API keys would be read. The entries of
-- other actions, nearly all there are, are not in it.
create index audit_log_api_key on audit_log (tenant_id, (substring(metadata, '"api_key_id":"([^"]*)"')), id)
  where action in ('api_key.create', 'api_key.update', 'api_key.revoke');
