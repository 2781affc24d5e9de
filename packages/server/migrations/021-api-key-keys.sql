-- The keys and folders of names that an API key is limited to; null where it may use all. A row with null keeps its mac (audit/formats/row-mac.ts).
alter table api_keys add column keys text[];
