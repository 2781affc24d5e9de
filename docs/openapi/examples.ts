/**
 * The examples of the OpenAPI document, made from its schemas: a property has the value that is listed here
 * under its name. One run of the service gave them, so that ids, keys and ciphertexts belong together.
 */
import { DETAILS, type ProblemCode } from '@eaas/protocol'
import type { JsonSchema } from './descriptions.js'

export const EXAMPLE_KEY_ID = 'ecbe7653-fc4c-4495-81cc-48c0533681a4'
export const EXAMPLE_API_KEY_ID = '01ccae36-5ed7-48e5-aec8-ee76c0572a70'
export const EXAMPLE_TENANT_ID = 'ef027abf-2a8f-4e03-81b1-c9d8ad9a8d72'
const DEK = 'Dx4tPEtaaXiHlqW0w9Lh8A8eLTxLWml4h5altMPS4fA='
const WRAPPED_KEY = 'AQAAAAE40Zo2BaLIUaPdf4/8Lpkytq8BcrnxAtv2HETOItSZzZVKfGkiDJsmybd8DbAzl5L11rWRsgKcKe9qw2o='
const PUBLIC_KEY = 'eaas-audit+746d2be3+AQTAqp+IeMBo55+c9jsuIVmLsaWjJRVszPK0+e0Z8sqF'

/**
 * Values by property name, or by `Schema.name` or (in answers) `operationId.name` where that one has another value. A
 * state is the first of its enum, and an optional property without a value is left out.
 */
