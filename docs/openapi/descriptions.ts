/**
 * What the OpenAPI document says beyond the wire schemas: what properties and parameters mean, and what
 * functions check.
 */
import {
  ADDRESS_RANGE,
  AROUND_MAPPED,
  IV_BYTES,
  KEY_BYTES,
  MAX_LISTED_COUNTS,
  MAX_LISTED_KEYS_BYTES,
  MAX_NAME_CHARACTERS,
  MAX_SERVER_MODE_BYTES,
  MAX_USE_PAIRS,
  MAX_USE_VALUE_CHARACTERS,
  PROBLEMS,
  UNRECORDED_KINDS,
  USUAL_DAYS,
  wire,
} from '@eaas/protocol'
import { AROUND_BUDGETS } from '../../packages/server/src/core/api/api-key-grants.js'
import { tenantName } from '../../packages/server/src/operators/operator-schemas.js'

/** A JSON schema of the 2020-12 draft, which OpenAPI 3.1 uses as it is. */
export interface JsonSchema {
  [keyword: string]: unknown
  $ref?: string
  properties?: Record<string, JsonSchema>
  required?: string[]
  items?: JsonSchema
  anyOf?: JsonSchema[]
  enum?: unknown[]
}

const GROUPS = '[A-Za-z0-9+/]'
// The last character before the padding carries 2 or 4 bits that count; the rest of them are zero (RFC 4648
// section 3.5).
const TWO_BYTES_LEFT = `${GROUPS}{2}[AEIMQUYcgkosw048]=`
const ONE_BYTE_LEFT = `${GROUPS}[AQgw]==`

const BASE64 = { pattern: `^(?:${GROUPS}{4})*(?:${TWO_BYTES_LEFT}|${ONE_BYTE_LEFT})?$`, contentEncoding: 'base64' }

const DEK: JsonSchema = {
  description: `A data encryption key (DEK): standard base64 of exactly ${KEY_BYTES} secure random bytes. Wrapping refuses ${KEY_BYTES} zero bytes.`,
  pattern: `^(?:${GROUPS}{4}){${Math.floor(KEY_BYTES / 3)}}${TWO_BYTES_LEFT}$`,
  contentEncoding: 'base64',
}

const WITHOUT_NUL = '^[^\\u0000]*$'
const ANY_CASE_UUID = '[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}'
const CONTROLS = '\\u0000-\\u001f\\u007f-\\u009f'
const SECONDS = '[0-9]{2}:[0-9]{2}:[0-9]{2}'

const CONTEXT: JsonSchema = {
  type: 'object',
  maxProperties: MAX_USE_PAIRS,
  propertyNames: { pattern: '^[A-Za-z][A-Za-z0-9_.-]{0,63}$' },
  additionalProperties: { type: 'string', maxLength: MAX_USE_VALUE_CHARACTERS, pattern: WITHOUT_NUL },
}

const LIMITS_NOTHING = { not: { anyOf: [{ required: ['per_minute'] }, { required: ['per_day'] }] } }
const EVADES_BUDGETS: JsonSchema = {
  not: {
    required: ['budgets', 'permissions'],
    properties: {
      budgets: { type: 'object' },
      permissions: { type: 'array', contains: { enum: AROUND_BUDGETS } },
    },
  },
}

/** What functions check: JSON schema cannot say what a function does. A schema made from one of these has its keywords too. */
export const CHECKED: ReadonlyMap<unknown, JsonSchema> = new Map<unknown, JsonSchema>([
  [wire.FIELDS.name, { pattern: WITHOUT_NUL, minLength: 1, maxLength: MAX_NAME_CHARACTERS }],
  [wire.FIELDS.withoutNul, { pattern: WITHOUT_NUL }],
  [wire.FIELDS.listedKey, { pattern: `^(?:${ANY_CASE_UUID}|[^\\u0000]*/\\*)$` }],
  [wire.FIELDS.addressRange, { pattern: ADDRESS_RANGE.source, not: { pattern: AROUND_MAPPED.source } }],
  [wire.FIELDS.budgets, { not: { properties: { unwrap: LIMITS_NOTHING, hash: LIMITS_NOTHING } } }],
  [wire.createApiKey, EVADES_BUDGETS],
  [wire.updateApiKey, EVADES_BUDGETS],
  [
    tenantName,
    {
      pattern: `^[^${CONTROLS}]*[^\\s${CONTROLS}][^${CONTROLS}]*$`,
      not: { pattern: `^${ANY_CASE_UUID}$` },
    },
  ],
  [
    wire.encrypt,
    {
      if: { required: ['encoding'], properties: { encoding: { const: 'base64' } } },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON schema
      then: { properties: { plaintext: BASE64 } },
    },
  ],
  [wire.base64, { description: 'Standard base64 with padding, canonical.', ...BASE64 }],
  [
    wire.wrappedKey,
    {
      description: 'The wrapped DEK, base64. Store it beside what the DEK encrypted.',
      minLength: 1,
      maxLength: wire.WRAPPED_KEY_CHARACTERS,
      ...BASE64,
    },
  ],
  [wire.wrapContext, CONTEXT],
  [wire.dek, DEK],
  [wire.blindElement, { pattern: DEK.pattern, contentEncoding: 'base64' }],
  [wire.blindProof, { pattern: `^(?:${GROUPS}{4}){21}${ONE_BYTE_LEFT}$`, contentEncoding: 'base64' }],
  [wire.FIELDS.dek, { not: { const: wire.ZEROS } }],
  [
    wire.FIELDS.iv,
    {
      description: `Standard base64 of ${IV_BYTES} bytes.`,
      pattern: `^(?:${GROUPS}{4}){${IV_BYTES / 3}}$`,
      contentEncoding: 'base64',
    },
  ],
])

