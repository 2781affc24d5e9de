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
    pepper integer DEFAULT 1 NOT NULL,
    keys text[],
    budgets text,
    CONSTRAINT api_keys_not_installation CHECK ((tenant_id <> 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid))
);
CREATE TABLE public.audit_counts (
    tenant_id uuid NOT NULL,
    day date NOT NULL,
    action text NOT NULL,
    key_id uuid NOT NULL,
    entries bigint NOT NULL,
    purged bigint DEFAULT 0 NOT NULL,
    key_version integer DEFAULT 0 NOT NULL,
    api_key_id uuid DEFAULT '00000000-0000-0000-0000-000000000000'::uuid NOT NULL
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
CREATE TABLE public.budget_uses (
    tenant_id uuid NOT NULL,
    api_key_id uuid NOT NULL,
    kind text NOT NULL,
    minute timestamp(3) with time zone NOT NULL,
    in_minute bigint NOT NULL,
    day date NOT NULL,
    in_day bigint NOT NULL
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
    pepper integer DEFAULT 1 NOT NULL,
    pepper_since timestamp(3) with time zone,
    wrapped_former_pepper bytea,
    CONSTRAINT instance_id_check CHECK ((id = 1))
);
ALTER TABLE ONLY public.instance ALTER COLUMN wrapped_pepper SET STATISTICS 0;
ALTER TABLE ONLY public.instance ALTER COLUMN wrapped_signing_key SET STATISTICS 0;
ALTER TABLE ONLY public.instance ALTER COLUMN wrapped_audit_key SET STATISTICS 0;
ALTER TABLE ONLY public.instance ALTER COLUMN wrapped_former_pepper SET STATISTICS 0;
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
    min_unwrap_since timestamp(3) with time zone,
    destroyed_through integer DEFAULT 0 NOT NULL,
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
    refused_at timestamp(3) with time zone,
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
INSERT INTO public.anchored_heads VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', 17, '\x389162162afc3e60ff802fb5d075da223310c5a0e23abe23070f7a05486a851b', 15, '2026-11-25 09:43:07.806+00', '\x292646b0232f1589e58d87f2f61998af095c6334263980c795c288f74de914c7');
INSERT INTO public.anchored_heads VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 17, '\xd40f9b2c40943b86d16bdc93948b2dfd9210226cb71a928e1157c7fae357134f', 15, '2026-11-25 09:43:09.645+00', '\x8187ae67e8d1dce0baf485801d2257ee4c701a1f36ab9382b8f87d62d7a3f453');
INSERT INTO public.api_keys VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '240c3131-0592-428d-9429-8d4efad5d502', '6659fb3df0836731d02a20fd59069a0f9130192ca1b4cddf38685d03a151a47c', 'first key', 'eaas_sk_544db39eb1f04f98ab1d1e87b2bd93ab_Si6L', '{encrypt,decrypt,wrap,unwrap,hash,keys:read,keys:create,keys:rotate,keys:disable,keys:destroy,keys:export,audit:read,audit:on_behalf_of,api_keys:read,api_keys:manage}', '{}', NULL, NULL, '2026-11-25 09:43:06.01+00', 1, '\x408c3634be1d8d88ba2716cff043bc665594d81e64061cf242bb5d91ba2a1fc8', NULL, 1, NULL, NULL);
INSERT INTO public.api_keys VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', 'e9a08d9c-d70b-4ba0-8111-6d6cee861497', '01733adc9bc2a457d43e11ec3d1bfc27fc878109b323d1cc41735c3962344161', 'limited', 'eaas_sk_544db39eb1f04f98ab1d1e87b2bd93ab_hb0h', '{decrypt,encrypt}', '{}', NULL, NULL, '2026-11-25 09:43:07.635+00', 15, '\xa134fe4d2b2b2b41ee307a26fddb1ac1766135efc6f20c7cb5a1b9c589862a40', NULL, 1, '{664c7ca6-95df-40a3-af5b-465762b358f4}', '{"unwrap":{"per_day":1000}}');
INSERT INTO public.api_keys VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '7fbc8f08-0003-449e-9f3a-7ad65a2edb03', '9de23f63ceee1d400fefe2df3a7ba1a5c21bb041578dec3265941cb2f97602b6', 'revoked', 'eaas_sk_544db39eb1f04f98ab1d1e87b2bd93ab_GHHv', '{decrypt}', '{10.0.0.0/8}', '2100-01-01 00:00:00+00', '2026-11-25 09:43:07.806+00', '2026-11-25 09:43:07.761+00', 17, '\xdb6caeaa0250d84b40f705cced707261ed8f4d4d6e554932e99f24b09583bebc', NULL, 1, NULL, NULL);
INSERT INTO public.api_keys VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', '0b7bea7e-57bb-4d4e-9911-d10332fc2daf', 'db741c33f4d39b8ee87d2ca7ed9f6fa20d8f94e38c0c5a922456c0c8aa650ab6', 'first key', 'eaas_sk_64ead332e1154d9ca9b9690bc7dbe0be_O9RH', '{encrypt,decrypt,wrap,unwrap,hash,keys:read,keys:create,keys:rotate,keys:disable,keys:destroy,keys:export,audit:read,audit:on_behalf_of,api_keys:read,api_keys:manage}', '{}', NULL, NULL, '2026-11-25 09:43:07.906+00', 1, '\xed2d84936733ec3cc8eee9fafef6bd345e5186802ed9dc2488f091ac14dcbc43', NULL, 1, NULL, NULL);
INSERT INTO public.api_keys VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', '9fbacb3e-c6c8-47fb-a56b-c929d320931f', '2cddcb5f06f418a24d12d9128b3c4f63b3de46d7e15c7d3de330aacffc5e5e15', 'limited', 'eaas_sk_64ead332e1154d9ca9b9690bc7dbe0be_6DG9', '{decrypt,encrypt}', '{}', NULL, NULL, '2026-11-25 09:43:09.382+00', 15, '\xa678b36a309df2956d10c22f3f8f0b161271bd47cd3b7bc782667d85c6c89716', NULL, 1, '{ce35c49f-a84f-4500-8aff-a37fa17c1e6a}', '{"unwrap":{"per_day":1000}}');
INSERT INTO public.api_keys VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', '56f0d6d1-3aa7-4fc3-ac8d-b224512d4eda', '4c145ca7041d604a855e2ce93a6fd61a44ee9b0b7432bfe9b3184ca2339deafd', 'revoked', 'eaas_sk_64ead332e1154d9ca9b9690bc7dbe0be_7WTC', '{decrypt}', '{10.0.0.0/8}', '2100-01-01 00:00:00+00', '2026-11-25 09:43:09.645+00', '2026-11-25 09:43:09.524+00', 17, '\x311ec7ff94ed28629e3f3ffc387d4ee6de4104128da1ef3e6a4121e2b8c479b1', NULL, 1, NULL, NULL);
INSERT INTO public.audit_counts VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', '2026-11-25', 'installation.create', '00000000-0000-0000-0000-000000000000', 1, 0, 0, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '2026-11-25', 'key.create', '664c7ca6-95df-40a3-af5b-465762b358f4', 1, 0, 1, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '2026-11-25', 'key.wrap', '664c7ca6-95df-40a3-af5b-465762b358f4', 1, 0, 1, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '2026-11-25', 'key.rotate', '664c7ca6-95df-40a3-af5b-465762b358f4', 1, 0, 2, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '2026-11-25', 'key.wrap', '664c7ca6-95df-40a3-af5b-465762b358f4', 1, 0, 2, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '2026-11-25', 'key.create', '51c5fc91-ef80-4072-8584-dfa23346f853', 1, 0, 1, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '2026-11-25', 'key.rotate', '51c5fc91-ef80-4072-8584-dfa23346f853', 1, 0, 2, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '2026-11-25', 'key.update', '51c5fc91-ef80-4072-8584-dfa23346f853', 1, 0, 2, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '2026-11-25', 'key.destroy', '51c5fc91-ef80-4072-8584-dfa23346f853', 1, 0, 2, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '2026-11-25', 'key.create', '2d2c98c8-8f9d-422b-a572-b2fc4e5e345e', 1, 0, 1, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '2026-11-25', 'key.disable', '2d2c98c8-8f9d-422b-a572-b2fc4e5e345e', 1, 0, 1, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '2026-11-25', 'key.create', '98d0dbdd-3815-4b5f-8203-bfb0d80dfb3e', 1, 0, 1, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '2026-11-25', 'key.disable', '98d0dbdd-3815-4b5f-8203-bfb0d80dfb3e', 1, 0, 1, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '2026-11-25', 'key.destroy', '98d0dbdd-3815-4b5f-8203-bfb0d80dfb3e', 1, 0, 1, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '2026-11-25', 'api_key.create', '00000000-0000-0000-0000-000000000000', 3, 0, 0, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '2026-11-25', 'api_key.revoke', '00000000-0000-0000-0000-000000000000', 1, 0, 0, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', '2026-11-25', 'installation.tenant_create', '00000000-0000-0000-0000-000000000000', 2, 0, 0, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', '2026-11-25', 'key.create', 'ce35c49f-a84f-4500-8aff-a37fa17c1e6a', 1, 0, 1, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', '2026-11-25', 'key.wrap', 'ce35c49f-a84f-4500-8aff-a37fa17c1e6a', 1, 0, 1, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', '2026-11-25', 'key.rotate', 'ce35c49f-a84f-4500-8aff-a37fa17c1e6a', 1, 0, 2, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', '2026-11-25', 'key.wrap', 'ce35c49f-a84f-4500-8aff-a37fa17c1e6a', 1, 0, 2, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', '2026-11-25', 'key.create', '6cbf3b49-3319-4b71-95ba-8d177e8ce9bf', 1, 0, 1, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', '2026-11-25', 'key.rotate', '6cbf3b49-3319-4b71-95ba-8d177e8ce9bf', 1, 0, 2, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', '2026-11-25', 'key.update', '6cbf3b49-3319-4b71-95ba-8d177e8ce9bf', 1, 0, 2, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', '2026-11-25', 'key.destroy', '6cbf3b49-3319-4b71-95ba-8d177e8ce9bf', 1, 0, 2, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', '2026-11-25', 'key.create', 'e5d334a6-14bb-4801-92ec-487780a70d34', 1, 0, 1, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', '2026-11-25', 'key.disable', 'e5d334a6-14bb-4801-92ec-487780a70d34', 1, 0, 1, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', '2026-11-25', 'key.create', '0914f586-c390-4c6d-9312-b4d71ecabd65', 1, 0, 1, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', '2026-11-25', 'key.disable', '0914f586-c390-4c6d-9312-b4d71ecabd65', 1, 0, 1, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', '2026-11-25', 'key.destroy', '0914f586-c390-4c6d-9312-b4d71ecabd65', 1, 0, 1, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', '2026-11-25', 'api_key.create', '00000000-0000-0000-0000-000000000000', 3, 0, 0, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', '2026-11-25', 'api_key.revoke', '00000000-0000-0000-0000-000000000000', 1, 0, 0, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_counts VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', '2026-11-25', 'installation.anchor', '00000000-0000-0000-0000-000000000000', 1, 0, 0, '00000000-0000-0000-0000-000000000000');
INSERT INTO public.audit_log VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', 1, 'installation.create', NULL, NULL, 'system', NULL, '{"version":"0.0.0"}', '2026-11-25 09:43:05.088+00', '\x30189f670727963c83c866be910cb08e2248b613f8b1152d51fdd6518b402ce3', '\xfa6c8d95eff3a939a93ece062f275f82aafc1b3de0f50aac2dba761b3f4795df');
INSERT INTO public.audit_log VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', 1, 'api_key.create', NULL, NULL, 'system', NULL, '{"allowed_ips":null,"api_key_id":"240c3131-0592-428d-9429-8d4efad5d502","envelope_only":true,"expires_at":null,"permissions":"api_keys:manage api_keys:read audit:on_behalf_of audit:read decrypt encrypt hash keys:create keys:destroy keys:disable keys:export keys:read keys:rotate unwrap wrap"}', '2026-11-25 09:43:06.01+00', '\x0e156879c72b0bb3e8b7aece2499528c981bc10f58c168bb4e045c963910838d', '\xd62e6ec6ecf092ab569efa325509df8da005aebd843304879dbb1d7a769c5c46');
INSERT INTO public.audit_log VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', 2, 'installation.tenant_create', NULL, NULL, 'system', NULL, '{"envelope_only":true,"name":"acme","tenant_id":"544db39e-b1f0-4f98-ab1d-1e87b2bd93ab"}', '2026-11-25 09:43:06.018+00', '\xebcd6b616be93aaf1e0ad0f99a1b1858f2c4cfbf447ef084f7f56c3712fc23dd', '\xdc6a479074ee0b185327a4540f619570d6a239dae51dba9847d528ea26c03c07');
INSERT INTO public.audit_log VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', 2, 'key.create', '664c7ca6-95df-40a3-af5b-465762b358f4', 1, '240c3131-0592-428d-9429-8d4efad5d502', '127.0.0.1', '{"folder":""}', '2026-11-25 09:43:06.317+00', '\xee3fb6a59809991faf45da9658cd755c8f778489ea14aa3685756f84c1a6841a', '\x33a67bc962ad91a8da7f26e0dcc81f3b7d72afb96734646d6a20742221513414');
INSERT INTO public.audit_log VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', 3, 'key.wrap', '664c7ca6-95df-40a3-af5b-465762b358f4', 1, '240c3131-0592-428d-9429-8d4efad5d502', '127.0.0.1', NULL, '2026-11-25 09:43:06.618+00', '\xb2af962725e7443839e8fe5a1bc71df21806eb9a3ce0590b4306c947d719c2ab', '\x89b39a7da108db089cbb410719a55d1d3c081a17589cbe07b0fbe1b7a7ce76a0');
INSERT INTO public.audit_log VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', 4, 'key.rotate', '664c7ca6-95df-40a3-af5b-465762b358f4', 2, '240c3131-0592-428d-9429-8d4efad5d502', '127.0.0.1', '{"replaces":2}', '2026-11-25 09:43:06.703+00', '\xb19928b5db77f228ed13a9f8690f7c927637d81684379e048cda66c291cf83f7', '\xd8c09d981f478835cbc08c9b98f5ef093e1b1171cad23d253e4517c7f161def8');
INSERT INTO public.audit_log VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', 5, 'key.wrap', '664c7ca6-95df-40a3-af5b-465762b358f4', 2, '240c3131-0592-428d-9429-8d4efad5d502', '127.0.0.1', NULL, '2026-11-25 09:43:06.751+00', '\x6aee64684c92d990ac2e710492bd5c2147269e90364712e959567a30d663ac25', '\x9155197202ef3f1085cd4da8e57982bff1f72ae633f8431612534bc409f2a23b');
INSERT INTO public.audit_log VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', 6, 'key.create', '51c5fc91-ef80-4072-8584-dfa23346f853', 1, '240c3131-0592-428d-9429-8d4efad5d502', '127.0.0.1', '{"folder":""}', '2026-11-25 09:43:06.801+00', '\x240bdc52577a1c3f0a3c31bbafab40da5c71543401d18ed48a84c5b17f65d5df', '\xdd1dd5933a002667ad37c2c027741cb2f1e04cf50e12345fedf1121bd479c395');
INSERT INTO public.audit_log VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', 7, 'key.rotate', '51c5fc91-ef80-4072-8584-dfa23346f853', 2, '240c3131-0592-428d-9429-8d4efad5d502', '127.0.0.1', '{"replaces":6}', '2026-11-25 09:43:06.813+00', '\xa988b8e78440c872824769b6f9df89b4d656ea6fc98b21d55930ccca744ef714', '\x9de00820bba820c2ce01f27f7fc499ead893c5639aaf04d326ba4b57c578ef2b');
INSERT INTO public.audit_log VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', 8, 'key.update', '51c5fc91-ef80-4072-8584-dfa23346f853', 2, '240c3131-0592-428d-9429-8d4efad5d502', '127.0.0.1', '{"min_unwrap_version":2,"min_unwrap_version_before":1,"replaces":7,"status":"active"}', '2026-11-25 09:43:06.823+00', '\x6a6ef9faa4d4794c149ba9d77d7f3c9353a8dfe5ddc669d4c2c5573b23b20496', '\xfc1cb5003b9859795e081b54f3c779d30eb10383048e5a9712a9623e7ed0bcaf');
INSERT INTO public.audit_log VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', 9, 'key.destroy', '51c5fc91-ef80-4072-8584-dfa23346f853', 2, '240c3131-0592-428d-9429-8d4efad5d502', '127.0.0.1', '{"replaces":8,"status":"active","step":"version","version":1}', '2026-11-25 09:43:07.157+00', '\xf0f8c0be8aa4d26755ba3e26f8c9252724077f87967025f54b09b2d72e56c3a8', '\x6765730564a2dca41294b81deec4793a01022dc673b258fc7b67c2e53b1d71dd');
INSERT INTO public.audit_log VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', 10, 'key.create', '2d2c98c8-8f9d-422b-a572-b2fc4e5e345e', 1, '240c3131-0592-428d-9429-8d4efad5d502', '127.0.0.1', '{"folder":""}', '2026-11-25 09:43:07.296+00', '\x76ff6837ba98452896cce3675b0036205178155900aff44a69fca1ea86b94f49', '\x461d69033a40517ce3dc7efd50eb30367f26aa22dc543ee82e4e648cfa2567a1');
INSERT INTO public.audit_log VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', 11, 'key.disable', '2d2c98c8-8f9d-422b-a572-b2fc4e5e345e', 1, '240c3131-0592-428d-9429-8d4efad5d502', '127.0.0.1', '{"replaces":10}', '2026-11-25 09:43:07.336+00', '\x2ce951d527f13c6ce47a3d5aeb79c637f0cc0e8cf03300fe7c0f5c16ba93af57', '\x4de14f662f24d01f0b363d7bfc6063f66afac054021bb84a9d7ee7da397361df');
INSERT INTO public.audit_log VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', 12, 'key.create', '98d0dbdd-3815-4b5f-8203-bfb0d80dfb3e', 1, '240c3131-0592-428d-9429-8d4efad5d502', '127.0.0.1', '{"folder":""}', '2026-11-25 09:43:07.38+00', '\x584a431f8bb38b3c6ee87494ca6f810b2209db84040baed650c0528d3ae98964', '\x53e46f5fae55c3a2e510c306188f901170b800da1de292df50bb8fcc63f8cb23');
INSERT INTO public.audit_log VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', 13, 'key.disable', '98d0dbdd-3815-4b5f-8203-bfb0d80dfb3e', 1, '240c3131-0592-428d-9429-8d4efad5d502', '127.0.0.1', '{"replaces":12}', '2026-11-25 09:43:07.422+00', '\x6090563ce03f59e4da715931138f5e90037606ee0758079dc62dd7843ff6611b', '\xe9bf08183562378f26af0fa89a726c53143cef6e8e53006928175aa3669372f5');
INSERT INTO public.audit_log VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', 14, 'key.destroy', '98d0dbdd-3815-4b5f-8203-bfb0d80dfb3e', 1, '240c3131-0592-428d-9429-8d4efad5d502', '127.0.0.1', '{"replaces":13,"step":"completed","versions":1}', '2026-11-25 09:43:07.459+00', '\x5d980b638e03567607d1560d061b8658ea8eab8480b920c194317a2f5e6bf066', '\xedc63a1e29181f43e5aa0b331aa1908764d2b3edff042ed93d8225925f6f3908');
INSERT INTO public.audit_log VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', 15, 'api_key.create', NULL, NULL, '240c3131-0592-428d-9429-8d4efad5d502', '127.0.0.1', '{"allowed_ips":null,"api_key_id":"e9a08d9c-d70b-4ba0-8111-6d6cee861497","budgets":"{\"unwrap\":{\"per_day\":1000}}","expires_at":null,"keys":"[\"664c7ca6-95df-40a3-af5b-465762b358f4\"]","permissions":"decrypt encrypt"}', '2026-11-25 09:43:07.635+00', '\x15fd40dd805d5643e9c77478a4d68cd0b5c50bc8cac1f3b0aee65fc5b3332cee', '\xa9c299583af6887afde8de71443800c3295a75e7dbb51bb55906bd48a25552be');
INSERT INTO public.audit_log VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', 16, 'api_key.create', NULL, NULL, '240c3131-0592-428d-9429-8d4efad5d502', '127.0.0.1', '{"allowed_ips":"10.0.0.0/8","api_key_id":"7fbc8f08-0003-449e-9f3a-7ad65a2edb03","expires_at":"2100-01-01T00:00:00.000Z","permissions":"decrypt"}', '2026-11-25 09:43:07.761+00', '\x6a81ebf9836fa3b93de3fdf29b39140c4f2599a99c18f2bc3bf4726e2ccf306f', '\x89dd8704f1173c600b13c4d64b4ad46519f0e09efd7c6e29abb6c7cc6f279674');
INSERT INTO public.audit_log VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', 17, 'api_key.revoke', NULL, NULL, '240c3131-0592-428d-9429-8d4efad5d502', '127.0.0.1', '{"api_key_id":"7fbc8f08-0003-449e-9f3a-7ad65a2edb03","replaces":16}', '2026-11-25 09:43:07.806+00', '\x389162162afc3e60ff802fb5d075da223310c5a0e23abe23070f7a05486a851b', '\xf57e1cc619141c213a8f4ce9b93a3645fb0f6c266362c8681e42a3d346310193');
INSERT INTO public.audit_log VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 1, 'api_key.create', NULL, NULL, 'system', NULL, '{"allowed_ips":null,"api_key_id":"0b7bea7e-57bb-4d4e-9911-d10332fc2daf","envelope_only":false,"expires_at":null,"permissions":"api_keys:manage api_keys:read audit:on_behalf_of audit:read decrypt encrypt hash keys:create keys:destroy keys:disable keys:export keys:read keys:rotate unwrap wrap"}', '2026-11-25 09:43:07.906+00', '\x81ce7172dbb42afd3f12d99b8f8f9affe45fb31a201ef13e95eed429fbdc6ea7', '\xca8b013cd24877299282078a01d30cf3b259c593f47f062ecc3e57eddf221000');
INSERT INTO public.audit_log VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', 3, 'installation.tenant_create', NULL, NULL, 'system', NULL, '{"envelope_only":false,"name":"globex","tenant_id":"64ead332-e115-4d9c-a9b9-690bc7dbe0be"}', '2026-11-25 09:43:07.957+00', '\x4ead42593a0340deae3a42129abcdeed382c86c79b4fca1a0adab476579fa706', '\x41dd5d91e4567eb0827c80d4f7afdff0d7d7ad49d71929c21f4f37e252bea45d');
INSERT INTO public.audit_log VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 2, 'key.create', 'ce35c49f-a84f-4500-8aff-a37fa17c1e6a', 1, '0b7bea7e-57bb-4d4e-9911-d10332fc2daf', '127.0.0.1', '{"folder":""}', '2026-11-25 09:43:08.012+00', '\x027c63c0c20f13b530b7d77c76fda1b00f836bd5446b85a7d1fa0e70de32316a', '\x153868dcb751e3d343b90e3565a21d346b8ff9b4e27c4eab0f99c068cac3cf7f');
INSERT INTO public.audit_log VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 3, 'key.wrap', 'ce35c49f-a84f-4500-8aff-a37fa17c1e6a', 1, '0b7bea7e-57bb-4d4e-9911-d10332fc2daf', '127.0.0.1', NULL, '2026-11-25 09:43:08.067+00', '\xe75ee8f91119f06d8a0f6300583b1790e911a479c6801fe00ef2863fab301f0a', '\xb66ff7adba8edff2c5140e9e235e8bb40d0bdc2ad74233e8da0138abb58ba6a4');
INSERT INTO public.audit_log VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 4, 'key.rotate', 'ce35c49f-a84f-4500-8aff-a37fa17c1e6a', 2, '0b7bea7e-57bb-4d4e-9911-d10332fc2daf', '127.0.0.1', '{"replaces":2}', '2026-11-25 09:43:08.12+00', '\xe01dab1067144c79d8424b59d9bb10ea4ac44f56aac1342d9ff217d488e8c1c3', '\xd9dd75ef6ac0bf70ff00fed084c7d2b8eb92842dccec1d43e5ead30c0a22dbc9');
INSERT INTO public.audit_log VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 5, 'key.wrap', 'ce35c49f-a84f-4500-8aff-a37fa17c1e6a', 2, '0b7bea7e-57bb-4d4e-9911-d10332fc2daf', '127.0.0.1', NULL, '2026-11-25 09:43:08.146+00', '\x1f11fbbad4e148f140eff3435a0e8f0be5d3583a9606f695e1a66af329b1d2c0', '\xb19bf7d3bd6616a0d05178094e0cdeea3ab47b36b64c2b2499226d550fbf64da');
INSERT INTO public.audit_log VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 6, 'key.create', '6cbf3b49-3319-4b71-95ba-8d177e8ce9bf', 1, '0b7bea7e-57bb-4d4e-9911-d10332fc2daf', '127.0.0.1', '{"folder":""}', '2026-11-25 09:43:08.213+00', '\xd47066a71c7405cac1c56bfba471e55f26037438cf29847ec535305455465ce0', '\xc1d334392e53e1314699e311dc141d8bf3dfd26c488651f5c74dcf3222e262f1');
INSERT INTO public.audit_log VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 7, 'key.rotate', '6cbf3b49-3319-4b71-95ba-8d177e8ce9bf', 2, '0b7bea7e-57bb-4d4e-9911-d10332fc2daf', '127.0.0.1', '{"replaces":6}', '2026-11-25 09:43:08.322+00', '\xc52e000c13df924688f5d064f7290b4489ba35154d8cae8c1983d691f12557ef', '\x1d33f3eae8e5749f98f6e8c461fddda5fcbae23ab666de4e08f72093fe520fdd');
INSERT INTO public.audit_log VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 8, 'key.update', '6cbf3b49-3319-4b71-95ba-8d177e8ce9bf', 2, '0b7bea7e-57bb-4d4e-9911-d10332fc2daf', '127.0.0.1', '{"min_unwrap_version":2,"min_unwrap_version_before":1,"replaces":7,"status":"active"}', '2026-11-25 09:43:08.402+00', '\x7b77ef7e182af6ce4d1bacdad2fb5e5e95f30d72efa49e323b1f0758d075d43e', '\x1a86fc3608288460228e41106459bd32cff4468e6ecdcfcfd3dc43cd386c8923');
INSERT INTO public.audit_log VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 9, 'key.destroy', '6cbf3b49-3319-4b71-95ba-8d177e8ce9bf', 2, '0b7bea7e-57bb-4d4e-9911-d10332fc2daf', '127.0.0.1', '{"replaces":8,"status":"active","step":"version","version":1}', '2026-11-25 09:43:08.433+00', '\xa1a9455b0f707c78b63cc772c3944fde969056a4bdf6e3eb5e2153b958eb86ec', '\x346ec2e921f4f3e30ad5fee10662f47d3c033ce1c28791b2b3eed981ef4220c8');
INSERT INTO public.audit_log VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 10, 'key.create', 'e5d334a6-14bb-4801-92ec-487780a70d34', 1, '0b7bea7e-57bb-4d4e-9911-d10332fc2daf', '127.0.0.1', '{"folder":""}', '2026-11-25 09:43:08.61+00', '\xb24671bf35e30097be29d1629ae37f3ee8c16bdc1aee59b416e8683a69d3b8f0', '\x459268d4f40348c172aa51cf29898e12e896df67dcbd815d803070177bc71167');
INSERT INTO public.audit_log VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 11, 'key.disable', 'e5d334a6-14bb-4801-92ec-487780a70d34', 1, '0b7bea7e-57bb-4d4e-9911-d10332fc2daf', '127.0.0.1', '{"replaces":10}', '2026-11-25 09:43:08.636+00', '\x7751546b6095548456f4a5c8bb7955afbb7b628f9389042a0bcc8f5140150b40', '\x2532cdceb91032d6063b6136f4a8b99c7a56f3c2d3a3666f17befaab2822150e');
INSERT INTO public.audit_log VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 13, 'key.disable', '0914f586-c390-4c6d-9312-b4d71ecabd65', 1, '0b7bea7e-57bb-4d4e-9911-d10332fc2daf', '127.0.0.1', '{"replaces":12}', '2026-11-25 09:43:08.832+00', '\x854c792f527cc38eae3151495f325c7b0ea88965868564fa354bb9d56db7a406', '\x032ed45def697f03449da07393920fc75e41ba06760fe58bba235be3fa2889db');
INSERT INTO public.audit_log VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 12, 'key.create', '0914f586-c390-4c6d-9312-b4d71ecabd65', 1, '0b7bea7e-57bb-4d4e-9911-d10332fc2daf', '127.0.0.1', '{"folder":""}', '2026-11-25 09:43:08.696+00', '\x8e0101f8ad5ded82de8f2fb519ebc00d965555c1215a79ca20b72a9f3959c55b', '\xa4ebbf67ebcd491b06857e3a2aafb4d6bdfdb6e7dc67184db19c26ba5746d6b6');
INSERT INTO public.audit_log VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 14, 'key.destroy', '0914f586-c390-4c6d-9312-b4d71ecabd65', 1, '0b7bea7e-57bb-4d4e-9911-d10332fc2daf', '127.0.0.1', '{"replaces":13,"step":"completed","versions":1}', '2026-11-25 09:43:08.948+00', '\x91d6ba8babe1ae58f7930dba206589141e1e9a22b67a576f6ec227bd8135bc04', '\xa26985576c4e6eda7ed7d9a46194c3c7597f356505fbd7f49b5e7dec8c5d0fbf');
INSERT INTO public.audit_log VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 15, 'api_key.create', NULL, NULL, '0b7bea7e-57bb-4d4e-9911-d10332fc2daf', '127.0.0.1', '{"allowed_ips":null,"api_key_id":"9fbacb3e-c6c8-47fb-a56b-c929d320931f","budgets":"{\"unwrap\":{\"per_day\":1000}}","expires_at":null,"keys":"[\"ce35c49f-a84f-4500-8aff-a37fa17c1e6a\"]","permissions":"decrypt encrypt"}', '2026-11-25 09:43:09.382+00', '\x7d3b478696cdc2af7fd33ff522d668d8b2c4e8ef9df551a0b8c974c283085b1f', '\x39ec6861686188954abbcbc2c24db32479ce56d50f0c35b7b454e02263666b03');
INSERT INTO public.audit_log VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 16, 'api_key.create', NULL, NULL, '0b7bea7e-57bb-4d4e-9911-d10332fc2daf', '127.0.0.1', '{"allowed_ips":"10.0.0.0/8","api_key_id":"56f0d6d1-3aa7-4fc3-ac8d-b224512d4eda","expires_at":"2100-01-01T00:00:00.000Z","permissions":"decrypt"}', '2026-11-25 09:43:09.524+00', '\xb4fa3e6371a18838eb990726f7363180d89adc13d2c5840cdd839009cf4e4646', '\xe6a1943925394bd7c987b94324eea15c6aff502a6adbdda22f8061dbe3022dda');
INSERT INTO public.audit_log VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 17, 'api_key.revoke', NULL, NULL, '0b7bea7e-57bb-4d4e-9911-d10332fc2daf', '127.0.0.1', '{"api_key_id":"56f0d6d1-3aa7-4fc3-ac8d-b224512d4eda","replaces":16}', '2026-11-25 09:43:09.645+00', '\xd40f9b2c40943b86d16bdc93948b2dfd9210226cb71a928e1157c7fae357134f', '\x2db8fa5a997c46ba6e694cb2c86a2eccc853addbc5755da0e2d0a97c68139bd8');
INSERT INTO public.audit_log VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', 4, 'installation.anchor', NULL, NULL, 'system', NULL, '{"root":"7ba3cf820cf3fbd5e557a89f46832816c056cc768cf0824213e2b07a7f8747d9","tenants":2}', '2026-11-25 09:43:09.968+00', '\xd9a71460d6036a643cd783cff61f194f753dd2e74f7ac3c5716da8a46c164ead', '\x6963b3922817920a44bf84a6d62b9955d4a7a88d087b41eabf48764e12610382');
INSERT INTO public.heads VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', 17, '\x389162162afc3e60ff802fb5d075da223310c5a0e23abe23070f7a05486a851b', 15, '2026-11-25 09:43:07.806+00', '\x292646b0232f1589e58d87f2f61998af095c6334263980c795c288f74de914c7');
INSERT INTO public.heads VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 17, '\xd40f9b2c40943b86d16bdc93948b2dfd9210226cb71a928e1157c7fae357134f', 15, '2026-11-25 09:43:09.645+00', '\x8187ae67e8d1dce0baf485801d2257ee4c701a1f36ab9382b8f87d62d7a3f453');
INSERT INTO public.heads VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', 4, '\xd9a71460d6036a643cd783cff61f194f753dd2e74f7ac3c5716da8a46c164ead', 1, '2026-11-25 09:43:09.968+00', '\xaf75a5e1e3de3ce3f4dd5549ce7eb3b45be2a0f7975632fac762d5f88e4b322f');
INSERT INTO public.instance VALUES (1, '\x0200000001aef94b21319af9a9ef18f9a41edae44c6a7b53173fe24bcbb637515ac4045b355c8ce72e2fd411d8f2874cf32938979e0c138af2c6ef3eb8a0414ee7', '\x0200000001c2ac9bd46919b4824bdcdcf67107cc1bd9ca7edee001ff81a43dc46b16db9644d66c71adf8ada5d90dc9d3422e4b569e91924a283075227d384c0305', '2026-11-25 09:43:05.064+00', '\x02000000010b2e29bc08f807748b81b10e405de5ab69bbc5fd6798f21c811bb2c3b4d488071687c5ed59f5d4839de29f2a481ec2b97840ae534c69268bd115b607', DEFAULT, 1, NULL, NULL);
INSERT INTO public.key_versions VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '664c7ca6-95df-40a3-af5b-465762b358f4', 1, 'retired', '\x02000000015816322210b7b12fc3857fa3eb1554750096b701c66b1a4029eb7197e305f1c721da6efe3a2ec153fbc267d1505ca059828fc7132b80984ebe125be4', '2026-11-25 09:43:06.317+00', 4, '\x6d484e71bb3eb7e32a4812ecbaa1c8b04b3e4e31a4001b918b5218441954286c', DEFAULT);
INSERT INTO public.key_versions VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '664c7ca6-95df-40a3-af5b-465762b358f4', 2, 'active', '\x0200000001f0760ba4aa55cacac7533d23027d2d15a236a942504b2743e0b1bbcf77c590d4abf14a26d4424c8aa07dd3eb1d7cabdcf3fc2e5b5bb3ef8b1602d77b', '2026-11-25 09:43:06.703+00', 4, '\xbac7a4e0993ee0fe476401cbb1df976fe0266557d3aeb1bf208f6cad76d0bcee', DEFAULT);
INSERT INTO public.key_versions VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '51c5fc91-ef80-4072-8584-dfa23346f853', 2, 'active', '\x0200000001a178052bba6d888c5c532b944d8a779bb275a767d71563740be9a7e1413541b17ffef82bfe5d9d4a38eac50abe058177b2d74268f2d9e3ff4cf409b2', '2026-11-25 09:43:06.813+00', 7, '\xe558fc1d6b1c18156fb0b399ee89c33f9ce31fe34341817937a53eca3619d54e', DEFAULT);
INSERT INTO public.key_versions VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '51c5fc91-ef80-4072-8584-dfa23346f853', 1, 'destroyed', NULL, '2026-11-25 09:43:06.801+00', 9, '\x8cf7fceac5ac9c86dc0ecc5699f165337380eff3e3b571cff489706633881716', DEFAULT);
INSERT INTO public.key_versions VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '2d2c98c8-8f9d-422b-a572-b2fc4e5e345e', 1, 'active', '\x0200000001e40e2323752b24bc56f3fffae0b7cc1839514c0ac0f791c837a50bfb504a59bce2e07d0954956d19dd5e30bae931aa09d243fbf6d53e13cc3fc20005', '2026-11-25 09:43:07.296+00', 10, '\xd31140a24cbd300c1abecee74a72db95a97ab3adc0b2671f41f5681984be1f29', DEFAULT);
INSERT INTO public.key_versions VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '98d0dbdd-3815-4b5f-8203-bfb0d80dfb3e', 1, 'destroyed', NULL, '2026-11-25 09:43:07.38+00', 14, '\xa8324841b627306a55eb995bd88910f7b32be731514afa34f4bd29481d6bf76b', DEFAULT);
INSERT INTO public.key_versions VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 'ce35c49f-a84f-4500-8aff-a37fa17c1e6a', 1, 'retired', '\x0200000001ee2baa222547a816892b2ae24e07654ca71048add6c78a39ae3e8f0a06b9a3b57bf79b163999054d3e4393999278c5f3e678d34f9ca3c7fde13edee0', '2026-11-25 09:43:08.012+00', 4, '\x3233ca84b9f86addd7747d700dca13a233af7718f57587726a67a9b90bcee44d', DEFAULT);
INSERT INTO public.key_versions VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 'ce35c49f-a84f-4500-8aff-a37fa17c1e6a', 2, 'active', '\x020000000152bea2087a0ee0856cb587ec24551e3fa91c7af29ed468735372d0c9fda06a547f35e9b9f299ff94f108b545f13f406f4677fad89fccd0e5ef892657', '2026-11-25 09:43:08.12+00', 4, '\xa81ae426746d753427c19f4f9d39082dab7f073bdf2a763849f687f0cc5fe995', DEFAULT);
INSERT INTO public.key_versions VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', '6cbf3b49-3319-4b71-95ba-8d177e8ce9bf', 2, 'active', '\x0200000001c32b344ba243de3b12dcca3377f7d44806aa37fffb7b8e4a314bfb75f79fe9f9d6697af9a97528d79dcc7cb379e47bb70fcdf2f0d089bb11dceda3ea', '2026-11-25 09:43:08.322+00', 7, '\x3311de910e5e9e9dfb33b34bc7e1124bcbaff90874d259059056081a217671ba', DEFAULT);
INSERT INTO public.key_versions VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', '6cbf3b49-3319-4b71-95ba-8d177e8ce9bf', 1, 'destroyed', NULL, '2026-11-25 09:43:08.213+00', 9, '\x2e31d8480e2fb59d865da72c8008302ef79b8d47b16dc10e77c2294f3fe0e477', DEFAULT);
INSERT INTO public.key_versions VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 'e5d334a6-14bb-4801-92ec-487780a70d34', 1, 'active', '\x0200000001f98e70c0cb75872ffe21bab17a6b8816ce93d7e8507f39730b94f0d4a1773ee30e4bd80163800e233afcf430683149ea7c03b18b56a3cc067b69eddd', '2026-11-25 09:43:08.61+00', 10, '\x713faa295bd92bd01977ea40b0f05b5223dbd26a499e31da5f9fb27cdb72e777', DEFAULT);
INSERT INTO public.key_versions VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', '0914f586-c390-4c6d-9312-b4d71ecabd65', 1, 'destroyed', NULL, '2026-11-25 09:43:08.696+00', 14, '\x697bcc0eb2cb9c19305d131ad4a2f1d566321abfe51f3013ee935cf9af6b8be1', DEFAULT);
INSERT INTO public.keys VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '664c7ca6-95df-40a3-af5b-465762b358f4', 'users', 'AES-256-GCM', 'active', 2, NULL, NULL, NULL, '\x0200000001834275718419fef26fed88a8fc1498b1f423dfc3ab8d9315c8b307f54a5760cb913bbbe31eb87ce2c34ea077d334732c40834872f46e85a6346511dc', '2026-11-25 09:43:06.317+00', '2026-11-25 09:43:06.703+00', 4, '\x26db6a89b1704491e98aa45912bb43a96ed01bcbddff65bbd057690cc4e6d79d', 1, DEFAULT, NULL, 0);
INSERT INTO public.keys VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '51c5fc91-ef80-4072-8584-dfa23346f853', 'closed', 'AES-256-GCM', 'active', 2, NULL, NULL, NULL, '\x02000000012d19243f340b41bd282c72d4ae464ce8472da6e0874d4fdd5168992190e55980f3b9c18bbe0e08d1cce456d36be073b4e84ba05e0f7710e46980d016', '2026-11-25 09:43:06.801+00', '2026-11-25 09:43:07.157+00', 9, '\xdf406fa39becbc9506f36f0c1cfecb0b35dc0d16267233a2f00571c41bc1a326', 2, DEFAULT, '2026-11-25 09:43:06.822+00', 1);
INSERT INTO public.keys VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '2d2c98c8-8f9d-422b-a572-b2fc4e5e345e', 'disabled', 'AES-256-GCM', 'disabled', 1, NULL, NULL, NULL, '\x02000000012bc0b674d39d3c9cbac8f40a72d5aaf08e1e952b5db2dd0ec78cd1e47cbf7df2ba8e9757523b46ce41c7abbfc9695ab32c4420ba50d4c45ee9bff480', '2026-11-25 09:43:07.296+00', '2026-11-25 09:43:07.336+00', 11, '\x1c44fd07b25bd7fdd77c2853ea0f42c4dd44cbbef611ed5ba78c65ee3dc19764', 1, DEFAULT, NULL, 0);
INSERT INTO public.keys VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', '98d0dbdd-3815-4b5f-8203-bfb0d80dfb3e', 'destroyed', 'AES-256-GCM', 'destroyed', 1, NULL, NULL, NULL, NULL, '2026-11-25 09:43:07.38+00', '2026-11-25 09:43:07.459+00', 14, '\xd960ee29abb9883340ca1ed3b6d0c1a4ef6af5305414e53eb43af54fe2cf11dc', 1, DEFAULT, NULL, 0);
INSERT INTO public.keys VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 'ce35c49f-a84f-4500-8aff-a37fa17c1e6a', 'users', 'AES-256-GCM', 'active', 2, NULL, NULL, NULL, '\x02000000011a81b9ecd15d1251cf8fefb1aa9d90ae1837dfbf01cd966ea3bf6aa89f5a12046d33f84af7563e5eba97236767892bb0e41b7ebd4442305afbcc6d26', '2026-11-25 09:43:08.012+00', '2026-11-25 09:43:08.12+00', 4, '\x173b62201ba142452dc126918bc84da218c0623e4656a3a8685c721107cb7105', 1, DEFAULT, NULL, 0);
INSERT INTO public.keys VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', '6cbf3b49-3319-4b71-95ba-8d177e8ce9bf', 'closed', 'AES-256-GCM', 'active', 2, NULL, NULL, NULL, '\x02000000012e488ba358ef00373339e7f65c88722a0863cf48f1d2b781838af5e2e2ed42f12dc0431ac1bcfba5cf5f59aa833e03c12e87e176c4c885892674a675', '2026-11-25 09:43:08.213+00', '2026-11-25 09:43:08.433+00', 9, '\x0508e64e961cf43ba6780993599e3b1117532787bac06ce63ab70949043ed5c7', 2, DEFAULT, '2026-11-25 09:43:08.389+00', 1);
INSERT INTO public.keys VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 'e5d334a6-14bb-4801-92ec-487780a70d34', 'disabled', 'AES-256-GCM', 'disabled', 1, NULL, NULL, NULL, '\x0200000001a20cf435fa884d266a1b9604c5c648ef69b4d68a9bbd3cfdde7d8e3cc9d38ca3901b4f67cca85c4cf1261836cec4d8a3ba7b98359b1ee3ecef6f1b27', '2026-11-25 09:43:08.61+00', '2026-11-25 09:43:08.636+00', 11, '\x5dfe7914585b6130e6994600d58f35fcfb10bed4cb3f3c2fbf7847412fe1eb65', 1, DEFAULT, NULL, 0);
INSERT INTO public.keys VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', '0914f586-c390-4c6d-9312-b4d71ecabd65', 'destroyed', 'AES-256-GCM', 'destroyed', 1, NULL, NULL, NULL, NULL, '2026-11-25 09:43:08.696+00', '2026-11-25 09:43:08.948+00', 14, '\x1abc90e090fab2babb83a457e9765f3e35dbcc62029eac5342a43c8217083540', 1, DEFAULT, NULL, 0);
INSERT INTO public.schema_version VALUES (1, 24);
INSERT INTO public.store_keys VALUES (1, '\x01b777a0c746fb303e79162c69634559e85b9aff4069fd0ce9db4032e85566fb3710c73992c641909748f2ad66b336a480cb4ce3cfb524fa3732cab1c130ddc2b7', '2026-11-25 09:43:05.084+00', NULL);
INSERT INTO public.tenants VALUES ('544db39e-b1f0-4f98-ab1d-1e87b2bd93ab', 'acme', true, NULL, '\x02000000017973ca05d8e0279177d5ca5df11775166cc55131f9f735c1fe6c5eefa6023d9b3c2715713402cc0e909461c39f7c896ca419bc861adfcb80f99f28f2', '2026-11-25 09:43:06.01+00', 1, '\x49a1636f42c4e62558be3122c95b81246778744e9b98109d35deeb74c203d9de', 'utf8', 'active', DEFAULT);
INSERT INTO public.tenants VALUES ('64ead332-e115-4d9c-a9b9-690bc7dbe0be', 'globex', false, NULL, '\x02000000013713f14a7d74bc9a980596dcdb54b781b7ea0c35ed67d4e005b9a4eef5bb706e6cfcaeee40b22e58d35ba8fec7199e4b60769d771caf0bdc5d8788b9', '2026-11-25 09:43:07.906+00', 1, '\x2cbe9b130a78b3121d790684d4f132961c6a642534c3583dd06b66826687acca', 'utf8', 'active', DEFAULT);
ALTER TABLE ONLY public.anchored_heads
    ADD CONSTRAINT anchored_heads_pkey PRIMARY KEY (tenant_id);
ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (tenant_id, api_key_id);
ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_tenant_id_digest_key UNIQUE (tenant_id, digest);
ALTER TABLE ONLY public.audit_counts
    ADD CONSTRAINT audit_counts_pkey PRIMARY KEY (tenant_id, day, action, key_id, key_version, api_key_id);
ALTER TABLE ONLY public.audit_log
    ADD CONSTRAINT audit_log_pkey PRIMARY KEY (tenant_id, id);
ALTER TABLE ONLY public.budget_uses
    ADD CONSTRAINT budget_uses_pkey PRIMARY KEY (tenant_id, api_key_id, kind);
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
CREATE INDEX api_keys_usable ON public.api_keys USING btree (tenant_id, expires_at) WHERE (revoked_at IS NULL);
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
