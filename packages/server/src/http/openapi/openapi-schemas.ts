/**
 * The components of the OpenAPI document: the wire schemas and shapes as JSON schema, under the names that generated clients show.
 * Checks by a function are lost in JSON schema, so this module states them again, on the server only.
 */
import {
  IV_BYTES,
  KEY_BYTES,
  MAX_ALLOWED_IPS,
  MAX_LISTED_UNRECORDED,
  MAX_SERVER_MODE_BYTES,
  PROBLEMS,
  UNRECORDED_KINDS,
  wire,
} from '@eaas/protocol'
import * as z from 'zod/mini'

/** A JSON schema of the 2020-12 draft, which OpenAPI 3.1 uses as it is. */
export interface JsonSchema {
  [keyword: string]: unknown
  properties?: Record<string, JsonSchema>
}

const COMPONENTS = {
  Key: wire.key,
  KeyWithVersions: wire.keyWithVersions,
  KeyList: wire.keyList,
  CreateKey: wire.createKey,
  CreateKeys: wire.createKeys,
  SetRotation: wire.setRotation,
  DestroyKey: wire.destroyKey,
  KeyExport: wire.keyExport,
  Wrap: wire.wrap,
  Wrapped: wire.wrapped,
  Unwrap: wire.unwrap,
  Unwrapped: wire.unwrapped,
  Hash: wire.hash,
  Hashed: wire.hashed,
  Encrypt: wire.encrypt,
  Bundle: wire.bundle,
  Decrypt: wire.decrypt,
  Decrypted: wire.decrypted,
  Batch: wire.batch,
  BatchResults: wire.batchResults,
  Entry: wire.entry,
  EntryList: wire.entryList,
  Verification: wire.verification,
  Checkpoint: wire.checkpoint,
  ApiKey: wire.apiKey,
  ApiKeyList: wire.apiKeyList,
  CreateApiKey: wire.createApiKey,
  NewApiKey: wire.newApiKey,
  UpdateApiKey: wire.updateApiKey,
  Tenant: wire.tenant,
  Usage: wire.usage,
  Health: wire.health,
  Problem: wire.problem,
} as const

type Component = keyof typeof COMPONENTS

const GROUPS = '[A-Za-z0-9+/]'
// The last character before the padding carries 2 or 4 bits that count; the rest of them are zero (RFC 4648 section 3.5).
const TWO_BYTES_LEFT = `${GROUPS}{2}[AEIMQUYcgkosw048]=`
const ONE_BYTE_LEFT = `${GROUPS}[AQgw]==`

const BASE64 = { pattern: `^(?:${GROUPS}{4})*(?:${TWO_BYTES_LEFT}|${ONE_BYTE_LEFT})?$`, contentEncoding: 'base64' }

