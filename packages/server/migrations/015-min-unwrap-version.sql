-- Wrapped keys of older versions than this one no longer open.
alter table keys add column min_unwrap_version integer not null default 1;
