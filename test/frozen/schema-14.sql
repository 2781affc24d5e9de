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
    mac bytea NOT NULL
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
INSERT INTO public.anchored_heads VALUES ('c46f5ee8-98aa-464b-aef4-83d13aa48203', 1, '\x5fc264af024fa44464ea966fde2561e5d43c1ee668db7551bfd1fe403832fde0', 1, '2026-11-24 06:17:11.415+00', '\x8d56019fc5e875ded2300b057b7b994ef096b7add45edfda3dc366d967aef2a1');
INSERT INTO public.anchored_heads VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', 12, '\xb8639dd83aa8fb77e131499e3bd463a8b0852f51094f9e046bddbf5b2d5d4c29', 9, '2026-11-24 06:17:12.292+00', '\xfb7e84fcdcc5cd25f20ef44743ace987f09fd2a475b1539d69adc01798a0aafd');
INSERT INTO public.anchored_heads VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', 13, '\xe91ba7390d6111986398895219cf2fcf476a3e6b5c1e0a679f1959b8940b42c0', 9, '2026-11-24 06:17:12.383+00', '\x329fe9dd6dd1d5d589d20bf909c938b3ea676c3e560069b89e72794503bec8c7');
INSERT INTO public.api_keys VALUES ('c46f5ee8-98aa-464b-aef4-83d13aa48203', 'b514bcd1-7caa-4ffa-aea2-67fd730918ab', '079410784574669b5b70d0875f251a6c9a78f3d5fae8c45dd775eca62df27341', 'first key', 'eaas_sk_c46f5ee898aa464baef483d13aa48203_d1bJ', '{encrypt,decrypt,hash,keys:read,keys:create,keys:rotate,keys:disable,keys:destroy,keys:export,audit:read,audit:on_behalf_of,api_keys:read,api_keys:manage}', '{}', NULL, NULL, '2026-11-24 06:17:11.415+00', 1, '\xddce06ebf169f88cf2297a03b087391af218918ca1e5561ef2c71a310b865c30', NULL);
INSERT INTO public.api_keys VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', 'ba11f489-398f-4ad6-a213-2e0ba201285e', 'f02254bc208a6325279624486b2c80550465ce4792bc91004e4430a79a21f107', 'first key', 'eaas_sk_6cc7e4f109d242a2bccc0967e119495c_BejE', '{encrypt,decrypt,hash,keys:read,keys:create,keys:rotate,keys:disable,keys:destroy,keys:export,audit:read,audit:on_behalf_of,api_keys:read,api_keys:manage}', '{}', NULL, NULL, '2026-11-24 06:17:11.858+00', 1, '\x6d54f192721d0f6ed3e99efdbceff6d18d5dde2f9ccc6a44d07208971bf46aef', '2026-11-24 06:17:37.4+00');
INSERT INTO public.api_keys VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', '07112f29-0b29-4e86-bb52-891aa99deb3a', '37d65451a148521b062dac9ca75ecc7f77a41209e957278dea479ef101012006', 'first key', 'eaas_sk_493819f746d74930818028e5cfcd5130_aYYi', '{encrypt,decrypt,hash,keys:read,keys:create,keys:rotate,keys:disable,keys:destroy,keys:export,audit:read,audit:on_behalf_of,api_keys:read,api_keys:manage}', '{}', NULL, NULL, '2026-11-24 06:17:12.163+00', 1, '\xacaba774ac1170deb92cd6f7128192cd36dc2d88e6218c70cf3e78ba9eeb3d16', '2026-11-24 06:17:37.407+00');
INSERT INTO public.audit_counts VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', '2026-11-24', 'installation.create', '00000000-0000-0000-0000-000000000000', 1, 0);
INSERT INTO public.audit_counts VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', '2026-11-24', 'installation.start', '00000000-0000-0000-0000-000000000000', 1, 0);
INSERT INTO public.audit_counts VALUES ('c46f5ee8-98aa-464b-aef4-83d13aa48203', '2026-11-24', 'api_key.create', '00000000-0000-0000-0000-000000000000', 1, 0);
INSERT INTO public.audit_counts VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', '2026-11-24', 'api_key.create', '00000000-0000-0000-0000-000000000000', 1, 0);
INSERT INTO public.audit_counts VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', '2026-11-24', 'api_key.create', '00000000-0000-0000-0000-000000000000', 1, 0);
INSERT INTO public.audit_counts VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', '2026-11-24', 'installation.tenant_create', '00000000-0000-0000-0000-000000000000', 3, 0);
INSERT INTO public.audit_counts VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', '2026-11-24', 'key.create', 'd4117a67-8667-482a-8c44-c3f5c614f274', 1, 0);
INSERT INTO public.audit_counts VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', '2026-11-24', 'key.rotate', 'd4117a67-8667-482a-8c44-c3f5c614f274', 1, 0);
INSERT INTO public.audit_counts VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', '2026-11-24', 'key.wrap', 'd4117a67-8667-482a-8c44-c3f5c614f274', 3, 0);
INSERT INTO public.audit_counts VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', '2026-11-24', 'key.create', '914222d0-9f3b-4c41-9de4-320e70624538', 1, 0);
INSERT INTO public.audit_counts VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', '2026-11-24', 'key.disable', '914222d0-9f3b-4c41-9de4-320e70624538', 1, 0);
INSERT INTO public.audit_counts VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', '2026-11-24', 'key.create', '5963fc13-24d0-409d-8a7c-fe4186c13488', 1, 0);
INSERT INTO public.audit_counts VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', '2026-11-24', 'key.rotate', '5963fc13-24d0-409d-8a7c-fe4186c13488', 1, 0);
INSERT INTO public.audit_counts VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', '2026-11-24', 'key.disable', '5963fc13-24d0-409d-8a7c-fe4186c13488', 1, 0);
INSERT INTO public.audit_counts VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', '2026-11-24', 'key.destroy', '5963fc13-24d0-409d-8a7c-fe4186c13488', 1, 0);
INSERT INTO public.audit_counts VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', '2026-11-24', 'key.create', 'fd9fe561-9248-4404-883d-a93c3eb9b212', 1, 0);
INSERT INTO public.audit_counts VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', '2026-11-24', 'key.rotate', 'fd9fe561-9248-4404-883d-a93c3eb9b212', 1, 0);
INSERT INTO public.audit_counts VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', '2026-11-24', 'key.wrap', 'fd9fe561-9248-4404-883d-a93c3eb9b212', 3, 0);
INSERT INTO public.audit_counts VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', '2026-11-24', 'key.create', '129820ab-38f6-4400-a9a8-c706e28960a5', 1, 0);
INSERT INTO public.audit_counts VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', '2026-11-24', 'key.disable', '129820ab-38f6-4400-a9a8-c706e28960a5', 1, 0);
INSERT INTO public.audit_counts VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', '2026-11-24', 'key.create', 'c079f4a6-cc7e-4f39-95dd-c96bf637cc43', 1, 0);
INSERT INTO public.audit_counts VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', '2026-11-24', 'key.rotate', 'c079f4a6-cc7e-4f39-95dd-c96bf637cc43', 1, 0);
INSERT INTO public.audit_counts VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', '2026-11-24', 'key.disable', 'c079f4a6-cc7e-4f39-95dd-c96bf637cc43', 1, 0);
INSERT INTO public.audit_counts VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', '2026-11-24', 'key.destroy', 'c079f4a6-cc7e-4f39-95dd-c96bf637cc43', 1, 0);
INSERT INTO public.audit_counts VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', '2026-11-24', 'encrypt', 'fd9fe561-9248-4404-883d-a93c3eb9b212', 1, 0);
INSERT INTO public.audit_counts VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', '2026-11-24', 'installation.stop', '00000000-0000-0000-0000-000000000000', 1, 0);
INSERT INTO public.audit_counts VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', '2026-11-24', 'installation.anchor', '00000000-0000-0000-0000-000000000000', 2, 0);
INSERT INTO public.audit_log VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', 1, 'installation.create', NULL, NULL, 'system', NULL, '{"version":"0.0.0"}', '2026-11-24 06:17:11.299+00', '\x754acca6750c30a16b8d77651579c6241b2e8892738dd98921a67e0951e1804f', '\xa24e257d91014595ccabd629f63bd03f053194e97023a1a54e869c011ccb2116');
INSERT INTO public.audit_log VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', 2, 'installation.start', NULL, NULL, 'system', NULL, '{"configuration":"d3c313934eb89b1f601c0f16dce16ef5fe53740444fcba90ced45d8e3f84c1ab","host":"vm","version":"0.0.0"}', '2026-11-24 06:17:11.385+00', '\x2c52c5d219850e03fd442aebc550cee000e781cefebd82c92d2dac406c9e5890', '\x3419c106fc3f21c980b64a5cccc919eb91826cd1f84bb891cef1ed1cc2ca7a4b');
INSERT INTO public.audit_log VALUES ('c46f5ee8-98aa-464b-aef4-83d13aa48203', 1, 'api_key.create', NULL, NULL, 'system', NULL, '{"allowed_ips":null,"api_key_id":"b514bcd1-7caa-4ffa-aea2-67fd730918ab","envelope_only":true,"expires_at":null,"permissions":"api_keys:manage api_keys:read audit:on_behalf_of audit:read decrypt encrypt hash keys:create keys:destroy keys:disable keys:export keys:read keys:rotate"}', '2026-11-24 06:17:11.415+00', '\x5fc264af024fa44464ea966fde2561e5d43c1ee668db7551bfd1fe403832fde0', '\xdd01cd52905ee87a843c52f57f8bc8d87500cc3903e9cd9e445861a7885b5099');
INSERT INTO public.audit_log VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', 3, 'installation.tenant_create', NULL, NULL, 'system', NULL, '{"envelope_only":true,"name":"default","tenant_id":"c46f5ee8-98aa-464b-aef4-83d13aa48203"}', '2026-11-24 06:17:11.426+00', '\xe97710eb10e16cc8e5fd366e7e1190c2fa4f4530266ce2bd763aac39e0d3e04f', '\x09a9b195b734b37ed3de56f69befc6bec0eea62733854b79079e61894124c55e');
INSERT INTO public.audit_log VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', 4, 'installation.anchor', NULL, NULL, 'system', NULL, '{"root":"cf579c91d8770c02cdd254a71fe04c644d474baa09450a5e579dc2a11f949b06","tenants":1}', '2026-11-24 06:17:11.465+00', '\xb07e009ee509f5cf1a1452fa1b067e59ba03ee848b6ca3936996edb2b159d70d', '\xe1f79f6de36c283e54bf9cd5f42d4c37b80f24c69227ade763495b7aac8f531f');
INSERT INTO public.audit_log VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', 1, 'api_key.create', NULL, NULL, 'operator:root@vm', NULL, '{"allowed_ips":null,"api_key_id":"ba11f489-398f-4ad6-a213-2e0ba201285e","envelope_only":true,"expires_at":null,"permissions":"api_keys:manage api_keys:read audit:on_behalf_of audit:read decrypt encrypt hash keys:create keys:destroy keys:disable keys:export keys:read keys:rotate"}', '2026-11-24 06:17:11.858+00', '\x45cfe14e4763c06ab044021bf9f8bfea687d92eaf46424ac588a0d54b96536e4', '\xbb53b6ad0fd895a5626e3d49a55a3a97d1a5fd756f3360511a56ff635d1bc22b');
INSERT INTO public.audit_log VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', 5, 'installation.tenant_create', NULL, NULL, 'operator:root@vm', NULL, '{"envelope_only":true,"name":"acme","tenant_id":"6cc7e4f1-09d2-42a2-bccc-0967e119495c"}', '2026-11-24 06:17:11.867+00', '\xe33f7eceda313745ffdb868f859a420c573578bf24eb6678dd14f9c38e380819', '\xdbc14132199c6ada784161b7417cc1340a5b05e656d9efb2004bf22ad7c3fb11');
INSERT INTO public.audit_log VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', 1, 'api_key.create', NULL, NULL, 'operator:root@vm', NULL, '{"allowed_ips":null,"api_key_id":"07112f29-0b29-4e86-bb52-891aa99deb3a","envelope_only":false,"expires_at":null,"permissions":"api_keys:manage api_keys:read audit:on_behalf_of audit:read decrypt encrypt hash keys:create keys:destroy keys:disable keys:export keys:read keys:rotate"}', '2026-11-24 06:17:12.163+00', '\x7aec9d196957bf2404b5a97b2c4e4b6dfb968d7dd3adce44bed5d3012f0ee4a7', '\xd7b76c15df3f02498a0aa5c1c7d36362ad82e930239f567a27cbf95735772065');
INSERT INTO public.audit_log VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', 6, 'installation.tenant_create', NULL, NULL, 'operator:root@vm', NULL, '{"envelope_only":false,"name":"globex","tenant_id":"493819f7-46d7-4930-8180-28e5cfcd5130"}', '2026-11-24 06:17:12.17+00', '\xf7210ec7c91885ab2cdbe7e7dc26fbe688f112a05148fb73f6f20077916eac88', '\xa79fa1d9d7b4d05db89c8dea81c3fb7aad8a9e12a137ec322c26c4e86dce1333');
INSERT INTO public.audit_log VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', 2, 'key.create', 'd4117a67-8667-482a-8c44-c3f5c614f274', 1, 'ba11f489-398f-4ad6-a213-2e0ba201285e', '127.0.0.1', NULL, '2026-11-24 06:17:12.207+00', '\x3d35bc0573b72608735968c985ebbee52210093ac591e6a116fce26a96ac541e', '\x357ccb6ac3d158eae25431e513bb76731a8356c8ffeee28ca396fcba519e4ccd');
INSERT INTO public.audit_log VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', 3, 'key.wrap', 'd4117a67-8667-482a-8c44-c3f5c614f274', 1, 'ba11f489-398f-4ad6-a213-2e0ba201285e', '127.0.0.1', NULL, '2026-11-24 06:17:12.222+00', '\x5996959e66f24fddac50b46f6d4e7b115cf2d54f395fc005f2c22b041bdabe42', '\x80d585645e905d6de2b7b49b6c4f4e64674a8f11e2eb8fd0342fcc9edc0e8f0a');
INSERT INTO public.audit_log VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', 4, 'key.wrap', 'd4117a67-8667-482a-8c44-c3f5c614f274', 1, 'ba11f489-398f-4ad6-a213-2e0ba201285e', '127.0.0.1', NULL, '2026-11-24 06:17:12.227+00', '\xaab62364e4fa705885177ce730fefbc8a98bce637ac4750423355305c821ee4f', '\x19c863ef0c249fbbab0b211c711cf631946864733037ee21b8bb58970fccc756');
INSERT INTO public.audit_log VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', 5, 'key.rotate', 'd4117a67-8667-482a-8c44-c3f5c614f274', 2, 'ba11f489-398f-4ad6-a213-2e0ba201285e', '127.0.0.1', '{"replaces":2}', '2026-11-24 06:17:12.235+00', '\xb7d01f8cc1d1adaec7f73709735365f6267d35bf41734227b3bea5276f8cf873', '\x44abbc4b0ffd56f81acd0e4b9e1a789796aa0339eda25aa0b3deb89e7308f9d4');
INSERT INTO public.audit_log VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', 6, 'key.wrap', 'd4117a67-8667-482a-8c44-c3f5c614f274', 2, 'ba11f489-398f-4ad6-a213-2e0ba201285e', '127.0.0.1', NULL, '2026-11-24 06:17:12.242+00', '\xeb5dc1a7820f1860bbd999c0d99aa99f4d16847cc2f3b99ed2ffcea895f981fe', '\x5a2a46e6cce014e77a97a83d42f939f0f79ecf21678558c614c75386ca3b9abe');
INSERT INTO public.audit_log VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', 7, 'key.create', '914222d0-9f3b-4c41-9de4-320e70624538', 1, 'ba11f489-398f-4ad6-a213-2e0ba201285e', '127.0.0.1', NULL, '2026-11-24 06:17:12.254+00', '\x0f16d591dd36aa9f3da7090d0dc2d8a0cd985d793e5518bd1e477d528894d6cf', '\x01c850233c498b814be23158ad7f9d8840f285e362418df0c363dacaf8a24dc8');
INSERT INTO public.audit_log VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', 8, 'key.disable', '914222d0-9f3b-4c41-9de4-320e70624538', 1, 'ba11f489-398f-4ad6-a213-2e0ba201285e', '127.0.0.1', '{"replaces":7}', '2026-11-24 06:17:12.263+00', '\x6289b03e7d146d6a416f81723ebee77b908e702702cfca6d4522656e4c9ab92a', '\x59a00d80328a3e56be2a88a9ca6986093f44596966273415b496b05336783389');
INSERT INTO public.audit_log VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', 9, 'key.create', '5963fc13-24d0-409d-8a7c-fe4186c13488', 1, 'ba11f489-398f-4ad6-a213-2e0ba201285e', '127.0.0.1', NULL, '2026-11-24 06:17:12.271+00', '\x661e3964b14d56915374953dd28b0ce9c08f41578b862f7556d15ce4889f32b3', '\xc859025d6e523e3bfdcc7e91412fecdc7520dff8bb8a24d8b119ac2b0761e724');
INSERT INTO public.audit_log VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', 10, 'key.rotate', '5963fc13-24d0-409d-8a7c-fe4186c13488', 2, 'ba11f489-398f-4ad6-a213-2e0ba201285e', '127.0.0.1', '{"replaces":9}', '2026-11-24 06:17:12.277+00', '\x1d6cdff7949aab72c7f598decb91fe3dca2c25f0f2ecc8953c71aa14cdbaacb1', '\x754a393bb8103ba252f8609e45a0a2265ccfd37ad3bc8a34b44f0998fb8b1fcd');
INSERT INTO public.audit_log VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', 11, 'key.disable', '5963fc13-24d0-409d-8a7c-fe4186c13488', 2, 'ba11f489-398f-4ad6-a213-2e0ba201285e', '127.0.0.1', '{"replaces":10}', '2026-11-24 06:17:12.285+00', '\x97c6972ee03759ad94a39d323476ec7bef43d386e18425ce679651b852c6ddc7', '\x57eda5287b40e5cb905778c1967d0a81265126f120be22ce91831d8dce69c808');
INSERT INTO public.audit_log VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', 12, 'key.destroy', '5963fc13-24d0-409d-8a7c-fe4186c13488', 2, 'ba11f489-398f-4ad6-a213-2e0ba201285e', '127.0.0.1', '{"replaces":11,"step":"completed","versions":2}', '2026-11-24 06:17:12.292+00', '\xb8639dd83aa8fb77e131499e3bd463a8b0852f51094f9e046bddbf5b2d5d4c29', '\x6312858236e8a224dfe92e543478ab9ef2cacc77e0ad50f7c628fd829423c338');
INSERT INTO public.audit_log VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', 2, 'key.create', 'fd9fe561-9248-4404-883d-a93c3eb9b212', 1, '07112f29-0b29-4e86-bb52-891aa99deb3a', '127.0.0.1', NULL, '2026-11-24 06:17:12.305+00', '\x883726568d85d298b4e153ad5ff44bce8270916bb21df652f620e786d6f37362', '\xdeb87c7905bf73d601644274ae5041f0fa716fb184e2e0fa2ed6808989510ab9');
INSERT INTO public.audit_log VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', 3, 'key.wrap', 'fd9fe561-9248-4404-883d-a93c3eb9b212', 1, '07112f29-0b29-4e86-bb52-891aa99deb3a', '127.0.0.1', NULL, '2026-11-24 06:17:12.314+00', '\x5cae40b52d081797db4ad0eab833039e7476a46420e653c03e456e9ee3d99f9d', '\xd848d7e21f2c0c7fdd29c99082434d2c30f15a0616598077ba912e4df08e8e31');
INSERT INTO public.audit_log VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', 4, 'key.wrap', 'fd9fe561-9248-4404-883d-a93c3eb9b212', 1, '07112f29-0b29-4e86-bb52-891aa99deb3a', '127.0.0.1', NULL, '2026-11-24 06:17:12.319+00', '\xa6c904bd61f22c3652147686e61fef687c374dc17a0058c986deeb113367414c', '\x31131b7e687c6dd292c7f5d73ca709f6df22edf5e26b8cb045797b071d868cc9');
INSERT INTO public.audit_log VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', 5, 'key.rotate', 'fd9fe561-9248-4404-883d-a93c3eb9b212', 2, '07112f29-0b29-4e86-bb52-891aa99deb3a', '127.0.0.1', '{"replaces":2}', '2026-11-24 06:17:12.323+00', '\xeffa1fad820598257e870ffd05cafbe41f37e621a2ea3fdc390f661a717a763f', '\xb4faf46e5ed26b447cea8cd233dc2f35fe41b054534529935f9f47f20db88b77');
INSERT INTO public.audit_log VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', 6, 'key.wrap', 'fd9fe561-9248-4404-883d-a93c3eb9b212', 2, '07112f29-0b29-4e86-bb52-891aa99deb3a', '127.0.0.1', NULL, '2026-11-24 06:17:12.33+00', '\x1175a9f4ebf7b6d4e73a1219e38d6bfe42c3b1c28a91c9c0906d263706075de5', '\x135594dd4da680889a782b968af3e5a8e969062547b205966ab5d9fec894b536');
INSERT INTO public.audit_log VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', 7, 'key.create', '129820ab-38f6-4400-a9a8-c706e28960a5', 1, '07112f29-0b29-4e86-bb52-891aa99deb3a', '127.0.0.1', NULL, '2026-11-24 06:17:12.338+00', '\xdd9c39f7c4df25d0a3ae1f9c030953f18a55fa465f02ce92c313da51293de0cb', '\xceda95bac97e060a7c188ac82fab231ffaab02dbfb96091ff62b7a4fcd35261c');
INSERT INTO public.audit_log VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', 8, 'key.disable', '129820ab-38f6-4400-a9a8-c706e28960a5', 1, '07112f29-0b29-4e86-bb52-891aa99deb3a', '127.0.0.1', '{"replaces":7}', '2026-11-24 06:17:12.346+00', '\x652a044c6897d17fece664ea18f8640e0ff0f841e3ae673075183e8edccd8887', '\x6fa45efee18955433670cadcadbf94c2ab3cd19f4013c662558a35a5520ea30a');
INSERT INTO public.audit_log VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', 9, 'key.create', 'c079f4a6-cc7e-4f39-95dd-c96bf637cc43', 1, '07112f29-0b29-4e86-bb52-891aa99deb3a', '127.0.0.1', NULL, '2026-11-24 06:17:12.353+00', '\x76f2bb995325d1ad5f9e7a1c52e884d73b85cdc6f9c2b8a5f662f147b1994ebf', '\xab7e5cc797dc5e0743bc3132d2e60ab1182d61b7b5986ee81c5f2413a8b3f95b');
INSERT INTO public.audit_log VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', 10, 'key.rotate', 'c079f4a6-cc7e-4f39-95dd-c96bf637cc43', 2, '07112f29-0b29-4e86-bb52-891aa99deb3a', '127.0.0.1', '{"replaces":9}', '2026-11-24 06:17:12.358+00', '\x24f05de9d186b879e39e708561e9fbfad6981da0960dfa1cd3e74e673bf939de', '\xf6d379da00b75d434c37010def6f86204f6fa48ef1e73c696e38f1f530a8810b');
INSERT INTO public.audit_log VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', 11, 'key.disable', 'c079f4a6-cc7e-4f39-95dd-c96bf637cc43', 2, '07112f29-0b29-4e86-bb52-891aa99deb3a', '127.0.0.1', '{"replaces":10}', '2026-11-24 06:17:12.363+00', '\xe2395395773998d4cc197208c19e3e7f90cc430eacd94436e242cb734e564960', '\x3e86d94d040055e5f71e17b3f15ab298820453ba98a1aba1559b5376848eac59');
INSERT INTO public.audit_log VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', 12, 'key.destroy', 'c079f4a6-cc7e-4f39-95dd-c96bf637cc43', 2, '07112f29-0b29-4e86-bb52-891aa99deb3a', '127.0.0.1', '{"replaces":11,"step":"completed","versions":2}', '2026-11-24 06:17:12.37+00', '\x54d3c7a1606e4885169f6aef9557458b2683087b4f09579cd32b544b1ecfc318', '\x7f29864c0e1b88ab89d0dfc12f1b752d04e29f6882f8aeffc599deb7b83e4e28');
INSERT INTO public.audit_log VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', 13, 'encrypt', 'fd9fe561-9248-4404-883d-a93c3eb9b212', 2, '07112f29-0b29-4e86-bb52-891aa99deb3a', '127.0.0.1', NULL, '2026-11-24 06:17:12.383+00', '\xe91ba7390d6111986398895219cf2fcf476a3e6b5c1e0a679f1959b8940b42c0', '\x4e65652de3717e38a8be8f46398c26b5b40619903bfec6f6f61d3a812b0b1dea');
INSERT INTO public.audit_log VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', 7, 'installation.stop', NULL, NULL, 'system', NULL, '{"configuration":"d3c313934eb89b1f601c0f16dce16ef5fe53740444fcba90ced45d8e3f84c1ab","host":"vm","version":"0.0.0"}', '2026-11-24 06:17:37.921+00', '\x67c2c2b68bee318363ecb238b0fe34b9f6132e554ad0ae6c05f053162a390581', '\xeb08aad5cb40ce12d2e691245a598456732e3b1dbb25d18b71f9af0e81117137');
INSERT INTO public.audit_log VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', 8, 'installation.anchor', NULL, NULL, 'system', NULL, '{"root":"c16a7d8335d386b81dd2a60c7a84350cbc9a4e5bed371ee67916a0e034828ed2","tenants":3}', '2026-11-24 06:17:37.946+00', '\xbb0d6c7a2cf7be4d34ef1e40849a07b9f96eb231594c04dcdac875a269bc1b84', '\x95aef3cd7f1bdfa7b67334f7c11138a40df6ec5ee2b758b06d2686cfb1dda4c8');
INSERT INTO public.heads VALUES ('c46f5ee8-98aa-464b-aef4-83d13aa48203', 1, '\x5fc264af024fa44464ea966fde2561e5d43c1ee668db7551bfd1fe403832fde0', 1, '2026-11-24 06:17:11.415+00', '\x8d56019fc5e875ded2300b057b7b994ef096b7add45edfda3dc366d967aef2a1');
INSERT INTO public.heads VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', 12, '\xb8639dd83aa8fb77e131499e3bd463a8b0852f51094f9e046bddbf5b2d5d4c29', 9, '2026-11-24 06:17:12.292+00', '\xfb7e84fcdcc5cd25f20ef44743ace987f09fd2a475b1539d69adc01798a0aafd');
INSERT INTO public.heads VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', 13, '\xe91ba7390d6111986398895219cf2fcf476a3e6b5c1e0a679f1959b8940b42c0', 9, '2026-11-24 06:17:12.383+00', '\x329fe9dd6dd1d5d589d20bf909c938b3ea676c3e560069b89e72794503bec8c7');
INSERT INTO public.heads VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', 8, '\xbb0d6c7a2cf7be4d34ef1e40849a07b9f96eb231594c04dcdac875a269bc1b84', 1, '2026-11-24 06:17:37.946+00', '\xffbfd17089136d639d2811b3aea6bf9e73703036bb1fe57db79878abd95d94da');
INSERT INTO public.instance VALUES (1, '\x01e936d0a917d76503d0d896ef4b725d41e3269c71081ae80dde35fe7472489f45355f1cb5d799ec6d5099f65700eb0d1b9dbe65b18309333a608d5298', '\x01260a4e42da59cbcfd51322c60713536c91dbeb1c9b17d775d5ac9f8b0d662b20d9b1e839262022b1f63cf74d96ddc021e2717387b10fa8dcf7261ec1', '2026-11-24 06:17:11.28+00', '\x01f713aecbd46dc67fac4cc1f93b99473c613958d7cc666b917577c47ca0cf5d6f32974efcc3419027382090300e8e6c4a75d6eb4560c7e822eabfca79');
INSERT INTO public.key_versions VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', 'd4117a67-8667-482a-8c44-c3f5c614f274', 1, 'retired', '\x0185abc9024cff4047e14b1231ebf6c2ec51da47540c6c95e57e62f30cfe8ec3b894b364a17680c99040f9197770fc4041df4229a1312f9a8064a2e055', '2026-11-24 06:17:12.207+00', 5, '\x93fde244f6460ee005a287765e0c79990f6999f7ff2d5c92e05a050c13c175e0');
INSERT INTO public.key_versions VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', 'd4117a67-8667-482a-8c44-c3f5c614f274', 2, 'active', '\x018b6c6bdf2ae5a8f596cd7515a7d59bdcf46e0229d05ebbdb92eb7b7bb100f268f87318c8603c4a0744098fe4efbc17ccda1631fe3e3bbf5c67480c62', '2026-11-24 06:17:12.235+00', 5, '\x097b0301a4f3662c8bf31a117fa229eff73e01d787228b402fbe427129eca862');
INSERT INTO public.key_versions VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', '914222d0-9f3b-4c41-9de4-320e70624538', 1, 'active', '\x01502f964f12c66c6e278456d2d2619d73a2e1448e9fd29372e98098dc15596d0935127ca865d6b14dce7fea4e37c26d961cc1d174249ce2bb972eafaf', '2026-11-24 06:17:12.254+00', 7, '\xc9705e7d5e604153f9b0a2a66da0a997092b4594a6fed83e018d5563fb834c71');
INSERT INTO public.key_versions VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', '5963fc13-24d0-409d-8a7c-fe4186c13488', 1, 'destroyed', NULL, '2026-11-24 06:17:12.271+00', 12, '\xfd63e5f32d5f929b7ad01d524f19390ea00409796f1aa9095edf8d55d4a2048c');
INSERT INTO public.key_versions VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', '5963fc13-24d0-409d-8a7c-fe4186c13488', 2, 'destroyed', NULL, '2026-11-24 06:17:12.277+00', 12, '\x95d5c2a28ef77f6bd43b4fb5609f7817f6b8b29b8808103e490e4204fd326910');
INSERT INTO public.key_versions VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', 'fd9fe561-9248-4404-883d-a93c3eb9b212', 1, 'retired', '\x013fcf7f27c662e3acab9d9b7d6af6a4b250b68992ce344c2dd7e74d366dd6f1579c60783c5342c1aa3d52180deea027436dffe11e4d75aa6d99185943', '2026-11-24 06:17:12.305+00', 5, '\x9a6072883ba52426a6aec96c42094f9467e0bc11cd3d96fe362b384dda4ef124');
INSERT INTO public.key_versions VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', 'fd9fe561-9248-4404-883d-a93c3eb9b212', 2, 'active', '\x015b93a55787856ac51429995411bb609155a92e20c44e4f91d1eebd9e64f8db6fa1bf96d5207920b42f155782981e577938e3c4f77a911647147ff5d0', '2026-11-24 06:17:12.323+00', 5, '\x21c6ae64692db99e08139c61b73d6d9a59eaf531fc82d4a9ea3feab4acef1e9e');
INSERT INTO public.key_versions VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', '129820ab-38f6-4400-a9a8-c706e28960a5', 1, 'active', '\x01c8d98ee7aa3654e5a4db8605d26b16988969f30c63aeb7726601e58e59eb53eb00c7204df3433eeb9eac0fbd7bdb1d008f8e4cf135970f2fe87e6b7d', '2026-11-24 06:17:12.338+00', 7, '\xc2f68e2fe2964913fd0a5173a7bbd0188415161197e52049ec76b74891586200');
INSERT INTO public.key_versions VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', 'c079f4a6-cc7e-4f39-95dd-c96bf637cc43', 1, 'destroyed', NULL, '2026-11-24 06:17:12.353+00', 12, '\xc7b85b54e1dd4153d0dadaf2ea94589cc134234783b813e62ee121dbf444c776');
INSERT INTO public.key_versions VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', 'c079f4a6-cc7e-4f39-95dd-c96bf637cc43', 2, 'destroyed', NULL, '2026-11-24 06:17:12.358+00', 12, '\x0847da21669c78d7b7900484f1d680dfea825ee700862aafa06448efc54e9a14');
INSERT INTO public.keys VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', 'd4117a67-8667-482a-8c44-c3f5c614f274', 'users', 'AES-256-GCM', 'active', 2, NULL, NULL, NULL, '\x01d573dcd109489a1ae9ae7f54bd2e9926fc1747887a1f1526ed407393da6ab2e3c763cc8e0604fb8388c27d935603a919132b5e3eb56ffc935148c5c5', '2026-11-24 06:17:12.207+00', '2026-11-24 06:17:12.235+00', 5, '\xa971f6db5c105bff20f5bdb031003d930638afe43bb60aac1dadfd3967b0da07');
INSERT INTO public.keys VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', '914222d0-9f3b-4c41-9de4-320e70624538', 'disabled', 'AES-256-GCM', 'disabled', 1, NULL, NULL, NULL, '\x01337576dac0c75f1a08d280712b17b555c45a333ce8d15669b9b3f0c52e8a409e6e804a25db4246187f24e54a5afe2b7744a968daf24bb7b34d813b4b', '2026-11-24 06:17:12.254+00', '2026-11-24 06:17:12.263+00', 8, '\x80468b234bfc080792aa94a47ed8c2690d583190d16f42fb7c0c2ad5935e5c08');
INSERT INTO public.keys VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', '5963fc13-24d0-409d-8a7c-fe4186c13488', 'destroyed', 'AES-256-GCM', 'destroyed', 2, NULL, NULL, NULL, NULL, '2026-11-24 06:17:12.271+00', '2026-11-24 06:17:12.292+00', 12, '\xa1061d8f3ccf208b41ba20e90558b05695d15ae28732c283fe751b3e4ad1d045');
INSERT INTO public.keys VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', 'fd9fe561-9248-4404-883d-a93c3eb9b212', 'users', 'AES-256-GCM', 'active', 2, NULL, NULL, NULL, '\x013ed61b6671a06b980bb119c6db4314dd88a982d30eddb2b7b412af7a04a7c90a23318b73f713ecdd28bec3d95fbf9cf3d4d926b10116642ba8a9bed8', '2026-11-24 06:17:12.305+00', '2026-11-24 06:17:12.323+00', 5, '\x6840cd2bd57115aceb2e84a9115a4bf711a3b978086f05fb2c6fd89e5e400b37');
INSERT INTO public.keys VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', '129820ab-38f6-4400-a9a8-c706e28960a5', 'disabled', 'AES-256-GCM', 'disabled', 1, NULL, NULL, NULL, '\x019a5f9b8e2b7f3861ed45ca6d90ab818daa7156ba724d3bd8956a87940006c49469a8a854176a404274b2ea20aff842c330fe8c906cda5504d467e9c8', '2026-11-24 06:17:12.338+00', '2026-11-24 06:17:12.346+00', 8, '\x484ac7ee53373b7c5cd636de2f37b3b2c9ef29a5e2873d77b4b700ad40f5d494');
INSERT INTO public.keys VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', 'c079f4a6-cc7e-4f39-95dd-c96bf637cc43', 'destroyed', 'AES-256-GCM', 'destroyed', 2, NULL, NULL, NULL, NULL, '2026-11-24 06:17:12.353+00', '2026-11-24 06:17:12.37+00', 12, '\x116b927e4f7cd73b612c9fc928cb018fa8ce33d31a2d3c38a85d48307dcd6846');
INSERT INTO public.schema_version VALUES (1, 14);
INSERT INTO public.tenants VALUES ('c46f5ee8-98aa-464b-aef4-83d13aa48203', 'default', true, NULL, '\x01d383b1b24346801d414f9ca79c57141361a65bda83370da5e0b6e91bc07bf54dc7ff429bf30a7118905311cfd1d353ca559e40be35c1362f022a6dc6', '2026-11-24 06:17:11.415+00', 1, '\x92b183d6bbcb28b9117c7848dbf5c7edd38693294a275cf80e1254c86d56821e', 'utf8', 'active');
INSERT INTO public.tenants VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', 'acme', true, NULL, '\x01edc4e6ca8b379ac22e688a6a25c56101162c6f13ea2fc076c2acc2737fdcce4a120303566c11cad8dfdfe597afd3d5ff44289d4b317c0862e4efc1e0', '2026-11-24 06:17:11.858+00', 1, '\x8d11cc6497431d056644dbc037351dc0e7e122e4bfd0db3f590054725672eafb', 'utf8', 'active');
INSERT INTO public.tenants VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', 'globex', false, NULL, '\x0156b8e389800c77afd811f3bb02459f7c9c5349c08fe4e10e29078a8a0cb55650c2890278c6aaf4a1ed0a5c0e22ee01c09711f71e191aead14df679bd', '2026-11-24 06:17:12.163+00', 1, '\xd4f394eb927ed54bad30ead23435fce7cdb5c2dd8f0bac244ece53c451ebd1e6', 'utf8', 'active');
INSERT INTO public.unrecorded_calls VALUES ('493819f7-46d7-4930-8180-28e5cfcd5130', '2026-11-24', '07112f29-0b29-4e86-bb52-891aa99deb3a', 'hash', 1, '127.0.0.1');
INSERT INTO public.unrecorded_calls VALUES ('6cc7e4f1-09d2-42a2-bccc-0967e119495c', '2026-11-24', 'ba11f489-398f-4ad6-a213-2e0ba201285e', 'hash', 1, '127.0.0.1');
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
