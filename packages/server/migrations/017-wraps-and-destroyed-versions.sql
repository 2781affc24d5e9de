-- Which version of its key an entry names, 0 for none: so the counts say how often each version wrapped, and on which day it opened something last.
alter table audit_counts add column key_version integer not null default 0;
alter table audit_counts drop constraint audit_counts_pkey;
alter table audit_counts add constraint audit_counts_pkey primary key (tenant_id, day, action, key_id, key_version);
-- Since when the versions below min_unwrap_version are closed: null if none ever was.
alter table keys add column min_unwrap_since timestamptz(3);
-- The versions through this one are destroyed.
alter table keys add column destroyed_through integer not null default 0;