const KEY_ID = "The key's id, a UUID. Anything else gets 404."
const EXPIRES_AT: JsonSchema = {
  description: 'When it stops working: an RFC 3339 time with an offset, in the future. `null` means never.',
  format: 'date-time',
}
const KEYS: JsonSchema = {
  description:
    'The keys that it may use, list and manage: ids, and folders such as `customers/*`, for each key whose name begins with `customers/`. Other keys get 404, as those of another tenant do. `null` means all, an empty list none. A caller whose own API key is limited can grant only keys of its own list. ' +
    `At most ${MAX_LISTED_KEYS_BYTES} bytes as a text in JSON.`,
}
const BUDGETS: JsonSchema = {
  description:
    'How many data keys it may unwrap (`unwrap`, which also counts decrypts of server mode and index secrets) and how many values it may hash (`hash`), in a minute and in a UTC day. A call that exceeds one gets 429, E_BUDGET and Retry-After; with `when_over: "expire"` the API key expires instead, until `expires_at` is set again, and the answer has no Retry-After. A value replaces all budgets, `null` removes them. Not for an API key with api_keys:manage or keys:export.',
}
const ALLOWED_IPS: JsonSchema = {
  description:
    'Addresses or CIDR ranges, IPv4 and IPv6; bits beyond a prefix are cleared. `null` or empty means any address.',
}

const USE: Record<string, JsonSchema> = {
  purpose: {
    description:
      'What the DEK is for; `data` if only `context` is given. With either of the two, the wrapped key has format 2, which opens only for the same purpose and context.',
  },
  context: {
    description: `Up to ${MAX_USE_PAIRS} pairs that say what the DEK seals, such as \`{"model": "customers", "row": "7"}\`. Not secret: the log shows them.`,
  },
  record: {
    description: 'Whether the log shows the values of the context, or their digests under a key of the tenant.',
  },
}