/** The checks of `wire.FIELDS` and `wire.VALUES` as JSON schema. */
const FIELDS: Record<keyof typeof wire.FIELDS | keyof typeof wire.VALUES, JsonSchema> = {
  string: {},
  name: { pattern: '^[^\\u0000]*$', minLength: 1, maxLength: 255 },
  uuid: { format: 'uuid', pattern: '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' },
  base64: { description: 'Standard base64 with padding, canonical.', ...BASE64 },
  wrappedKey: {
    description: 'The wrapped DEK, base64. Store it beside what the DEK encrypted.',
    minLength: 1,
    maxLength: wire.WRAPPED_KEY_CHARACTERS,
    ...BASE64,
  },
  dek: {
    description: `A data encryption key (DEK): standard base64 of exactly ${KEY_BYTES} secure random bytes. Wrapping refuses ${KEY_BYTES} zero bytes.`,
    pattern: `^(?:${GROUPS}{4}){${Math.floor(KEY_BYTES / 3)}}${TWO_BYTES_LEFT}$`,
    contentEncoding: 'base64',
  },
  iv: {
    description: `Standard base64 of ${IV_BYTES} bytes.`,
    pattern: `^(?:${GROUPS}{4}){${IV_BYTES / 3}}$`,
    contentEncoding: 'base64',
  },
  time: { format: 'date-time', pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z$' },
  hex32: { pattern: '^[0-9a-f]{64}$' },
  version: { type: 'integer', minimum: 1, maximum: 2 ** 31 - 1 },
  position: { type: 'integer', minimum: 1 },
  count: { type: 'integer', minimum: 0 },
  integer: { type: 'integer' },
  boolean: { type: 'boolean' },
}

const KEY_ID = "The key's id, a UUID. Anything else gets 404."
const EXPIRES_AT: JsonSchema = {
  description: 'When it stops working: an RFC 3339 time with an offset, in the future. `null` means never.',
  format: 'date-time',
}
const ADDRESS_RANGE = {
  format: 'cidr',
  pattern: '^(?:(?:[0-9]{1,3}\\.){3}[0-9]{1,3}|[0-9A-Fa-f.]*:[0-9A-Fa-f.:]*)/[0-9]{1,3}$',
}
const ALLOWED_IPS: JsonSchema = {
  description:
    'Addresses or CIDR ranges, IPv4 and IPv6; bits beyond a prefix are cleared. `null` or empty means any address.',
  anyOf: [
    {
      type: 'array',
      maxItems: MAX_ALLOWED_IPS,
      items: { type: 'string', anyOf: [{ format: 'ipv4' }, { format: 'ipv6' }, ADDRESS_RANGE] },
    },
    { type: 'null' },
  ],
}

/** What the name and the type of a property do not say. */
const PROPERTIES: Partial<Record<Component, Record<string, JsonSchema>>> = {
  Key: {
    id: { description: 'The same as `key_id`.' },
    current_version: { description: 'The same as `key_version`.' },
    key_version: { description: 'The version that encrypts new data.' },
    rotation: { description: 'When the server will rotate the key; `null` means never.' },
    destroy_at: { description: 'When the key will be destroyed; present only while its destruction is pending.' },
  },
  CreateKeys: {
    keys: { description: 'Each as for creating one key. A name that is taken fails its own key only.' },
  },
  SetRotation: { interval_days: { description: 'Days between rotations, counted from now; `null` stops them.' } },
  DestroyKey: { confirm: { description: "The key's name, as a confirmation." } },
  KeyExport: {
    versions: { description: '`dek_hex` is the 32-byte key of that version, in hexadecimal.' },
    hash_key_hex: { description: 'The key of the blind index, in hexadecimal.' },
  },
  Hash: { key_id: { description: KEY_ID } },
  Hashed: {
    hash: { description: "HMAC-SHA-256 of the value's UTF-8 bytes, in hexadecimal; rotation does not change it." },
  },
  Encrypt: {
    key_id: { description: KEY_ID },
    plaintext: { description: `At most ${MAX_SERVER_MODE_BYTES} bytes after decoding.` },
    encoding: {
      description:
        'How `plaintext` is read: as text, or as the base64 of bytes. If omitted, as the tenant is set: `utf8` by default.',
    },
  },
  Decrypt: {
    key_id: { description: KEY_ID },
    encoding: { description: 'How the plaintext is returned. If omitted, as the tenant is set: `utf8` by default.' },
  },
  Batch: {
    operations: {
      description:
        'Each has the body of the single call, and its `key_id`. One that fails does not affect the others: its result ' +
        'is the error that the single call would return.',
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
    public_key: { description: 'What the signature is checked with.' },
  },
  ApiKey: {
    prefix: { description: 'The beginning of the secret, to recognise it by.' },
    expires_at: { description: 'Absent: never.' },
    allowed_ips: { description: 'Absent means any address.' },
  },
  CreateApiKey: {
    permissions: { description: 'Only permissions that the calling API key has itself.' },
    expires_at: EXPIRES_AT,
    allowed_ips: ALLOWED_IPS,
  },
  UpdateApiKey: { expires_at: EXPIRES_AT, allowed_ips: ALLOWED_IPS },
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
        `The ${MAX_LISTED_UNRECORDED} largest counts, largest first.`,
    },
  },
  Problem: {
    type: { const: 'about:blank' },
    detail: { description: 'What was wrong and what to do, for people.' },
    code: { enum: Object.keys(PROBLEMS), description: 'What was wrong, for programs; these strings do not change.' },
  },
}

