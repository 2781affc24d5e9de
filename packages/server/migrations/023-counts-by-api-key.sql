-- Which API key opened the values: the nil UUID in rows of other actions, of entries before this column, and in those that count what a purge took.
alter table audit_counts add column api_key_id uuid not null default '00000000-0000-0000-0000-000000000000';
alter table audit_counts drop constraint audit_counts_pkey;
alter table audit_counts add constraint audit_counts_pkey primary key (tenant_id, day, action, key_id, key_version, api_key_id);
