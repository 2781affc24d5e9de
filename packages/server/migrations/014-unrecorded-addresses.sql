-- From which address the calls came: '' where a server counted them together, because an API key was used from more than it counts apart.
alter table unrecorded_calls add column ip_address text not null default '';
alter table unrecorded_calls drop constraint unrecorded_calls_pkey;
alter table unrecorded_calls add constraint unrecorded_calls_pkey primary key (tenant_id, day, api_key_id, kind, ip_address);
