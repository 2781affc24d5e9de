/**
 * The components of the OpenAPI document: the wire schemas as JSON schema, under the names that generated clients show.
 * zod's checks by a function are lost in JSON schema, so this module states them again, on the server only.
 */
import { IV_BYTES, KEY_BYTES, MAX_ALLOWED_IPS, MAX_SERVER_MODE_BYTES, PROBLEMS, wire } from '@eaas/protocol'
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

const NO_NUL = '^[^\\u0000]*$'
const GROUPS = '[A-Za-z0-9+/]'
// The last character before the padding carries 2 or 4 bits that count; the rest of them are zero (RFC 4648 section 3.5).
const TWO_BYTES_LEFT = `${GROUPS}{2}[AEIMQUYcgkosw048]=`
const ONE_BYTE_LEFT = `${GROUPS}[AQgw]==`

const BASE64 = { pattern: `^(?:${GROUPS}{4})*(?:${TWO_BYTES_LEFT}|${ONE_BYTE_LEFT})?$`, contentEncoding: 'base64' }

/** The checks of `wire.FIELDS` as JSON schema. */
const FIELDS: Record<keyof typeof wire.FIELDS, JsonSchema> = {
  text: { pattern: NO_NUL },
  name: { pattern: NO_NUL, minLength: 1, maxLength: 255 },
  uuid: { format: 'uuid', pattern: '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' },
  base64: { description: 'Standard base64 with padding, canonical.', ...BASE64 },
  wrappedKey: { description: 'The wrapped DEK, base64. Store it beside what the DEK encrypted.', ...BASE64 },
  dek: {
    description: `A data encryption key (DEK): standard base64 of exactly ${KEY_BYTES} bytes.`,
    pattern: `^(?:${GROUPS}{4}){${Math.floor(KEY_BYTES / 3)}}${TWO_BYTES_LEFT}$`,
    contentEncoding: 'base64',
  },
  iv: {
    description: `Standard base64 of ${IV_BYTES} bytes.`,
    pattern: `^(?:${GROUPS}{4}){${IV_BYTES / 3}}$`,
    contentEncoding: 'base64',
  },
  time: { format: 'date-time' },
}

const KEY_ID = "The key's id, a UUID; anything else is a key that does not exist."
const EXPIRES_AT: JsonSchema = {
  description: 'When it stops working: an RFC 3339 time with an offset, in the future. `null` is never.',
  format: 'date-time',
}
const ADDRESS_RANGE = {
  format: 'cidr',
  pattern: '^(?:(?:[0-9]{1,3}\\.){3}[0-9]{1,3}|[0-9A-Fa-f.]*:[0-9A-Fa-f.:]*)/[0-9]{1,3}$',
}
const ALLOWED_IPS: JsonSchema = {
  description:
    'Addresses or CIDR ranges, IPv4 and IPv6; bits beyond a prefix are cleared. `null` or empty is any address.',
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
    key_version: { description: 'The version that protects new data.' },
    rotation: { description: 'When the server rotates the key by itself; `null` is never.' },
    destroy_at: { description: 'When the key is destroyed; only while the destruction waits.' },
  },
  SetRotation: { interval_days: { description: 'Days between rotations, counted from now; `null` ends them.' } },
  DestroyKey: { confirm: { description: "The key's name, to make sure that it is the one meant." } },
  KeyExport: {
    versions: { description: '`dek_hex` is the 32-byte key of that version, in hexadecimal.' },
    hash_key_hex: { description: 'The key of the blind index, in hexadecimal.' },
  },
  Hash: { key_id: { description: KEY_ID } },
  Hashed: { hash: { description: "HMAC-SHA-256 of the value's UTF-8 bytes, in hexadecimal; rotation keeps it." } },
  Encrypt: {
    key_id: { description: KEY_ID },
    plaintext: { description: `At most ${MAX_SERVER_MODE_BYTES} bytes after decoding.` },
    encoding: {
      description:
        'How `plaintext` is read: as text, or as the base64 of bytes. Left out, the tenant decides: `utf8` unless set.',
    },
  },
  Decrypt: {
    key_id: { description: KEY_ID },
    encoding: { description: 'How the plaintext is answered. Left out, the tenant decides: `utf8` unless set.' },
  },
  Batch: {
    operations: {
      description:
        'Each with the body of the single call and its `key_id`. One that is wrong does not spoil the others: what it ' +
        'would have been answered alone stands in its place.',
    },
  },
  BatchResults: {
    results: { description: 'One for each operation, in order: the status and the body of the single call.' },
  },
  Entry: {
    id: { description: '1, 2, 3 … in each tenant, without gaps.' },
    actor: { description: "The API key's id, or `system`." },
  },
  EntryList: { total: { description: 'All entries that match, on this page or not.' } },
  Verification: {
    broken_at: { description: 'The first entry that is not as it was written.' },
    purged_through: { description: 'The last entry that was deleted at the end of its retention; 0 is none.' },
    checkpoint: {
      description: 'The one that was given; not compared when its entry is not among those that were read.',
    },
  },
  Checkpoint: {
    checkpoint: {
      description: "The signed statement of the log's head. Keep it elsewhere, and give it to verify later.",
    },
    public_key: { description: 'What the signature is checked with.' },
  },
  ApiKey: {
    prefix: { description: 'The beginning of the secret, to recognise it by.' },
    expires_at: { description: 'Absent: never.' },
    allowed_ips: { description: 'Absent: any address.' },
  },
  CreateApiKey: {
    permissions: { description: 'Only what the calling API key holds itself.' },
    expires_at: EXPIRES_AT,
    allowed_ips: ALLOWED_IPS,
  },
  UpdateApiKey: { expires_at: EXPIRES_AT, allowed_ips: ALLOWED_IPS },
  NewApiKey: { secret: { description: 'The API key itself, shown only now.' } },
  Tenant: {
    monthly_encrypt_quota: { description: '`encrypt` calls a month; `null` is any number.' },
    plaintext_encoding: { description: 'What `encoding` is where a call leaves it out; absent: `utf8`.' },
  },
  Usage: {
    month: { description: 'YYYY-MM, in UTC.' },
    operations: { description: 'The number of entries of each action.' },
  },
  Problem: {
    type: { const: 'about:blank' },
    detail: { description: 'What was wrong and what to do, for people.' },
    code: { enum: Object.keys(PROBLEMS), description: 'What was wrong, for programs: these strings stay.' },
  },
}

const fields = new Map<unknown, JsonSchema>(
  Object.entries(wire.FIELDS).map(([name, schema]) => [schema, FIELDS[name as keyof typeof FIELDS]]),
)
const names = new Map<unknown, Component>(
  Object.entries(COMPONENTS).map(([name, schema]) => [schema, name as Component]),
)

/** The components, by name. */
export function componentSchemas(): Record<string, JsonSchema> {
  const registry = z.registry<{ id: string }>()
  for (const [id, schema] of Object.entries(COMPONENTS)) registry.add(schema, { id })
  // Answers are generated as input schemas too: as output, zod would close the objects, but a later version may add fields.
  const { schemas } = z.toJSONSchema(registry, {
    io: 'input',
    uri: refTo,
    override: ({ zodSchema, jsonSchema }) => refine(jsonSchema as JsonSchema, fields.get(zodSchema)),
  })
  const components = schemas as Record<string, JsonSchema>
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

function refTo(name: string): string {
  return `#/components/schemas/${name}`
}

function refine(jsonSchema: JsonSchema, keywords: JsonSchema | undefined): void {
  Object.assign(jsonSchema, keywords)
  // Removes bounds that only express the range of a JavaScript number.
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum
}