/** What the name and the type of a property do not say. */
export const PROPERTIES: Record<string, Record<string, JsonSchema>> = {
  Key: {
    id: { description: 'The same as `key_id`.' },
    current_version: { description: 'The same as `key_version`.' },
    key_version: { description: 'The version that encrypts new data.' },
    min_unwrap_version: { description: 'The oldest version that still opens wrapped keys.' },
    rotation: { description: 'When the server will rotate the key; `null` means never.' },
    destroy_at: { description: 'When the key will be destroyed; present only while its destruction is pending.' },
  },
  KeyWithVersions: {
    blind_hash_public_key: {
      description: 'The key that verifies the proofs of blind hashes; `null` once the key is destroyed.',
    },
    versions: {
      description:
        'Oldest first. `wraps` is how many DEKs the version wrapped, in server mode too; `last_unwrapped_at` is the ' +
        'beginning of the last day (UTC) on which it opened something for a caller, absent if it never did. A rewrap ' +
        'counts as a wrap of the current version only.',
    },
  },
  CreateKeys: {
    keys: { description: 'Each has the body for creating one key. A name that is taken fails only its own key.' },
  },
  UpdateKey: {
    min_unwrap_version: {
      description:
        'The oldest version that still opens, at most the current one. Wrapped keys of older versions get 409: rewrap them first. It may be lowered again, but not to a version that was destroyed.',
    },
  },
  SetRotation: { interval_days: { description: 'Days between rotations, counted from now; `null` stops them.' } },
  DestroyKey: { confirm: { description: "The key's name, as a confirmation." } },
  KeyExport: {
    versions: {
      description: '`dek_hex` is the 32-byte key of that version, in hexadecimal. Destroyed versions are left out.',
    },
    hash_key_hex: { description: 'The key of the blind index, in hexadecimal.' },
  },
  Wrap: USE,
  Unwrap: USE,
  IndexSecret: { name: { description: 'Whose indexes it makes, such as the name of a model. The log shows it.' } },
  DerivedSecret: {
    secret: {
      description:
        "HKDF-SHA-256 of the key's hash key with the name, 32 bytes in base64; rotation does not change it. Its holder makes the index of any value without another call.",
    },
  },
  Hash: { key_id: { description: KEY_ID } },
  Hashed: {
    hash: { description: "HMAC-SHA-256 of the value's UTF-8 bytes, in hexadecimal; rotation does not change it." },
  },
  BlindHash: {
    key_id: { description: KEY_ID },
    elements: {
      description:
        'Blinded values, each an element of ristretto255 in its canonical encoding, in base64. The server refuses the identity.',
    },
    suite: { description: 'The suite of RFC 9497, in its verifiable mode.' },
  },
  BlindHashed: {
    elements: { description: 'One for each element of the request, in order, evaluated by the secret of the key.' },
    proof: { description: 'That all were evaluated by that secret: c and s of RFC 9497, in base64.' },
  },
  Encrypt: {
    key_id: { description: KEY_ID },
    plaintext: { description: `At most ${MAX_SERVER_MODE_BYTES} bytes after decoding.` },
    encoding: {
      description:
        "How `plaintext` is read: as text, or as the base64 of bytes. If omitted, the tenant's setting applies: `utf8` by default.",
    },
  },
  Decrypt: {
    key_id: { description: KEY_ID },
    encoding: {
      description: "How the plaintext is returned. If omitted, the tenant's setting applies: `utf8` by default.",
    },
  },
  Batch: {
    operations: {
      description:
        'Each has the body of the single call, and its `key_id`. `op` is the last part of the path of that call, except for ' +
        '`indexSecret`, which is POST /v1/keys/{id}/index-secret and takes `name`, and `blind_hash`, which is ' +
        'POST /v1/hash/blind and takes `elements`, 1,024 in all of a batch. One that fails does not affect the others: ' +
        'its result is the error that the single call would return.',
    },
  },
  BatchResults: {
    results: { description: 'One for each operation or key, in order: the status and the body of the single call.' },
  },
  Entry: {
    id: { description: '1, 2, 3 … in each tenant, without gaps.' },
    actor: { description: "The API key's id, or `system`." },
  },
  EntryList: { total: { description: 'The number of entries that match, on all pages.' } },
  Verification: {
    broken_at: { description: 'The first entry that was altered or is missing.' },
    purged_through: { description: 'The last entry that was deleted at the end of its retention; 0 means none.' },
    checkpoint: {
      description: 'The checkpoint that was given; it is not compared if its entry is not among the verified ones.',
    },
  },
  Checkpoint: {
    checkpoint: {
      description: "The signed statement of the log's head. Keep it outside the database, and pass it to verify later.",
    },
    public_key: { description: 'The key that verifies the signature.' },
  },
  ApiKey: {
    prefix: { description: 'The beginning of the secret, to recognise it by.' },
    expires_at: { description: 'Absent means never.' },
    allowed_ips: { description: 'Absent means any address.' },
    keys: { description: 'The keys and folders that it is limited to. Absent means all keys.' },
    budgets: { description: 'How many values it may open and hash. Absent means any number.' },
  },
  CreateApiKey: {
    permissions: { description: 'Only permissions that the calling API key has itself.' },
    expires_at: EXPIRES_AT,
    allowed_ips: ALLOWED_IPS,
    keys: KEYS,
    budgets: BUDGETS,
  },
  UpdateApiKey: { expires_at: EXPIRES_AT, allowed_ips: ALLOWED_IPS, keys: KEYS, budgets: BUDGETS },
  NewApiKey: { secret: { description: 'The API key itself, returned only once.' } },
  Tenant: {
    monthly_encrypt_quota: { description: '`encrypt` calls a month; `null` means no limit.' },
    plaintext_encoding: { description: 'The `encoding` of calls that omit it; absent means `utf8`.' },
  },
  Usage: {
    month: { description: 'YYYY-MM, in UTC.' },
    operations: { description: 'The number of entries of each action.' },
    unrecorded: {
      description:
        'Calls that wrote no entry, by day (UTC), API key, kind and address. ' +
        `The kinds are ${UNRECORDED_KINDS.map((kind) => `\`${kind}\``).join(', ')}; there may be more. ` +
        'Where `ip_address` is null, calls from further addresses are counted together. ' +
        `The ${MAX_LISTED_COUNTS} largest counts, largest first.`,
    },
    by_api_key: {
      description:
        'What each API key did `today` (UTC), whatever the `month`. `kind` is `unwrap` for values that it opened and index secrets, or `hash`; there may be more. ' +
        `\`median\` is over those of the ${USUAL_DAYS} days before on which it did any, \`null\` if there were none. From 100 on, and above twice the median, the entry \`usage.doubled\` follows. ` +
        `The ${MAX_LISTED_COUNTS} largest counts, largest first.`,
    },
  },
  Problem: {
    type: { const: 'about:blank' },
    detail: { description: 'What was wrong and what to do, for people.' },
    retry_after: {
      description:
        'After how many seconds the call may succeed, if that is known, as for E_BUDGET. A single call also gets it as Retry-After, an operation of a batch only here.',
    },
    code: { enum: Object.keys(PROBLEMS), description: 'What was wrong, for programs; these strings do not change.' },
  },
}

