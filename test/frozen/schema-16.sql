SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.anchored_heads (
    tenant_id uuid NOT NULL,
    last_id bigint NOT NULL,
    hash bytea NOT NULL,
    policy_version bigint NOT NULL,
    created_at timestamp(3) with time zone NOT NULL,
    mac bytea NOT NULL
);
CREATE TABLE public.api_keys (
    tenant_id uuid NOT NULL,
    api_key_id uuid NOT NULL,
    digest text NOT NULL,
    name text NOT NULL,
    prefix text NOT NULL,
    permissions text[] NOT NULL,
    allowed_ips text[] NOT NULL,
    expires_at timestamp(3) with time zone,
    revoked_at timestamp(3) with time zone,
    created_at timestamp(3) with time zone NOT NULL,
    entry_id bigint NOT NULL,
    mac bytea NOT NULL,
    last_used_at timestamp(3) with time zone,
    CONSTRAINT api_keys_not_installation CHECK ((tenant_id <> 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid))
);
CREATE TABLE public.audit_counts (
    tenant_id uuid NOT NULL,
    day date NOT NULL,
    action text NOT NULL,
    key_id uuid NOT NULL,
    entries bigint NOT NULL,
    purged bigint DEFAULT 0 NOT NULL
);
CREATE TABLE public.audit_log (
    tenant_id uuid NOT NULL,
    id bigint NOT NULL,
    action text NOT NULL,
    key_id uuid,
    key_version integer,
    actor text NOT NULL,
    ip_address text,
    metadata text,
    created_at timestamp(3) with time zone NOT NULL,
    hash bytea NOT NULL,
    mac bytea NOT NULL
);
CREATE TABLE public.chain_alarms (
    tenant_id uuid NOT NULL,
    reason text NOT NULL,
    last_id bigint NOT NULL,
    hash bytea NOT NULL,
    policy_version bigint NOT NULL,
    raised_at timestamp(3) with time zone NOT NULL,
    mac bytea NOT NULL
);
CREATE TABLE public.heads (
    tenant_id uuid NOT NULL,
    last_id bigint NOT NULL,
    hash bytea NOT NULL,
    policy_version bigint NOT NULL,
    created_at timestamp(3) with time zone NOT NULL,
    mac bytea NOT NULL
);
CREATE TABLE public.instance (
    id integer NOT NULL,
    wrapped_pepper bytea NOT NULL,
    wrapped_signing_key bytea NOT NULL,
    created_at timestamp(3) with time zone NOT NULL,
    wrapped_audit_key bytea,
    store_key integer GENERATED ALWAYS AS (
CASE
    WHEN (get_byte(wrapped_pepper, 0) = 2) THEN ((((get_byte(wrapped_pepper, 1) << 24) | (get_byte(wrapped_pepper, 2) << 16)) | (get_byte(wrapped_pepper, 3) << 8)) | get_byte(wrapped_pepper, 4))
    ELSE NULL::integer
END) STORED,
    CONSTRAINT instance_id_check CHECK ((id = 1))
);
ALTER TABLE ONLY public.instance ALTER COLUMN wrapped_pepper SET STATISTICS 0;
ALTER TABLE ONLY public.instance ALTER COLUMN wrapped_signing_key SET STATISTICS 0;
ALTER TABLE ONLY public.instance ALTER COLUMN wrapped_audit_key SET STATISTICS 0;
CREATE TABLE public.key_versions (
    tenant_id uuid NOT NULL,
    key_id uuid NOT NULL,
    version integer NOT NULL,
    status text NOT NULL,
    wrapped_kek bytea,
    created_at timestamp(3) with time zone NOT NULL,
    entry_id bigint NOT NULL,
    mac bytea NOT NULL,
    store_key integer GENERATED ALWAYS AS (
CASE
    WHEN (get_byte(wrapped_kek, 0) = 2) THEN ((((get_byte(wrapped_kek, 1) << 24) | (get_byte(wrapped_kek, 2) << 16)) | (get_byte(wrapped_kek, 3) << 8)) | get_byte(wrapped_kek, 4))
    ELSE NULL::integer
END) STORED
);
ALTER TABLE ONLY public.key_versions ALTER COLUMN wrapped_kek SET STATISTICS 0;
CREATE TABLE public.keys (
    tenant_id uuid NOT NULL,
    key_id uuid NOT NULL,
    name text NOT NULL,
    algorithm text NOT NULL,
    status text NOT NULL,
    current_version integer NOT NULL,
    rotation_interval_days integer,
    next_rotation_at timestamp(3) with time zone,
    destroy_at timestamp(3) with time zone,
    wrapped_hash_key bytea,
    created_at timestamp(3) with time zone NOT NULL,
    updated_at timestamp(3) with time zone NOT NULL,
    entry_id bigint NOT NULL,
    mac bytea NOT NULL,
    min_unwrap_version integer DEFAULT 1 NOT NULL,
    store_key integer GENERATED ALWAYS AS (
CASE
    WHEN (get_byte(wrapped_hash_key, 0) = 2) THEN ((((get_byte(wrapped_hash_key, 1) << 24) | (get_byte(wrapped_hash_key, 2) << 16)) | (get_byte(wrapped_hash_key, 3) << 8)) | get_byte(wrapped_hash_key, 4))
    ELSE NULL::integer
END) STORED,
    CONSTRAINT keys_not_installation CHECK ((tenant_id <> 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid))
);
ALTER TABLE ONLY public.keys ALTER COLUMN wrapped_hash_key SET STATISTICS 0;
CREATE TABLE public.purge_marks (
    tenant_id uuid NOT NULL,
    purged_through bigint NOT NULL,
    hash bytea NOT NULL,
    entries bigint NOT NULL,
    cutoff timestamp(3) with time zone NOT NULL,
    created_at timestamp(3) with time zone NOT NULL,
    previous_mac bytea NOT NULL,
    mac bytea NOT NULL
);
CREATE TABLE public.schema_version (
    id integer NOT NULL,
    version integer NOT NULL,
    CONSTRAINT schema_version_id_check CHECK ((id = 1))
);
CREATE TABLE public.store_keys (
    number integer NOT NULL,
    wrapped bytea NOT NULL,
    created_at timestamp(3) with time zone NOT NULL,
    CONSTRAINT store_keys_number_check CHECK ((number > 0))
);
ALTER TABLE ONLY public.store_keys ALTER COLUMN wrapped SET STATISTICS 0;
CREATE TABLE public.tenants (
    tenant_id uuid NOT NULL,
    name text NOT NULL,
    envelope_only boolean NOT NULL,
    monthly_encrypt_quota bigint,
    wrapped_audit_key bytea NOT NULL,
    created_at timestamp(3) with time zone NOT NULL,
    entry_id bigint NOT NULL,
    mac bytea NOT NULL,
    plaintext_encoding text DEFAULT 'utf8'::text NOT NULL,
    status text DEFAULT 'active'::text NOT NULL,
    store_key integer GENERATED ALWAYS AS (
CASE
    WHEN (get_byte(wrapped_audit_key, 0) = 2) THEN ((((get_byte(wrapped_audit_key, 1) << 24) | (get_byte(wrapped_audit_key, 2) << 16)) | (get_byte(wrapped_audit_key, 3) << 8)) | get_byte(wrapped_audit_key, 4))
    ELSE NULL::integer
END) STORED,
    CONSTRAINT tenants_not_installation CHECK ((tenant_id <> 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid))
);
ALTER TABLE ONLY public.tenants ALTER COLUMN wrapped_audit_key SET STATISTICS 0;
CREATE TABLE public.unrecorded_calls (
    tenant_id uuid NOT NULL,
    day date NOT NULL,
    api_key_id uuid NOT NULL,
    kind text NOT NULL,
    calls bigint NOT NULL,
    ip_address text DEFAULT ''::text NOT NULL
);
INSERT INTO public.anchored_heads VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', 12, '\x06374bc875d7146a3b30800550fdff53221885fba1699bd4926580e4b2833e06', 10, '2026-11-25 13:49:34.745+00', '\xb7df715797cc0a6bd9426d050ffda63657ec97625f98409929ec4fccbdbd5d18');
INSERT INTO public.anchored_heads VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', 12, '\x770cd590f9eb1bf06bf2fb5bd29da1ea3a76eb756dc84c9137214ddf6b0b7f7e', 10, '2026-11-25 13:49:34.812+00', '\xf6d6cd3f693424c626efc9576b03e174e9fdfb01982795a1465f355f49bba287');
INSERT INTO public.api_keys VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', 'b29825fb-2f95-4982-8c8a-f10bd6105676', '03db6e4167b3f31414ef1f790bf128342336ca943f98a4dd757b99702faf32af', 'client', 'eaas_sk_d5e2059c02af4cad8403d51faf3f9274_sIDJ', '{encrypt}', '{}', NULL, '2026-11-25 13:49:34.745+00', '2026-11-25 13:49:34.738+00', 12, '\x4a730dea4ed097da91defd827ccdec98e911702ce88d03446c848bafcd16ef9e', NULL);
INSERT INTO public.api_keys VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', '46dc5362-7786-431c-ad85-99db9be596ab', 'a4ffac384507e43a533792d271bd39b81d839fc18028c770b343b55ecfaf43e1', 'client', 'eaas_sk_770e3403cd9543eba1e8ae6d95ade383_Tsp4', '{encrypt}', '{}', NULL, '2026-11-25 13:49:34.812+00', '2026-11-25 13:49:34.808+00', 12, '\x565f0f1ee80d2b47475dc79c5922183cac1932205a7161ff9cfb34d3c2737017', NULL);
INSERT INTO public.api_keys VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', 'ffe05180-76c7-4246-bcf1-8234b257d4bf', '966982fb595e0c84a49b96e2e52d54561a592cecd14c0106a29101729312cbee', 'first key', 'eaas_sk_d5e2059c02af4cad8403d51faf3f9274_XT4C', '{encrypt,decrypt,hash,keys:read,keys:create,keys:rotate,keys:disable,keys:destroy,keys:export,audit:read,audit:on_behalf_of,api_keys:read,api_keys:manage}', '{}', NULL, NULL, '2026-11-25 13:49:34.112+00', 1, '\x73fdc4533afec8035178dffac4a16dfba444db15bf6341c1dfa25f4dc83ee08d', '2026-11-25 13:49:34.747+00');
INSERT INTO public.api_keys VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', '670f5cc1-f8a7-44cc-b334-8baca1b5867a', 'bb78fefff822401eb7e850cce672e27f4aa5b55bcd33e3ce9a7abb5b3a0d3c86', 'first key', 'eaas_sk_770e3403cd9543eba1e8ae6d95ade383_mcmq', '{encrypt,decrypt,hash,keys:read,keys:create,keys:rotate,keys:disable,keys:destroy,keys:export,audit:read,audit:on_behalf_of,api_keys:read,api_keys:manage}', '{}', NULL, NULL, '2026-11-25 13:49:34.313+00', 1, '\xfd25f23a8f69f4884468d3a24145cd527556b6d125e81616730ae65f448badd2', '2026-11-25 13:49:34.816+00');
INSERT INTO public.audit_counts VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', '2026-11-25', 'installation.create', '00000000-0000-0000-0000-000000000000', 1, 0);
INSERT INTO public.audit_counts VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', '2026-11-25', 'installation.tenant_create', '00000000-0000-0000-0000-000000000000', 2, 0);
INSERT INTO public.audit_counts VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', '2026-11-25', 'installation.start', '00000000-0000-0000-0000-000000000000', 1, 0);
INSERT INTO public.audit_counts VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', '2026-11-25', 'key.create', '71ada532-a966-473f-bfaa-e95aed48ceab', 1, 0);
INSERT INTO public.audit_counts VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', '2026-11-25', 'key.rotate', '71ada532-a966-473f-bfaa-e95aed48ceab', 1, 0);
INSERT INTO public.audit_counts VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', '2026-11-25', 'key.wrap', '71ada532-a966-473f-bfaa-e95aed48ceab', 2, 0);
INSERT INTO public.audit_counts VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', '2026-11-25', 'key.create', '11fcda83-c5cf-4272-8ce5-ea33fa6256df', 1, 0);
INSERT INTO public.audit_counts VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', '2026-11-25', 'key.disable', '11fcda83-c5cf-4272-8ce5-ea33fa6256df', 1, 0);
INSERT INTO public.audit_counts VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', '2026-11-25', 'key.create', 'a21574a9-63e4-467a-abd6-06ce2cebdb36', 1, 0);
INSERT INTO public.audit_counts VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', '2026-11-25', 'key.disable', 'a21574a9-63e4-467a-abd6-06ce2cebdb36', 1, 0);
INSERT INTO public.audit_counts VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', '2026-11-25', 'key.destroy', 'a21574a9-63e4-467a-abd6-06ce2cebdb36', 1, 0);
INSERT INTO public.audit_counts VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', '2026-11-25', 'api_key.create', '00000000-0000-0000-0000-000000000000', 2, 0);
INSERT INTO public.audit_counts VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', '2026-11-25', 'api_key.revoke', '00000000-0000-0000-0000-000000000000', 1, 0);
INSERT INTO public.audit_counts VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', '2026-11-25', 'key.create', 'b9ad8219-a4c5-40c5-8908-31c04001f90a', 1, 0);
INSERT INTO public.audit_counts VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', '2026-11-25', 'key.rotate', 'b9ad8219-a4c5-40c5-8908-31c04001f90a', 1, 0);
INSERT INTO public.audit_counts VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', '2026-11-25', 'key.wrap', 'b9ad8219-a4c5-40c5-8908-31c04001f90a', 2, 0);
INSERT INTO public.audit_counts VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', '2026-11-25', 'key.create', '7fefa688-d0eb-4a61-ad01-b8e50d40b89e', 1, 0);
INSERT INTO public.audit_counts VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', '2026-11-25', 'key.disable', '7fefa688-d0eb-4a61-ad01-b8e50d40b89e', 1, 0);
INSERT INTO public.audit_counts VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', '2026-11-25', 'key.create', '2c6016e2-6931-4aa9-a215-b453608c6514', 1, 0);
INSERT INTO public.audit_counts VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', '2026-11-25', 'key.disable', '2c6016e2-6931-4aa9-a215-b453608c6514', 1, 0);
INSERT INTO public.audit_counts VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', '2026-11-25', 'key.destroy', '2c6016e2-6931-4aa9-a215-b453608c6514', 1, 0);
INSERT INTO public.audit_counts VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', '2026-11-25', 'api_key.create', '00000000-0000-0000-0000-000000000000', 2, 0);
INSERT INTO public.audit_counts VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', '2026-11-25', 'api_key.revoke', '00000000-0000-0000-0000-000000000000', 1, 0);
INSERT INTO public.audit_counts VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', '2026-11-25', 'installation.stop', '00000000-0000-0000-0000-000000000000', 1, 0);
INSERT INTO public.audit_counts VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', '2026-11-25', 'installation.anchor', '00000000-0000-0000-0000-000000000000', 2, 0);
INSERT INTO public.audit_log VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', 1, 'installation.create', NULL, NULL, 'operator:root@vm', NULL, '{"version":"0.0.0"}', '2026-11-25 13:49:34.078+00', '\x173a24ee35ee6ed8879c07047195504c644e50fe0d63237ca59b5caf63f148e8', '\x4505551e342128d25b2c8e0c58041a6f0dd862fc352321b5d91146849864b06d');
INSERT INTO public.audit_log VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', 1, 'api_key.create', NULL, NULL, 'operator:root@vm', NULL, '{"allowed_ips":null,"api_key_id":"ffe05180-76c7-4246-bcf1-8234b257d4bf","envelope_only":true,"expires_at":null,"permissions":"api_keys:manage api_keys:read audit:on_behalf_of audit:read decrypt encrypt hash keys:create keys:destroy keys:disable keys:export keys:read keys:rotate"}', '2026-11-25 13:49:34.112+00', '\x89f2bbd5e9acbaa86bfcfb800f5a41970cc2b0361f429b60cd5d1d94662d67b3', '\x05aa6489cab788e2919f0e7601d117050e2633752995f14e9c9c6e4a46447ba2');
INSERT INTO public.audit_log VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', 2, 'installation.tenant_create', NULL, NULL, 'operator:root@vm', NULL, '{"envelope_only":true,"name":"acme","tenant_id":"d5e2059c-02af-4cad-8403-d51faf3f9274"}', '2026-11-25 13:49:34.116+00', '\xfdfdd160d625b7c97d45719f3d4d7d6ba7467134a1b435d64b2619411b278f99', '\x156b0a6e96e23c67072c24f0b6d99392c153e2cd3a73e7f8179a114ba7c25116');
INSERT INTO public.audit_log VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', 1, 'api_key.create', NULL, NULL, 'operator:root@vm', NULL, '{"allowed_ips":null,"api_key_id":"670f5cc1-f8a7-44cc-b334-8baca1b5867a","envelope_only":true,"expires_at":null,"permissions":"api_keys:manage api_keys:read audit:on_behalf_of audit:read decrypt encrypt hash keys:create keys:destroy keys:disable keys:export keys:read keys:rotate"}', '2026-11-25 13:49:34.313+00', '\x140f79215305dc6b0c489387a8b5abfa382e808ad0a56d8e7c35a6b1fe96a8de', '\xffa3f574c1d1f69d88a15f033bca6aef9178a558b7dfe454b1d7113d64a528d6');
INSERT INTO public.audit_log VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', 3, 'installation.tenant_create', NULL, NULL, 'operator:root@vm', NULL, '{"envelope_only":true,"name":"umbra","tenant_id":"770e3403-cd95-43eb-a1e8-ae6d95ade383"}', '2026-11-25 13:49:34.32+00', '\x185e53720338531c432c355e292837e1cb4614af4baf2c5f89a4139f93e492e1', '\x499412b84b3231724f27e5f32c33fa0afbfe2c1bdb196ee7e5f24f0d4c9ba90f');
INSERT INTO public.audit_log VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', 4, 'installation.start', NULL, NULL, 'system', NULL, '{"configuration":"21bc00a20d481a342f1d7aa1b1b97c6616dbcdf9b0d0828a63b8304b1146b088","host":"vm","version":"0.0.0"}', '2026-11-25 13:49:34.599+00', '\xc92c2a5eed291927e1f7aeddf0cb5f2a950c375782f6184a1d1ad095a1bb4b99', '\x90dd0d9c7bb4ac1d0f78f2849b46b140c070d009cd035f35ae1084fc48964475');
INSERT INTO public.audit_log VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', 2, 'key.create', '71ada532-a966-473f-bfaa-e95aed48ceab', 1, 'ffe05180-76c7-4246-bcf1-8234b257d4bf', '127.0.0.1', NULL, '2026-11-25 13:49:34.653+00', '\xacacf9bb9b39ae8bf4e124476e833cb053e35538bbe59a778f0c09b378011635', '\xb97377f8e284ec2cd410f0b315f1e82d506f20b5691ab2f68d7b03c0a4deb771');
INSERT INTO public.audit_log VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', 3, 'key.wrap', '71ada532-a966-473f-bfaa-e95aed48ceab', 1, 'ffe05180-76c7-4246-bcf1-8234b257d4bf', '127.0.0.1', NULL, '2026-11-25 13:49:34.665+00', '\x13ba787b85af4c05e497cca7270bbf15d0c6d4125c88900fcfa944f89dbf7676', '\x2fee8b2fa7e9a1cd778030447462ff92197e9191a6391490e518221f508378bd');
INSERT INTO public.audit_log VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', 4, 'key.rotate', '71ada532-a966-473f-bfaa-e95aed48ceab', 2, 'ffe05180-76c7-4246-bcf1-8234b257d4bf', '127.0.0.1', '{"replaces":2}', '2026-11-25 13:49:34.671+00', '\xbdb5f8546f571be5f94b1758d6e4deab372171f12ffc8ee2d7044d419bb11fe1', '\xf20d233b76ec8b63c50f1db86714387c24cc313169eb63ceae97032e3b96dd1b');
INSERT INTO public.audit_log VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', 5, 'key.wrap', '71ada532-a966-473f-bfaa-e95aed48ceab', 2, 'ffe05180-76c7-4246-bcf1-8234b257d4bf', '127.0.0.1', NULL, '2026-11-25 13:49:34.679+00', '\x0f0ffaefea7a0e685462c54497e73001291dcfce26098396411c8c36d9754fb6', '\x3132b5246d53e56d7b44737f5b4c403a096391fafd2ce135c41f6c70f1f898ef');
INSERT INTO public.audit_log VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', 6, 'key.create', '11fcda83-c5cf-4272-8ce5-ea33fa6256df', 1, 'ffe05180-76c7-4246-bcf1-8234b257d4bf', '127.0.0.1', NULL, '2026-11-25 13:49:34.689+00', '\xf535a6003cfa59cfc3bf4e949c35cd38423516084037cb09e419d511c203f9fb', '\x041d51cdcfb35faa546d243063ef267a3e8acaf782ae44b35b91dc4c54dab6c9');
INSERT INTO public.audit_log VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', 7, 'key.disable', '11fcda83-c5cf-4272-8ce5-ea33fa6256df', 1, 'ffe05180-76c7-4246-bcf1-8234b257d4bf', '127.0.0.1', '{"replaces":6}', '2026-11-25 13:49:34.695+00', '\x1bce2f29aade21f6d98e4a63d26b1b1061892321b5dac05d02231b8aedb81eca', '\xb3e645922b3dc202c25705cf84d510eecc7a648767fb21d3aa276fe8da7bc4d7');
INSERT INTO public.audit_log VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', 8, 'key.create', 'a21574a9-63e4-467a-abd6-06ce2cebdb36', 1, 'ffe05180-76c7-4246-bcf1-8234b257d4bf', '127.0.0.1', NULL, '2026-11-25 13:49:34.706+00', '\xcd2b78c1614e093512bd74a9d1a4a6eeb03fec6f0095fb029f44435c8e761457', '\x7eb18af1015963c8897dac643ad75a26a208e0bb6eab7819dcd25c1101c787c7');
INSERT INTO public.audit_log VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', 5, 'installation.anchor', NULL, NULL, 'system', NULL, '{"root":"dd60f8ce0fb8b96cd9f8d373900224297f9e7bc2ed6e44d3792fd5d553cc2696","tenants":2}', '2026-11-25 13:49:34.714+00', '\xc9e9a3aab518b784839bf1646438120cfadd8239b50fe01fefc02ee247b5ca48', '\xded60d3a25781b7412e6d38ab7ea7933fc213667b652dfb73251dfa2842e9436');
INSERT INTO public.audit_log VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', 9, 'key.disable', 'a21574a9-63e4-467a-abd6-06ce2cebdb36', 1, 'ffe05180-76c7-4246-bcf1-8234b257d4bf', '127.0.0.1', '{"replaces":8}', '2026-11-25 13:49:34.718+00', '\xdf068a99ecee28fa19fb55b8f591c7d0fa230dae0f18fbfe5890531af5b4dba0', '\x2fbca899d1570daf7d7435c02c994cd7cbb41f23755f21ad16d6c2165421f9d3');
INSERT INTO public.audit_log VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', 10, 'key.destroy', 'a21574a9-63e4-467a-abd6-06ce2cebdb36', 1, 'ffe05180-76c7-4246-bcf1-8234b257d4bf', '127.0.0.1', '{"replaces":9,"step":"completed","versions":1}', '2026-11-25 13:49:34.724+00', '\xb6d612af06a34fc356d150a7411ced6d32e6509b49b59db9024d6c79452569d6', '\xad20f1eed4b462b390f8a4135fce2925b1edbb6791b93677f5cd92e4e78ac490');
INSERT INTO public.audit_log VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', 11, 'api_key.create', NULL, NULL, 'ffe05180-76c7-4246-bcf1-8234b257d4bf', '127.0.0.1', '{"allowed_ips":null,"api_key_id":"b29825fb-2f95-4982-8c8a-f10bd6105676","expires_at":null,"permissions":"encrypt"}', '2026-11-25 13:49:34.738+00', '\x64ba11571e3b0fe5d6b8fe13d9061df7eb82b1628179977b157e5b4afacbcda1', '\xfffde173e5e2a8e12f26a7da4a72fdb41e338389a9ec2a4d577115694e1c8235');
INSERT INTO public.audit_log VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', 12, 'api_key.revoke', NULL, NULL, 'ffe05180-76c7-4246-bcf1-8234b257d4bf', '127.0.0.1', '{"api_key_id":"b29825fb-2f95-4982-8c8a-f10bd6105676","replaces":11}', '2026-11-25 13:49:34.745+00', '\x06374bc875d7146a3b30800550fdff53221885fba1699bd4926580e4b2833e06', '\xb24e447b4b8fb1726ae07df92d9590620949fe208741587b47f7183178d1eaa3');
INSERT INTO public.audit_log VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', 2, 'key.create', 'b9ad8219-a4c5-40c5-8908-31c04001f90a', 1, '670f5cc1-f8a7-44cc-b334-8baca1b5867a', '127.0.0.1', NULL, '2026-11-25 13:49:34.754+00', '\xde5aa882ae2ecca6def5c401b3389fdaa75ef08c8a2e9a224909923944a9b462', '\xf2d420d92257dd16a35ee91fc949eb4f62525e0127ffce4efa77b41c4c76996b');
INSERT INTO public.audit_log VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', 3, 'key.wrap', 'b9ad8219-a4c5-40c5-8908-31c04001f90a', 1, '670f5cc1-f8a7-44cc-b334-8baca1b5867a', '127.0.0.1', NULL, '2026-11-25 13:49:34.758+00', '\xde9fe135226d8ae9e1214005a87d7b3f0654b82f1674aa074d191940e2ba0eff', '\xc143b38d22059fcc4d40e70936a3ddb0f5f0454ec91e2dcb5524b8257ae49f83');
INSERT INTO public.audit_log VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', 4, 'key.rotate', 'b9ad8219-a4c5-40c5-8908-31c04001f90a', 2, '670f5cc1-f8a7-44cc-b334-8baca1b5867a', '127.0.0.1', '{"replaces":2}', '2026-11-25 13:49:34.761+00', '\xc38f1439e42aee55c00ee6e9d0f200a0eaf4b117933eae3a21424b78d90a0da9', '\xc412abf560e7e5d43675a90d3c107aef191aa136649e1e283b4743a3e2c156e1');
INSERT INTO public.audit_log VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', 5, 'key.wrap', 'b9ad8219-a4c5-40c5-8908-31c04001f90a', 2, '670f5cc1-f8a7-44cc-b334-8baca1b5867a', '127.0.0.1', NULL, '2026-11-25 13:49:34.769+00', '\x51c7f3d3e1180fa351f6bf9141957060b843bc89323e33e91233fc31c8a9abd3', '\x681dab7fcf39acd3e9bcebf755f1ece3dea5ead5d8e66dd6b40478659f314f16');
INSERT INTO public.audit_log VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', 6, 'key.create', '7fefa688-d0eb-4a61-ad01-b8e50d40b89e', 1, '670f5cc1-f8a7-44cc-b334-8baca1b5867a', '127.0.0.1', NULL, '2026-11-25 13:49:34.776+00', '\x8be6b46ae96309e2acca5321b7234b9482fd4d74718ff6a16e0ddbbd670db7bf', '\xf11d0949b19c69f9908f5357d6ac1c42624315312d05a279c6b661ca89ddf805');
INSERT INTO public.audit_log VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', 7, 'key.disable', '7fefa688-d0eb-4a61-ad01-b8e50d40b89e', 1, '670f5cc1-f8a7-44cc-b334-8baca1b5867a', '127.0.0.1', '{"replaces":6}', '2026-11-25 13:49:34.782+00', '\xa040221dd79beb3cea262990a363ef7f49af631037785792b9a5abadc7b0dd94', '\xf78428e21daaab1da30ac2fe73121138105f13c3b4746e76fb20f56435d62d37');
INSERT INTO public.audit_log VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', 8, 'key.create', '2c6016e2-6931-4aa9-a215-b453608c6514', 1, '670f5cc1-f8a7-44cc-b334-8baca1b5867a', '127.0.0.1', NULL, '2026-11-25 13:49:34.789+00', '\x413ede3e4ed39d133c580ec37aab56ac68ca96f74d6d3ab2825e1d5a4e182ded', '\xd44d59cc12f7e41a1bbb3d223c9dac0fb5fa31e4b6babefaf8edbbc486da4e51');
INSERT INTO public.audit_log VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', 9, 'key.disable', '2c6016e2-6931-4aa9-a215-b453608c6514', 1, '670f5cc1-f8a7-44cc-b334-8baca1b5867a', '127.0.0.1', '{"replaces":8}', '2026-11-25 13:49:34.795+00', '\x7b6e9fbf1bb29779524b748cbfa1b17b99f55af3c43deca0e72f045964f642ba', '\x45ce1c5050daac19b50e5e52b8b6cd21cc092bcf1116bd580fd11c44f5d67274');
INSERT INTO public.audit_log VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', 10, 'key.destroy', '2c6016e2-6931-4aa9-a215-b453608c6514', 1, '670f5cc1-f8a7-44cc-b334-8baca1b5867a', '127.0.0.1', '{"replaces":9,"step":"completed","versions":1}', '2026-11-25 13:49:34.8+00', '\xc6bdadd228c299dffb4e674d3fbadfa7ac1a3b1ffd400177cbb2469711811406', '\xa78edd950cff63ec185399ee522c1e285082b76c4113b6dcb6232d01b5fc4bdd');
INSERT INTO public.audit_log VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', 11, 'api_key.create', NULL, NULL, '670f5cc1-f8a7-44cc-b334-8baca1b5867a', '127.0.0.1', '{"allowed_ips":null,"api_key_id":"46dc5362-7786-431c-ad85-99db9be596ab","expires_at":null,"permissions":"encrypt"}', '2026-11-25 13:49:34.808+00', '\x36a4016858b295dcd8b0f241c2a68efbeb481285fa6101bb3cc5e88e5bdb1e0e', '\x5c9297a58b3349c56ac72beea527da383ef7d6f3a26e26c59bc768932043961d');
INSERT INTO public.audit_log VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', 12, 'api_key.revoke', NULL, NULL, '670f5cc1-f8a7-44cc-b334-8baca1b5867a', '127.0.0.1', '{"api_key_id":"46dc5362-7786-431c-ad85-99db9be596ab","replaces":11}', '2026-11-25 13:49:34.812+00', '\x770cd590f9eb1bf06bf2fb5bd29da1ea3a76eb756dc84c9137214ddf6b0b7f7e', '\x790cd4c19b9632d6a9dc4a8225b087751bca3e9e15e37613b9a534003ab5f1b6');
INSERT INTO public.audit_log VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', 6, 'installation.stop', NULL, NULL, 'system', NULL, '{"configuration":"21bc00a20d481a342f1d7aa1b1b97c6616dbcdf9b0d0828a63b8304b1146b088","host":"vm","version":"0.0.0"}', '2026-11-25 13:49:35.424+00', '\x09fad9652a3b0fcebfe7f21eb0d5969d569c8a4c9f30b4474f200370575058ac', '\xbe168eaf59a2b1be1b3b389c35f2f415e8747c193a6a2d3229ef01a7fb15f681');
INSERT INTO public.audit_log VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', 7, 'installation.anchor', NULL, NULL, 'system', NULL, '{"root":"4419a89711ba52ecb60934dbbe94b975980fe02179901965e625a5eaee5640e7","tenants":2}', '2026-11-25 13:49:35.443+00', '\xc444c273e7987df182a5bae65963b7b2b54fc8366c7bfa08784254ca69c35851', '\x8997340ebd6fc4ae278ae444f1f57d7454d07a89c6e784846e057ae676c50349');
INSERT INTO public.heads VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', 12, '\x06374bc875d7146a3b30800550fdff53221885fba1699bd4926580e4b2833e06', 10, '2026-11-25 13:49:34.745+00', '\xb7df715797cc0a6bd9426d050ffda63657ec97625f98409929ec4fccbdbd5d18');
INSERT INTO public.heads VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', 12, '\x770cd590f9eb1bf06bf2fb5bd29da1ea3a76eb756dc84c9137214ddf6b0b7f7e', 10, '2026-11-25 13:49:34.812+00', '\xf6d6cd3f693424c626efc9576b03e174e9fdfb01982795a1465f355f49bba287');
INSERT INTO public.heads VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', 7, '\xc444c273e7987df182a5bae65963b7b2b54fc8366c7bfa08784254ca69c35851', 1, '2026-11-25 13:49:35.443+00', '\x7d4eab4e5f3f5a77d0d0b429f3ab39fd07e2b366ae9881798231311f88da35c1');
INSERT INTO public.instance VALUES (1, '\x0200000001716e2b1fd2eabe6a43f62528a62124d75b863044df457a0a9ef0fd338e85351125b2311660caa11e5df5229df313acd79b32abf2882edb5cd58df7c6', '\x0200000001e9e7082adc707cd8188e205c804a77a1ec3146b6d9d878903988ad554d1f58210eac24e56f61996f7eee9e5b8beca337c9a63d8ae80854640063d3ab', '2026-11-25 13:49:34.075+00', '\x020000000159af46d8617f510a1583ee2ae2d0a8f0f7bb6bf4cb687315e86911f98ebc405d21a4d9c5b006e799b68142d31b7bd8e9ae599e03625fc1e923759f95', DEFAULT);
INSERT INTO public.key_versions VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', '71ada532-a966-473f-bfaa-e95aed48ceab', 1, 'retired', '\x02000000018eef3de59ab07267bd0965b5314b2b4c1593a4dc3e511126ee1dd8604def4b68841a0a481cc313fc43984d953ebd92ff2d06c34468c4dd9ec5f97ec6', '2026-11-25 13:49:34.653+00', 4, '\x32e6bb77e7e436c30a145dbcc492192e10373585545eb47feba09957beb403d5', DEFAULT);
INSERT INTO public.key_versions VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', '71ada532-a966-473f-bfaa-e95aed48ceab', 2, 'active', '\x0200000001b2f4feb46bb3a4617677e1eb394591d31239f2c73a7085b6270b20dbf60f77fd9e29c9c9241be699037ffdf5364b3075440fcf1f2334ff2842d33d12', '2026-11-25 13:49:34.671+00', 4, '\xeb0e23a68856db963c02d8c72c792a4dc3c0aa0f2df9a0328740e7d450f5669c', DEFAULT);
INSERT INTO public.key_versions VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', '11fcda83-c5cf-4272-8ce5-ea33fa6256df', 1, 'active', '\x0200000001ed34687e74334f427e6f2b75ec0240e463c6818508aa874f0123051e7f5d68da40862a950bc2c5d6e6db5a8d7cae512297501f8b4cfadf564f461326', '2026-11-25 13:49:34.689+00', 6, '\xa0ec5a89bbf681bb2a95c86918d59f472e320b34bf6533110a85fabd19912273', DEFAULT);
INSERT INTO public.key_versions VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', 'a21574a9-63e4-467a-abd6-06ce2cebdb36', 1, 'destroyed', NULL, '2026-11-25 13:49:34.706+00', 10, '\x862e21f4a557545a2569da59809f756d3cbdab0e0ef9e5e591a083afddcbb092', DEFAULT);
INSERT INTO public.key_versions VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', 'b9ad8219-a4c5-40c5-8908-31c04001f90a', 1, 'retired', '\x020000000102e129fac00b1e29949ac6bd8c385ba0c21b280800beb0e4bbb8c28bb60da9191ee82e7e46e901e91d4c4a63c9fe9b471b51ea2d4786d911d70a9c81', '2026-11-25 13:49:34.754+00', 4, '\x46b5a0e67a706728f20c47504f25e435d24d7f32453d0b90fdfad1924b0ef730', DEFAULT);
INSERT INTO public.key_versions VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', 'b9ad8219-a4c5-40c5-8908-31c04001f90a', 2, 'active', '\x0200000001ba52fda7585043dff9e0d16d221b0cf5396b4d5eaa68516327c3b396ad562791995ef589f7175901d45b5f90363185d460eb414500e696dac885c362', '2026-11-25 13:49:34.761+00', 4, '\x3b24080f2484717cf97be2af96a21b293ac6996e79adb4b4558db9d65042304b', DEFAULT);
INSERT INTO public.key_versions VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', '7fefa688-d0eb-4a61-ad01-b8e50d40b89e', 1, 'active', '\x0200000001edd110d00a18c4e765799c5e7cd95591df4c7d2a57150c9242440b200506f13e35c44091068af160b02c1e70f9a9a7cda48599fd3249717819ae056f', '2026-11-25 13:49:34.776+00', 6, '\x9a1188f5174ea2716df5593c135089c33e62427426f418ac952838736e768204', DEFAULT);
INSERT INTO public.key_versions VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', '2c6016e2-6931-4aa9-a215-b453608c6514', 1, 'destroyed', NULL, '2026-11-25 13:49:34.789+00', 10, '\x1e9af76b298e895bd617b779b56d4ec876a94a1d08a8c134d371291ff7018f2c', DEFAULT);
INSERT INTO public.keys VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', '71ada532-a966-473f-bfaa-e95aed48ceab', 'users', 'AES-256-GCM', 'active', 2, NULL, NULL, NULL, '\x0200000001c84f0d7d888190b4590418a75fa91577514abc3290c3bf057b0b719ad11b10be7e3df6aed4d6046efa0bdfaf11ef109e6090f0c008e67afdf3f84dd0', '2026-11-25 13:49:34.653+00', '2026-11-25 13:49:34.671+00', 4, '\x676bf293d639f70113119900e73df2e9765f53b82435b68bbb3fcc012842faf1', 1, DEFAULT);
INSERT INTO public.keys VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', '11fcda83-c5cf-4272-8ce5-ea33fa6256df', 'disabled', 'AES-256-GCM', 'disabled', 1, NULL, NULL, NULL, '\x0200000001e0a1efa0d9a0f98fbcfc9de05767dbd8802d1d3eccae07711415b17fa34b1cdf0aaa337bec366bca9f31198b2aee8d28b76da01ff4a508406e32e187', '2026-11-25 13:49:34.689+00', '2026-11-25 13:49:34.695+00', 7, '\xbdf79bf38a9ce8c4b7e926ef6a871a8e2a3d541971c7bb05b2db38aa5431b0cb', 1, DEFAULT);
INSERT INTO public.keys VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', 'a21574a9-63e4-467a-abd6-06ce2cebdb36', 'destroyed', 'AES-256-GCM', 'destroyed', 1, NULL, NULL, NULL, NULL, '2026-11-25 13:49:34.706+00', '2026-11-25 13:49:34.724+00', 10, '\x6d4eaa8e16c654d313f09504614671d3b903622b753be503be1251314fe32e45', 1, DEFAULT);
INSERT INTO public.keys VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', 'b9ad8219-a4c5-40c5-8908-31c04001f90a', 'users', 'AES-256-GCM', 'active', 2, NULL, NULL, NULL, '\x020000000114b5fdb4922165c5de113b223f96cf4f07e1746c890435edc62329901041ee6cbeb1736f83a530b837851a38443f5d95f87e7f19b75db3eeba0ba1b4', '2026-11-25 13:49:34.754+00', '2026-11-25 13:49:34.761+00', 4, '\x78292272d32bf42f8a81495d36ce109ba1e4bfa1b6958d531fcd7f098d9353ae', 1, DEFAULT);
INSERT INTO public.keys VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', '7fefa688-d0eb-4a61-ad01-b8e50d40b89e', 'disabled', 'AES-256-GCM', 'disabled', 1, NULL, NULL, NULL, '\x02000000010b2babe8086e7496525b509b1bd512985a32fbf889d00d72d99dc1dd6e9815a411164692dcc4f478daf2a4402403939a26e60c0b4fba2e5207e50c41', '2026-11-25 13:49:34.776+00', '2026-11-25 13:49:34.782+00', 7, '\xb8ee23cc937aa4e7c544a6cad0fd5d2e045f18d363724f2faf1222380a4cab6c', 1, DEFAULT);
INSERT INTO public.keys VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', '2c6016e2-6931-4aa9-a215-b453608c6514', 'destroyed', 'AES-256-GCM', 'destroyed', 1, NULL, NULL, NULL, NULL, '2026-11-25 13:49:34.789+00', '2026-11-25 13:49:34.8+00', 10, '\x144582a8b25358f6c02268486b15ff625ab1b969cf75736f5cdfac19fced21ef', 1, DEFAULT);
INSERT INTO public.schema_version VALUES (1, 16);
INSERT INTO public.store_keys VALUES (1, '\x019a2d3b8aa93bd9058f2fb003b774bcaa514cf19166dc2fc2b6e23ae2c8f729e9e6cddc402e808f0cd16c7f64dfa4939d164c74f243812a624cb51132c352ef61', '2026-11-25 13:49:34.077+00');
INSERT INTO public.tenants VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', 'acme', true, NULL, '\x02000000016d3902f8fdbb4c02a113c795c95b3abf6c880c857132846884533591411aa3ad88b63d86f1f33364a0e9fac671468bf754efa7d817b35b8545df6a37', '2026-11-25 13:49:34.112+00', 1, '\x678871dfeda74a52e55e803f54ddb3c50d795c040dd4643736aebf4242033b11', 'utf8', 'active', DEFAULT);
INSERT INTO public.tenants VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', 'umbra', true, NULL, '\x0200000001ae84dce50bc42f0f6955cee374ab0af16e39fe03ea6f8c9fdf4fb179c5473f1ec26379974de4da23200da33c8df1984ee49987007e88a05b61ceefe6', '2026-11-25 13:49:34.313+00', 1, '\x9390aeeaa07775d1a9b81744a38399226f92b7c0b6de3cfccaa8207e59bfb0e1', 'utf8', 'active', DEFAULT);
INSERT INTO public.unrecorded_calls VALUES ('770e3403-cd95-43eb-a1e8-ae6d95ade383', '2026-11-25', '670f5cc1-f8a7-44cc-b334-8baca1b5867a', 'hash', 1, '127.0.0.1');
INSERT INTO public.unrecorded_calls VALUES ('d5e2059c-02af-4cad-8403-d51faf3f9274', '2026-11-25', 'ffe05180-76c7-4246-bcf1-8234b257d4bf', 'hash', 1, '127.0.0.1');
ALTER TABLE ONLY public.anchored_heads
    ADD CONSTRAINT anchored_heads_pkey PRIMARY KEY (tenant_id);
ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (tenant_id, api_key_id);
ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_tenant_id_digest_key UNIQUE (tenant_id, digest);
ALTER TABLE ONLY public.audit_counts
    ADD CONSTRAINT audit_counts_pkey PRIMARY KEY (tenant_id, day, action, key_id);