const VALUES: Readonly<Record<string, unknown>> = {
  // Keys
  id: EXAMPLE_KEY_ID,
  key_id: EXAMPLE_KEY_ID,
  tenant_id: EXAMPLE_TENANT_ID,
  name: 'customers',
  confirm: 'customers',
  version: 1,
  current_version: 1,
  key_version: 1,
  min_unwrap_version: 1,
  wraps: 2,
  last_unwrapped_at: '2026-09-01T00:00:00.000Z',
  created_at: '2026-09-01T08:01:00.000Z',
  updated_at: '2026-09-01T08:12:00.000Z',
  interval_days: 90,
  next_rotation_at: '2026-11-30T08:12:00.000Z',
  'UpdateKey.min_unwrap_version': 2,
  'updateKey.min_unwrap_version': 2,
  'updateKey.current_version': 2,
  'updateKey.key_version': 2,
  'rotateKey.current_version': 2,
  'rotateKey.key_version': 2,
  'destroyKey.status': 'pending_destruction',
  'destroyKey.destroy_at': '2026-09-08T08:15:00.000Z',
  'cancelDestruction.status': 'disabled',
  'KeyExport.versions': [
    { version: 1, dek_hex: 'def5435c51dfc5cd2faae83b16ee820515f185b588872e376d7c9e5315c7f80a', status: 'retired' },
    { version: 2, dek_hex: 'cf9e156d6626aed1cef120e64524a0e63b42ef05b0f3b31ecca84b673f6741e6', status: 'active' },
  ],
  hash_key_hex: 'c6e7829d91be7cd672db6161ad1ac0d8a00fc4234f3d10ede61c4ac87105a209',
  exported_at: '2026-09-01T08:14:00.000Z',
  warning: 'Whoever holds this export opens everything that this key ever protected. Keep it offline.',
  // Envelope mode, server mode and batches
  dek: DEK,
  wrapped_key: WRAPPED_KEY,
  'rewrap.wrapped_key': 'AQAAAAKWt5LIA3pyHP+3y0dkSbTknwOAAcYtP9RsvNCMWgdq1opwxWx9A0YLzy5YJmgocxm3UziU2gCFm9Xs2a8=',
  'rewrap.key_version': 2,
  value: 'alice@example.org',
  hash: 'cf37185dc0c3e4682531e478465522c90455d1e2bf166ecc2b5179004b75c6bf',
  blind_hash_public_key: 'GvOBuVKlxDZxL8yCp3Q5sji1wQT0eidy4yPGMUSqF0Y=',
  elements: ['GFzYUpdzpVYgU/Tn65w17t8jG7KbgqBH33L+QuE7mS4='],
  'BlindHashed.elements': ['8gY6gwWfmhMvA0PL1U81fisf3WL0DxaQ/6EZYjklnAQ='],
  proof: 'NchrTDw91RDmRfybUcrapLBrEQGPMHXK86wQA0ZL9gE7doMwtxNdm+NsvxMryFXhIdnCHgxDm46AD/0esxNDDw==',
  'DerivedSecret.secret': '8aDvuOEUJP6viGToIGrOZm4qqZ9VErlIWt2EMLS1rEE=',
  plaintext: 'alice@example.org',
  ciphertext: 'foU2flDuWsPY2vousxLagdM68oGECf14bsJBXBe6bRwW',
  iv: 'a7ZGsuwsWsVatOUQ',
  'Batch.operations': [
    { op: 'unwrap', key_id: EXAMPLE_KEY_ID, wrapped_key: WRAPPED_KEY },
    { op: 'hash', key_id: 'no-such-key', value: 'alice@example.org' },
  ],
  'batch.results': [
    { status: 200, body: { dek: DEK, key_id: EXAMPLE_KEY_ID, key_version: 1 } },
    {
      status: 404,
      body: { type: 'about:blank', title: 'Not Found', status: 404, detail: 'key not found', code: 'E_NOT_FOUND' },
    },
  ],
  'createKeys.results': [
    {
      status: 201,
      body: {
        id: EXAMPLE_KEY_ID,
        key_id: EXAMPLE_KEY_ID,
        name: 'customers',
        algorithm: 'AES-256-GCM',
        status: 'active',
        current_version: 1,
        key_version: 1,
        min_unwrap_version: 1,
        created_at: '2026-09-01T08:01:00.000Z',
        rotation: null,
      },
    },
  ],
  // Audit
  count: 1,
  total: 17,
  limit: 50,
  offset: 0,
  'Entry.id': 17,
  'Entry.action': 'key.unwrap',
  actor: EXAMPLE_API_KEY_ID,
  ip_address: '192.0.2.7',
  metadata: { key_version: 1 },
  valid: true,
  total_entries: 17,
  verified_entries: 17,
  purged_through: 0,
  'Verification.id': 17,
  'Verification.hash': 'ea6bdcdb2bda38c7dc19aac7bfb3a8f73c965c9a6ba0386904807b6fa1e17713',
  'Checkpoint.checkpoint':
    `eaas/audit/checkpoint/v1\n${EXAMPLE_TENANT_ID}\n17\n6mvc2yvaOMfcGarHv7Oo9zyWXJproDhpBIB7b6HhdxM=\n2026-09-01T08:22:00.000Z\n\n` +
    '— eaas-audit dG0r42Re04oQ0hV60jEwrZ64TQBwMYBcB//gvMovLuAkPMePKd8dDQPkxoFEloTbk6/0UuUAMWZrWpl9wvKeOSGNfAQ=\n',
  public_key: PUBLIC_KEY,
  // API keys
  'ApiKey.id': EXAMPLE_API_KEY_ID,
  'ApiKey.name': 'web shop',
  'NewApiKey.id': EXAMPLE_API_KEY_ID,
  'NewApiKey.name': 'web shop',
  'CreateApiKey.name': 'web shop',
  'UpdateApiKey.name': 'web shop',
  prefix: 'eaas_sk_ef027abf2a8f4e0381b1c9d8ad9a8d72_Y6YD',
  secret: 'eaas_sk_ef027abf2a8f4e0381b1c9d8ad9a8d72_Y6YDJPYzzYYMqquHRINWu4Qleykp2lyiytNJnNcAQWA',
  permissions: ['encrypt', 'decrypt'],
  expires_at: '2099-12-31T23:59:59.000Z',
  allowed_ips: ['192.0.2.0/24', '2001:db8::/32'],
  'ApiKey.keys': ['customers/*'],
  'NewApiKey.keys': ['customers/*'],
  'CreateApiKey.keys': ['customers/*'],
  'UpdateApiKey.keys': ['customers/*'],
  budgets: { unwrap: { per_minute: 600, per_day: 50_000 }, hash: { per_day: 10_000 } },
  // The tenant and the service
  'Tenant.name': 'acme',
  envelope_only: false,
  monthly_encrypt_quota: null,
  month: '2026-09',
  'Usage.operations': { 'key.create': 1, 'key.unwrap': 2, 'key.wrap': 2 },
  day: '2026-09-14',
  api_key_id: EXAMPLE_API_KEY_ID,
  kind: 'hash',
  today: 412,
  median: 380,
  database: 'up',
  cache: 'up',
  hsm: 'none',
  durability: 'synchronous',
  // Operators
  'OperatorTenant.name': 'acme',
  'CreateTenant.name': 'acme',
  'NewTenant.name': 'acme',
  'NewTenant.api_key': {
    id: EXAMPLE_API_KEY_ID,
    name: 'first key',
    prefix: 'eaas_sk_ef027abf2a8f4e0381b1c9d8ad9a8d72_Y6YD',
    permissions: ['encrypt', 'decrypt'],
    created_at: '2026-09-01T08:00:00.000Z',
    secret: 'eaas_sk_ef027abf2a8f4e0381b1c9d8ad9a8d72_Y6YDJPYzzYYMqquHRINWu4Qleykp2lyiytNJnNcAQWA',
  },
  'UpdateTenant.monthly_encrypt_quota': 100_000,
  'suspendTenant.status': 'suspended',
  tampered: [],
  reason: 'not paid since August',
  'AlarmList.reason': 'the audit log ends with entry 12, before entry 17, which was committed',
  refused: 'All calls of these tenants are refused until you settle this: see eaas accept --help',
  commands: ['eaas doctor', `eaas audit verify --tenant ${EXAMPLE_TENANT_ID}`],
  page: 'What to do when an alarm is raised',
  'AlarmList.code': 'log_differs',
  'ServerStatus.version': '1.0.0',
  'ServerStatus.alarms': 0,
  invalid_logs: 0,
  anchor: 812.4,
  'ServerStatus.checkpoint': 812.6,
  verification: 40_112.9,
  purge: 1_204.2,
  backup: 9_004.7,
  'ServerStatus.witnesses': [{ name: 'witness.example.org', cosignature: 814.1, contradicted: false }],
}

