-- What /v1/encrypt and /v1/decrypt take the plaintext for where a call does not say: utf8 or base64. The default is what they took before,
-- and a row that has it keeps its mac (audit/formats/row-mac.ts).
alter table tenants add column plaintext_encoding text not null default 'utf8';