ALTER TABLE ONLY public.audit_log
    ADD CONSTRAINT audit_log_pkey PRIMARY KEY (tenant_id, id);
ALTER TABLE ONLY public.chain_alarms
    ADD CONSTRAINT chain_alarms_pkey PRIMARY KEY (tenant_id);
ALTER TABLE ONLY public.heads
    ADD CONSTRAINT heads_pkey PRIMARY KEY (tenant_id);
ALTER TABLE ONLY public.instance
    ADD CONSTRAINT instance_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.key_versions
    ADD CONSTRAINT key_versions_pkey PRIMARY KEY (tenant_id, key_id, version);
ALTER TABLE ONLY public.keys
    ADD CONSTRAINT keys_pkey PRIMARY KEY (tenant_id, key_id);
ALTER TABLE ONLY public.keys
    ADD CONSTRAINT keys_tenant_id_name_key UNIQUE (tenant_id, name);
ALTER TABLE ONLY public.purge_marks
    ADD CONSTRAINT purge_marks_pkey PRIMARY KEY (tenant_id, purged_through);
ALTER TABLE ONLY public.schema_version
    ADD CONSTRAINT schema_version_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.store_keys
    ADD CONSTRAINT store_keys_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.tenants
    ADD CONSTRAINT tenants_name_key UNIQUE (name);