/** A `detail` of each code. */
export const DETAIL_EXAMPLES: Readonly<Record<ProblemCode, string>> = {
  E_VALIDATION: DETAILS.E_VALIDATION.confirm,
  E_MALFORMED_REQUEST: DETAILS.E_MALFORMED_REQUEST.json,
  E_PLAINTEXT_TOO_LARGE: DETAILS.E_PLAINTEXT_TOO_LARGE.plaintext(70_000),
  E_UNAUTHORIZED: DETAILS.E_UNAUTHORIZED.apiKey,
  E_IP_NOT_ALLOWED: DETAILS.E_IP_NOT_ALLOWED.address('198.51.100.7'),
  E_TENANT_SUSPENDED: DETAILS.E_TENANT_SUSPENDED.tenant,
  E_MISSING_PERMISSION: DETAILS.E_MISSING_PERMISSION.call('keys:export'),
  E_ENVELOPE_ONLY: DETAILS.E_ENVELOPE_ONLY.call,
  E_WRAPPED_KEY: DETAILS.E_WRAPPED_KEY.wrappedKey,
  E_NOT_FOUND: DETAILS.E_NOT_FOUND.key,
  E_ROUTE_NOT_FOUND: DETAILS.E_ROUTE_NOT_FOUND.path,
  E_METHOD_NOT_ALLOWED: DETAILS.E_METHOD_NOT_ALLOWED.method,
  E_REQUEST_TIMEOUT: DETAILS.E_REQUEST_TIMEOUT.request,
  E_NAME_TAKEN: DETAILS.E_NAME_TAKEN.key,
  E_STATE: DETAILS.E_STATE.key('disabled', 'wrap', ['active']),
  E_KEY_DESTROYED: DETAILS.E_KEY_DESTROYED.key,
  E_VERSION_DESTROYED: DETAILS.E_VERSION_DESTROYED.wrappedKey(1),
  E_VERSION_TOO_OLD: DETAILS.E_VERSION_TOO_OLD.wrappedKey(1, 3),
  E_LIMIT: DETAILS.E_LIMIT.keys(),
  E_BODY_TOO_LARGE: DETAILS.E_BODY_TOO_LARGE.body,
  E_URI_TOO_LONG: DETAILS.E_URI_TOO_LONG.path,
  E_MEDIA_TYPE: DETAILS.E_MEDIA_TYPE.body,
  E_TENANT_MOVED: DETAILS.E_TENANT_MOVED.tenant('https://eaas-2.example.org'),
  E_DECRYPTION_FAILED: DETAILS.E_DECRYPTION_FAILED.ciphertext,
  E_QUOTA_EXCEEDED: DETAILS.E_QUOTA_EXCEEDED.encrypt(10_000),
  E_BUDGET: DETAILS.E_BUDGET.call('unwrap', 'minute', 600, false),
  E_HEADERS_TOO_LARGE: DETAILS.E_HEADERS_TOO_LARGE.headers,
  E_INTERNAL: DETAILS.E_INTERNAL.unexpected,
  E_AUDIT_NOT_WRITTEN: DETAILS.E_AUDIT_NOT_WRITTEN.entry,
  E_TAMPERED: DETAILS.E_TAMPERED.entry(77),
  E_UNAVAILABLE: DETAILS.E_UNAVAILABLE.busy,
}