/** The same for operators' calls. */
export const OPERATOR_PROPERTIES: Record<string, Record<string, JsonSchema>> = {
  OperatorTenantList: {
    tampered: {
      description: 'Tenants of this page whose rows are not as the server wrote them: eaas tenant list says why.',
    },
  },
  CreateTenant: {
    envelope_only: { description: 'False opens server mode: the server then sees plaintext. True if omitted.' },
  },
  UpdateTenant: {
    envelope_only: { description: 'False opens server mode: the server then sees plaintext.' },
    monthly_encrypt_quota: { description: '`encrypt` calls a month in server mode; `null` means no limit.' },
    plaintext_encoding: { description: 'How server mode reads a plaintext if the call does not say.' },
  },
  ChangeStatus: { reason: { description: 'Why, for the logs of the tenant and of the installation.' } },
  AlarmList: {
    alarms: {
      description:
        "One for each log that this server no longer trusts; `tenant_id` is null for the installation's own log.",
    },
  },
  ServerStatus: {
    health: { description: 'The answer of `GET /health`.' },
    alarms: { description: 'The number of alarms.' },
    invalid_logs: {
      description: 'Logs that were not valid when this process last verified; `null` until it has.',
    },
    ages_in_seconds: {
      description:
        'Since this process last had an anchor and a written checkpoint, verified every log, purged, and had each witness ' +
        'cosign, or since it started, if it has not yet; `null` for what it is not configured to do. `backup`: since the ' +
        'newest backup that the database knows of, `null` if it knows of none.',
    },
  },
  Problem: PROPERTIES.Problem ?? {},
}

/**
 * Query parameters, with the types of times, which the wire schemas read as text, and with the form of texts that operations
 * read. One with `json` is sent as the JSON of such a value.
 */
export const PARAMETERS: Readonly<Record<string, { description: string; schema?: JsonSchema; json?: JsonSchema }>> = {
  action: { description: 'Only entries of this action.' },
  after_id: { description: 'Only entries with a larger id.' },
  context: {
    description:
      'Only wraps and unwraps whose context has these pairs, as a JSON object, also where the log shows digests. That confirms guesses: it needs the permission `hash`, and counts as a hash. No index finds them: limit the range to at most 500,000 entries.',
    json: CONTEXT,
  },
  actor: {
    description: 'Only entries of this actor, such as the id of an API key. The range is limited as for `context`.',
  },
  checkpoint: {
    description: "A checkpoint of this tenant's log that you kept, with which the log must still agree.",
    schema: {
      type: 'string',
      pattern: `^eaas/audit/checkpoint/v1\\n[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\\n[1-9][0-9]{0,15}\\n(?:${GROUPS}{4}){10}${TWO_BYTES_LEFT}\\n[0-9]{4}-[0-9]{2}-[0-9]{2}T${SECONDS}\\.[0-9]{3}Z\\n\\n\\u2014 eaas-audit (?:${GROUPS}{4}){22}${TWO_BYTES_LEFT}\\n$`,
    },
  },
  date_from: {
    description: 'Only entries written at this time or later.',
    schema: { type: 'string', format: 'date-time' },
  },
  date_to: {
    description: 'Only entries written at this time or earlier.',
    schema: { type: 'string', format: 'date-time' },
  },
  key_id: { description: 'Only entries about this key.' },
  limit: {
    description: 'How many to return at most; the audit log returns no more than 100.',
  },
  month: { description: 'The month in UTC, YYYY-MM; the current one by default.' },
  name: { description: 'Only the key of this name.' },
  offset: { description: 'How many to skip.' },
  on_behalf_of: {
    description: 'Only entries of calls that named this end user. The range is limited as for `context`.',
  },
  order: { description: 'Sorted by id: oldest first or newest first.' },
  purpose: { description: 'Only wraps and unwraps for this purpose. The range is limited as for `context`.' },
  status: { description: 'Only keys in this state.' },
  through_id: { description: 'Only entries up to this id.' },
}