ALTER TABLE ONLY public.tenants
    ADD CONSTRAINT tenants_pkey PRIMARY KEY (tenant_id);
ALTER TABLE ONLY public.unrecorded_calls
    ADD CONSTRAINT unrecorded_calls_pkey PRIMARY KEY (tenant_id, day, api_key_id, kind, ip_address);
CREATE INDEX api_keys_listed ON public.api_keys USING btree (tenant_id, created_at, api_key_id);
CREATE INDEX audit_counts_key ON public.audit_counts USING btree (tenant_id, key_id, day);
CREATE INDEX audit_log_action ON public.audit_log USING btree (tenant_id, action, id);
CREATE INDEX audit_log_api_key ON public.audit_log USING btree (tenant_id, "substring"(metadata, '"api_key_id":"([^"]*)"'::text), id) WHERE ((metadata IS NOT NULL) AND (action = ANY (ARRAY['api_key.create'::text, 'api_key.update'::text, 'api_key.revoke'::text, 'api_key.restate'::text])));
CREATE INDEX audit_log_key ON public.audit_log USING btree (tenant_id, key_id, id);
CREATE INDEX audit_log_key_action ON public.audit_log USING btree (tenant_id, key_id, action, id);
CREATE INDEX audit_log_time ON public.audit_log USING btree (tenant_id, created_at, id);
CREATE INDEX keys_due ON public.keys USING btree (COALESCE(destroy_at, next_rotation_at), tenant_id, key_id) WHERE ((status = ANY (ARRAY['active'::text, 'pending_destruction'::text])) AND (COALESCE(destroy_at, next_rotation_at) IS NOT NULL));
CREATE INDEX keys_listed ON public.keys USING btree (tenant_id, created_at, key_id);
ALTER TABLE ONLY public.instance
    ADD CONSTRAINT instance_store_key_fkey FOREIGN KEY (store_key) REFERENCES public.store_keys(number);
ALTER TABLE ONLY public.key_versions
    ADD CONSTRAINT key_versions_store_key_fkey FOREIGN KEY (store_key) REFERENCES public.store_keys(number);
ALTER TABLE ONLY public.keys
    ADD CONSTRAINT keys_store_key_fkey FOREIGN KEY (store_key) REFERENCES public.store_keys(number);
ALTER TABLE ONLY public.tenants
    ADD CONSTRAINT tenants_store_key_fkey FOREIGN KEY (store_key) REFERENCES public.store_keys(number);
