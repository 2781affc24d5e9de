-- When a server that runs could not open a new store key: it never seals anything then.
alter table store_keys add column refused_at timestamptz(3);