const fields = new Map<unknown, JsonSchema>(
  [...Object.entries(wire.FIELDS), ...Object.entries(wire.VALUES)].map(([name, schema]) => [
    schema,
    FIELDS[name as keyof typeof FIELDS],
  ]),
)
const names = new Map<unknown, Component>(
  Object.entries(COMPONENTS).map(([name, schema]) => [schema, name as Component]),
)

/** The components, by name. */
export function componentSchemas(): Record<string, JsonSchema> {
  const registry = z.registry<{ id: string }>()
  const shapes: [string, JsonSchema][] = []
  for (const [id, schema] of Object.entries(COMPONENTS)) {
    if ('kind' in schema) shapes.push([id, shapeSchema(schema)])
    else registry.add(schema, { id })
  }
  const { schemas } = z.toJSONSchema(registry, {
    io: 'input',
    uri: refTo,
    override: ({ zodSchema, jsonSchema }) => refine(jsonSchema as JsonSchema, fields.get(zodSchema)),
  })
  const components = { ...(schemas as Record<string, JsonSchema>), ...Object.fromEntries(shapes) }
  for (const schema of Object.values(components)) {
    delete schema.$schema
    delete schema.$id
  }
  for (const [component, properties] of Object.entries(PROPERTIES)) {
    for (const [name, keywords] of Object.entries(properties)) {
      const property = components[component]?.properties?.[name]
      if (!property) throw new Error(`the schema ${component} has no property ${name} to describe`)
      Object.assign(property, keywords)
    }
  }
  return components
}

/** A reference to the component of a wire schema. @throws when it has no name yet */
export function schemaRef(schema: unknown): { $ref: string } {
  const name = names.get(schema)
  if (!name) throw new Error('a route has a wire schema without a name: give it one in openapi-schemas.ts')
  return { $ref: refTo(name) }
}

/** A shape as JSON schema. Objects stay open, since a later version may add members. */
function shapeSchema(shape: wire.Shape): JsonSchema {
  switch (shape.kind) {
    case 'value':
      return shape === wire.anything ? {} : { type: 'string', ...fields.get(shape) }
    case 'choice':
      return { type: 'string', enum: shape.names }
    case 'list':
      return { type: 'array', items: schemaOrRef(shape.item) }
    case 'optional':
      return schemaOrRef(shape.of)
    case 'nullable':
      if (shape.of === wire.VALUES.string) return { type: ['string', 'null'] }
      return { anyOf: [schemaOrRef(shape.of), { type: 'null' }] }
    case 'object': {
      const members = Object.entries(shape.members)
      const required = members.flatMap(([name, { kind }]) => (kind === 'optional' ? [] : [name]))
      return {
        type: 'object',
        properties: Object.fromEntries(members.map(([name, member]) => [name, schemaOrRef(member)])),
        ...(required.length > 0 && { required }),
        ...(shape.others && { additionalProperties: schemaOrRef(shape.others) }),
      }
    }
  }
}

function schemaOrRef(shape: wire.Shape): JsonSchema {
  return names.has(shape) ? schemaRef(shape) : shapeSchema(shape)
}

function refTo(name: string): string {
  return `#/components/schemas/${name}`
}

function refine(jsonSchema: JsonSchema, keywords: JsonSchema | undefined): void {
  Object.assign(jsonSchema, keywords)
  // Removes bounds that only express the range of a JavaScript number.
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum
}
