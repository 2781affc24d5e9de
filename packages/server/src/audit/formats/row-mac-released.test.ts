// Rows as servers wrote them, each with the MAC that databases hold for it. Never edit or remove one, only
// add: a server that computes another MAC refuses these rows in every installation that upgrades. If a new
// column makes a test fail, leave it out of the MAC where it has the value that the migration gives earlier
// rows (row-mac.md 1). Until schema 15, a secret was covered as hexadecimal: what brings such a database to
// store keys checks these MACs before it makes others (row-mac.md 5). row-mac.vectors.json can't show this: vectors.py writes it again.
import { createSecretKey } from 'node:crypto'
import { decodeHex, encodeHex } from '@eaas/protocol'
import { expect, it } from 'vitest'
import { earlierValuesOf } from '../../../../../test/support/database/migrations.js'
import { apiKeyMac, type CoverSecret, coverAsHex, keyMac, keyVersionMac, tenantMac } from './row-mac.js'

const ROW_KEY = '8c6a0a2180aa8886899c744d180af7daeebc6aa592c888d03dd0bc01a657224c'

const ids = { tenant_id: '7c9e6679-7425-40de-944b-e07fc1f90ae7', key_id: '0b54f9a4-6f0e-4c1c-9d2a-5e7a1c3b8f60' }
const [early, late] = ['2026-08-11T09:30:00.000Z', '2026-11-09T09:30:00.000Z']
const wrapped = decodeHex(
  '014b676e9fa6fa52d8a1556fb22a51f2d345a1bc0652da5c3b8110d850ffe81c643c457181dfd82dad100a8807a9052df7ac1f50d17205a8648953bee3',
)

const tenant = {
  tenant_id: ids.tenant_id,
  name: 'first',
  envelope_only: true,
  monthly_encrypt_quota: null,
  wrapped_audit_key: wrapped,
  created_at: early,
  entry_id: 1,
}
const key = {
  ...ids,
  name: 'users',
  algorithm: 'AES-256-GCM',
  status: 'active',
  current_version: 2,
  rotation_interval_days: 90,
  next_rotation_at: late,
  destroy_at: null,
  wrapped_hash_key: wrapped,
  created_at: early,
  updated_at: early,
  entry_id: 3,
}
const version = { ...ids, version: 2, status: 'active', wrapped_kek: wrapped, created_at: early, entry_id: 3 }
const apiKey = {
  tenant_id: ids.tenant_id,
  api_key_id: '0b54f9a4-6f0e-4c1c-9d2a-5e7a1c3b8f61',
  digest: '05576ecdfc69d74646c5d3f99f7bc2089d52cad6863ad2df06b77b4f6002e161',
  name: 'backend',
  prefix: 'eaas_sk_AbCd',
  permissions: ['encrypt', 'decrypt'],
  allowed_ips: ['10.0.0.0/8', '::1'],
  expires_at: late,
  revoked_at: null,
  created_at: early,
  entry_id: 2,
}

/**
 * Each row has the columns of its time; the columns that later migrations add hold in it what these
 * migrations say.
 */
const RELEASED: readonly [name: string, table: keyof typeof MACS, row: object, mac: string][] = [
  ['a tenant of migration 001', 'tenants', tenant, 'ae4a01fdc89e77c5ce1f37bde6ca74091720ff228fed38a353f0f57e5ca1daff'],
  [
    'a tenant of another encoding',
    'tenants',
    { ...tenant, plaintext_encoding: 'base64', status: 'active' },
    'd3b2698a4654253bbf09e9dd9d2c101f1a34bf61e8bf9c168f32ae56c86ad585',
  ],
  [
    'a suspended tenant',
    'tenants',
    { ...tenant, plaintext_encoding: 'utf8', status: 'suspended' },
    '7c201c96bea5112671b2ae56668f879b98686984741ce242d92682ff834c97fe',
  ],
  [
    'a tenant with every column',
    'tenants',
    { ...tenant, envelope_only: false, monthly_encrypt_quota: 1_000, plaintext_encoding: 'base64', status: 'deleted' },
    'e93497c60687db2a8f9025b9c3f957cbac788ad6d6f8873488a683db0153939e',
  ],
  ['a key that rotates', 'keys', key, '71b18d87eb717c41a916c4039028a9eb02cf99392e44d961267591b0cef4444d'],
  [
    'a key without times',
    'keys',
    { ...key, rotation_interval_days: null, next_rotation_at: null },
    '714b42dfd30274f9ac40faf3a70bdee65178f47f233db81a64cae4b21b85a734',
  ],
  [
    'a destroyed key',
    'keys',
    { ...key, status: 'destroyed', wrapped_hash_key: null },
    '95bab1a7736dbf48080ded8e20134993786293d1770d26801ea1826c9cd4a691',
  ],
  [
    'a key whose first version no longer opens',
    'keys',
    { ...key, min_unwrap_version: 2 },
    '84b1f84e75c936dd0c2d3287d561208de78f49e9108d7b02256eaf35d87110a3',
  ],
  [
    'a destroyed key whose first version was destroyed before',
    'keys',
    {
      ...key,
      status: 'destroyed',
      wrapped_hash_key: null,
      min_unwrap_version: 2,
      min_unwrap_since: late,
      destroyed_through: 1,
    },
    '5706db6e3ef0462a0f6c756fa204fb42ed9745804d92d5e1ae761867fe41aee0',
  ],
  ['a key version', 'key_versions', version, 'f9552974b552449a8ad859942278c9828a05c2d18af29fee22d25cd4a96c63e8'],
  [
    'a destroyed key version',
    'key_versions',
    { ...version, status: 'destroyed', wrapped_kek: null },
    'f15f2c527e2626261067f9c1671be85107ac2ab3fc71cefa9409539d3a513826',
  ],
  ['an API key', 'api_keys', apiKey, 'af3617b0bb8bf6464e00c308e64b86b52181ce51a3586d793ea563c3397939be'],
  [
    'an API key without lists and times',
    'api_keys',
    { ...apiKey, permissions: [], allowed_ips: [], expires_at: null },
    '05bc64a2cf3f13cbcba47878987062423fcdc673b187cc7d442e01e32c32298f',
  ],
  [
    'a revoked API key',
    'api_keys',
    { ...apiKey, revoked_at: late },
    'a695944ff36ad50d58dd763900548efb8876aca766bc90219aa2bef2026147e4',
  ],
  [
    'an API key that is limited to keys',
    'api_keys',
    { ...apiKey, keys: ['customers/*', ids.key_id] },
    '165cb7fc23d86959164bc2830078b3961ccc9bdbc59ec28dd337b309341b70d5',
  ],
  [
    'an API key that is limited to keys, with budgets',
    'api_keys',
    { ...apiKey, keys: ['customers/*', ids.key_id], budgets: '{"hash":{"per_day":9},"unwrap":{"per_minute":600}}' },
    '6a381b391eb2ad91027d3f0eb4195c211ff1f38b6958bff4c5ae1df67f6b109e',
  ],
]

const MACS = { tenants: tenantMac, keys: keyMac, key_versions: keyVersionMac, api_keys: apiKeyMac }

it.each(RELEASED)('the server still computes the MAC of a row that was released: %s', (_, table, row, mac) => {
  const computeMac = MACS[table] as (
    rowKey: ReturnType<typeof createSecretKey>,
    row: object,
    cover?: CoverSecret,
  ) => Uint8Array
  const released = { ...earlierValuesOf(table), ...row }
  const made = computeMac(createSecretKey(decodeHex(ROW_KEY)), released, coverAsHex)
  expect(encodeHex(made)).toBe(mac)
})
