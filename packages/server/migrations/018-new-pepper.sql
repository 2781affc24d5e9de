-- The pepper of API keys is replaced with the store key. The former one stays until each API key was used, revoked or has expired; null once it is gone.
alter table instance add column pepper integer not null default 1, add column pepper_since timestamptz(3), add column wrapped_former_pepper bytea;
alter table instance alter column wrapped_former_pepper set statistics 0; -- see 013
-- Under which pepper the digest is.
alter table api_keys add column pepper integer not null default 1;
