-- When an API key was last let in, to about a minute; null where it never was. Told to people only: no mac covers it, nothing is decided by it.
alter table api_keys add column last_used_at timestamptz(3);