/** The beginning of an export, and its end. */
export const EXAMPLE_EXPORT = [
  {
    format: 'eaas/audit/export/v1',
    tenant_id: EXAMPLE_TENANT_ID,
    after_id: 5,
    after_hash: '80b564174c26c7b46bd4f04b978458472c89811424cd1381a6823fdfd23ce6b0',
  },
  {
    id: 6,
    action: 'decrypt',
    key_id: EXAMPLE_KEY_ID,
    key_version: 1,
    actor: 'c6b07be2-7859-4f57-b72f-69c4376a28e3',
    ip_address: '127.0.0.1',
    metadata: null,
    created_at: '2026-09-01T08:07:00.000Z',
    hash: '435535f11c0cbee4d08f2cab985d7bfdf08e999a5130704c1bb1801e30024802',
  },
  {
    checkpoint:
      `eaas/audit/checkpoint/v1\n${EXAMPLE_TENANT_ID}\n6\nQ1U18RwMvuTQjyyrmF17/fCOmZpRMHBMG7GAHjACSAI=\n2026-09-01T08:08:00.000Z\n\n` +
      '— eaas-audit dG0r47k8MApYa1M0xogrIvkfYdL5xBmFdapR0e/iwoG+OE5tjRLFP/rWmYs1iA0wsAJNcwBWXsGE4/UaU/EXy0b+ZwY=\n',
    public_key: PUBLIC_KEY,
  },
]
  .map((line) => `${JSON.stringify(line)}\n`)
  .join('')

/**
 * Makes the example of a schema of the document. `scopes` name it, most specific first: the call that answers it, and
 * the schema. @throws when a required property has no value here
 */
export function exampleOf(
  schema: JsonSchema,
  scopes: readonly string[],
  components: Readonly<Record<string, JsonSchema>>,
): unknown {
  const findListed = (name: string) =>
    [...scopes.map((scope) => `${scope}.${name}`), name].find((listed) => listed in VALUES)
  const { $ref, properties, required = [], items, anyOf, enum: states } = schema
  if ($ref !== undefined) {
    const name = $ref.slice($ref.lastIndexOf('/') + 1)
    return exampleOf(components[name] ?? {}, [...scopes, name], components)
  }
  if (anyOf) return exampleOf(anyOf[0] ?? {}, scopes, components) // the other one is null
  if (items) return [exampleOf(items, scopes, components)]
  if (states) return states[0]
  if (!properties) throw new Error(`docs/openapi/examples.ts has no value for a property of ${scopes.join(', ')}`)
  return Object.fromEntries(
    Object.entries(properties).flatMap(([name, property]) => {
      const listed = findListed(name)
      if (listed !== undefined) return [[name, VALUES[listed]]]
      return required.includes(name) ? [[name, exampleOf(property, [...scopes, name], components)]] : []
    }),
  )
}
