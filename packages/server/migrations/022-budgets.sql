-- How many values an API key may open and hash in a minute and in a day, as JSON text (protocol/budgets.ts); null for as many as it likes. A row with null keeps its mac.
alter table api_keys add column budgets text;
-- What API keys used of their budgets in the last minute and on the last day in which they did; one more than the limit once it refused. No mac covers it.
create table budget_uses (
  tenant_id uuid not null,
  api_key_id uuid not null,
  kind text not null,
  minute timestamptz(3) not null,
  in_minute bigint not null,
  day date not null,
  in_day bigint not null,
  primary key (tenant_id, api_key_id, kind)
);
