-- How many calls of each API key wrote no entry, by day and kind (protocol/unrecorded.ts). Told to people only: no mac covers it.
create table unrecorded_calls (
  tenant_id uuid not null,
  day date not null,
  api_key_id uuid not null,
  kind text not null,
  calls bigint not null,
  primary key (tenant_id, day, api_key_id, kind)
);
