-- ANALYZE copies values of a column into pg_statistic, from where destroying a key would not remove them. Changing a column's type, even to
-- the one that it has, drops what is there, and does not rewrite the table.
alter table instance
  alter column wrapped_pepper type bytea, alter column wrapped_pepper set statistics 0,
  alter column wrapped_signing_key type bytea, alter column wrapped_signing_key set statistics 0,
  alter column wrapped_audit_key type bytea, alter column wrapped_audit_key set statistics 0;
alter table tenants alter column wrapped_audit_key type bytea, alter column wrapped_audit_key set statistics 0;
alter table keys alter column wrapped_hash_key type bytea, alter column wrapped_hash_key set statistics 0;
alter table key_versions alter column wrapped_kek type bytea, alter column wrapped_kek set statistics 0;
