-- Whether a tenant is served: active, suspended or deleted. A row that has the default keeps its mac (audit/formats/row-mac.ts).
alter table tenants add column status text not null default 'active';
