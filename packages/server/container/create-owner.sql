-- Run once by the image of PostgreSQL: the role of the server owns the database, and is no superuser.
\set password `cat /run/secrets/database-password`
create role eaas login password :'password';
alter database eaas owner to eaas;
