-- The API keys of operators are rows of the installation, under MACs and the newest entries of its own log as those of tenants are.
alter table api_keys drop constraint api_keys_not_installation;
